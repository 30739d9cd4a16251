//! Asking for a page, and reading what came.

use crate::fake::Scene;
use crate::site::{person, router};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use tower::ServiceExt;

/// What a page answered.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: String,
    headers: HeaderMap,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("plain text"))
    }

    /// The text of the one heading.
    pub(crate) fn heading(&self) -> &str {
        let text = between(&self.body, "<h1>", "</h1>");
        text.strip_suffix("<!>").unwrap_or(text)
    }

    pub(crate) fn has(&self, testid: &str) -> bool {
        self.body.contains(&format!("data-testid=\"{testid}\""))
    }

    /// Opening tags of an element.
    pub(crate) fn tags(&self, element: &str) -> Vec<&str> {
        let open = format!("<{element}");
        let at = self.body.match_indices(&open).map(|(at, _)| &self.body[at + open.len()..]);
        let tags = at.filter(|rest| rest.starts_with([' ', '>']));
        tags.map(|rest| &rest[..rest.find('>').unwrap_or(rest.len())]).collect()
    }

    /// The parts of the body that begin at an element with this test id.
    pub(crate) fn parts(&self, testid: &str) -> Vec<&str> {
        let mark = format!("data-testid=\"{testid}\"");
        self.body.match_indices(&mark).map(|(at, _)| &self.body[at..]).collect()
    }
}

/// The text between two marks; empty when they are not there.
pub(crate) fn between<'a>(text: &'a str, open: &str, close: &str) -> &'a str {
    let Some((_, rest)) = text.split_once(open) else { return "" };
    rest.split_once(close).map_or("", |(inside, _)| inside)
}

/// The value of an attribute in an opening tag.
pub(crate) fn attribute<'a>(tag: &'a str, name: &str) -> &'a str {
    between(tag, &format!(" {name}=\""), "\"")
}

/// The first amount after this point, in nano-USD or as a count.
pub(crate) fn value(part: &str) -> i64 {
    between(part, "data-value=\"", "\"").parse().expect("a number")
}

/// A page in a scene, asked for by a person, with cookies.
pub(crate) async fn get_with(scene: Scene, who: &str, path: &str, cookies: &str) -> Answer {
    ask(&router(scene, person(who)), path, cookies).await
}

/// A page in a scene, asked for by a person.
pub(crate) async fn get(scene: Scene, who: &str, path: &str) -> Answer {
    get_with(scene, who, path, "").await
}

/// A page of this site.
pub(crate) async fn ask(site: &Router, path: &str, cookies: &str) -> Answer {
    let request = Request::get(path).header("cookie", cookies).body(Body::empty());
    let answer = site.clone().oneshot(request.expect("a request")).await.expect("an answer");
    let (parts, body) = answer.into_parts();
    let body = body.collect().await.expect("a whole body").to_bytes();
    let body = String::from_utf8(body.to_vec()).expect("text");
    Answer { status: parts.status, headers: parts.headers, body }
}
