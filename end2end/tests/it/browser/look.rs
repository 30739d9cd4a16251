//! A look at a page: what it asks for, what it says on the console, how it fits, and its pictures.

use std::fs;
use std::path::{Path, PathBuf};

use super::driver::{Browser, PAGE, Said};
use crate::wait::until;

/// A desk and a phone, in CSS pixels.
const WIDTHS: [u32; 2] = [1_280, 360];
/// A window's height before the page is measured.
const HEIGHT: u32 = 900;
/// No page of these tests is as high; a picture beyond it could not be looked at.
const HEIGHT_MAX: u32 = 12_000;

/// Looks at the page that is open, light and dark, on a desk and on a phone, keeps the pictures as
/// `shots/<name>-<scheme>-<width>.png`, and checks all that holds for every page.
pub(crate) async fn look(browser: &Browser, origin: &str, name: &str) {
    unstyled(browser, name).await;
    let mut sideways = Vec::new();
    for scheme in ["light", "dark"] {
        browser.prefer(scheme).await;
        for width in WIDTHS {
            browser.resize(width, HEIGHT).await;
            sideways.extend(scrolls_sideways(browser, width).await);
            keep(browser, &format!("{name}-{scheme}-{width}"), width).await;
        }
    }
    browser.prefer("light").await;
    browser.resize(WIDTHS[0], HEIGHT).await;
    quiet(browser, origin, name).await;
    assert!(sideways.is_empty(), "{name} scrolls sideways: {sideways:?}");
}

/// Nothing was said on the console and nobody else was asked for anything.
pub(crate) async fn quiet(browser: &Browser, origin: &str, name: &str) {
    let said: Vec<Said> =
        browser.console().await.into_iter().filter(|said| said.level != "DEBUG").collect();
    assert!(said.is_empty(), "{name}: the console says {said:?}");
    let asked = browser.requests().await;
    assert!(asked.iter().any(|url| url.starts_with(origin)), "{name}: requests are not seen");
    // The browser's own pages, which are no page's doing, have schemes of their own.
    let leaves_the_browser =
        |url: &str| ["http", "ws"].iter().any(|scheme| url.starts_with(scheme));
    let own = format!("{origin}/");
    let foreign: Vec<&String> =
        asked.iter().filter(|url| leaves_the_browser(url) && !url.starts_with(&own)).collect();
    assert!(foreign.is_empty(), "{name}: other origins are asked: {foreign:?}");
}

/// No element has a style of its own, which the site's policy would refuse.
async fn unstyled(browser: &Browser, name: &str) {
    let styled =
        browser.run("return [...document.querySelectorAll('[style]')].map(e => e.outerHTML)").await;
    assert_eq!(styled, serde_json::json!([]), "{name}: styles in attributes");
}

/// Says how far the page is wider than its window, if it is, and which elements stick out.
async fn scrolls_sideways(browser: &Browser, width: u32) -> Option<String> {
    let seen = browser
        .run(
            "const root = document.documentElement, edge = root.clientWidth;
             const out = [...document.body.querySelectorAll('*')]
                 .filter(e => e.getBoundingClientRect().right > edge + 1 && e.checkVisibility())
                 .map(e => `${e.tagName} ${e.className}`);
             return [root.scrollWidth, edge, out.slice(0, 5).join(', ')]",
        )
        .await;
    let (whole, window) = (seen[0].as_i64()?, seen[1].as_i64()?);
    (whole > window).then(|| format!("{whole} px in {width} px: {}", seen[2]))
}

async fn keep(browser: &Browser, name: &str, width: u32) {
    let height = browser.run("return document.documentElement.scrollHeight").await;
    let height = height.as_u64().and_then(|height| u32::try_from(height).ok()).unwrap_or(HEIGHT);
    browser.resize(width, height.clamp(1, HEIGHT_MAX)).await;
    until("the page is at rest", PAGE, async || {
        let moving = browser.run("return document.getAnimations().length").await;
        if moving == 0 { Ok(()) } else { Err(format!("{moving} animations")) }
    })
    .await;
    let folder = shots();
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{name}.png")), browser.picture().await).unwrap();
}

fn shots() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("shots")
}
