//! Every page over made-up data.

use crate::fake::{SECRET, SETUP_TOKEN, Scene};
use crate::site::{CSRF, person, router};
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use tower::ServiceExt;

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The text of the one heading.
    fn heading(&self) -> &str {
        between(&self.body, "<h1>", "</h1>")
    }

    fn has(&self, testid: &str) -> bool {
        self.body.contains(&format!("data-testid=\"{testid}\""))
    }
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> &'a str {
    let start = text.find(open).map_or(text.len(), |at| at + open.len());
    let rest = &text[start..];
    &rest[..rest.find(close).unwrap_or(rest.len())]
}

async fn get_with(scene: Scene, who: &str, path: &str, cookie: &str) -> Answer {
    let request = Request::get(path).header("cookie", cookie).body(Body::empty()).unwrap();
    let response = router(scene, person(who)).oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer {
        status: parts.status,
        headers: parts.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    }
}

async fn get(scene: Scene, who: &str, path: &str) -> Answer {
    get_with(scene, who, path, "").await
}

#[tokio::test]
async fn show() {
    let a = get(Scene::Rich, "owner", "/admin").await;
    println!("{} {:?}\n{}", a.status, a.headers, a.body);
}
