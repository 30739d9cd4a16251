//! All pages over made-up data, to look at them in a browser.
//!
//! `cargo run -p app --example preview -- [ADDRESS] [FOLDER OF weir.js AND weir_bg.wasm]`, then
//! open `http://owner-rich-dark.localhost:3111/admin`: the host says who looks (owner, finance,
//! support, member, nobody), at what (rich, empty, broken, hostile), in which theme (light, dark).

#[path = "../tests/it/fake.rs"]
mod fake;
#[path = "../tests/it/made_up.rs"]
mod made_up;
#[path = "../tests/it/site.rs"]
mod site;

use std::path::{Path, PathBuf};

use axum::Router;
use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, COOKIE, HOST};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use fake::Scene;
use tower::ServiceExt;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:3111".to_owned());
    let bundle = arguments.next().map(PathBuf::from);
    let serve = Router::new().fallback(move |request| answer(request, bundle.clone()));
    let listener = tokio::net::TcpListener::bind(&address).await?;
    axum::serve(listener, serve).await
}

async fn answer(mut request: Request, bundle: Option<PathBuf>) -> Response {
    if let Some(file) = file(request.uri().path(), bundle.as_deref()) {
        return file;
    }
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let label = host.split('.').next().unwrap_or_default().to_owned();
    let mut words = label.split('-');
    let viewer = site::person(words.next().unwrap_or_default());
    let scene = match words.next() {
        Some("empty") => Scene::Empty,
        Some("broken") => Scene::Broken,
        Some("hostile") => Scene::Hostile,
        _ => Scene::Rich,
    };
    let theme = format!("{}={}", app::routes::THEME_COOKIE, words.next().unwrap_or("system"));
    if let Ok(cookie) = HeaderValue::from_str(&theme) {
        request.headers_mut().insert(COOKIE, cookie);
    }
    match site::router(scene, viewer).oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Style sheet, icon and bundle, read anew each time so that an edit shows on reload.
fn file(path: &str, bundle: Option<&Path>) -> Option<Response> {
    let style = Path::new(env!("CARGO_MANIFEST_DIR")).join("../style");
    let (bytes, kind) = match path {
        app::routes::STYLE_SHEET => (style_sheet(&style).into_bytes(), "text/css"),
        app::routes::FAVICON => (std::fs::read(style.join("favicon.svg")).ok()?, "image/svg+xml"),
        "/pkg/weir.js" => (std::fs::read(bundle?.join("weir.js")).ok()?, "text/javascript"),
        "/pkg/weir_bg.wasm" => {
            (std::fs::read(bundle?.join("weir_bg.wasm")).ok()?, "application/wasm")
        }
        _ => return None,
    };
    Some((StatusCode::OK, [(CONTENT_TYPE, kind)], bytes).into_response())
}

fn style_sheet(folder: &Path) -> String {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .map(|entries| entries.filter_map(Result::ok).map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "css"));
    files.sort();
    files.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}
