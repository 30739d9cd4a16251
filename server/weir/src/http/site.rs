//! The built site: style sheet, script, wasm, icon. Held in memory, each with its compressed form.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use axum::body::Body;
use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use sha2::{Digest, Sha256};

/// A site has some two megabytes; a folder with more is another folder.
const SITE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The compressed form of a file stands beside it under this extension.
const COMPRESSED: &str = "br";
/// How much of a hash names a version: 64 bits, for a handful of files.
const ETAG_BYTES: usize = 8;

/// The site's files by path, such as `pkg/weir.css`.
#[derive(Debug, Clone, Default)]
pub struct Site(Arc<HashMap<String, Asset>>);

#[derive(Debug)]
struct Asset {
    plain: Bytes,
    compressed: Option<Bytes>,
    content_type: &'static str,
    etag: HeaderValue,
}

impl Site {
    /// The site that this program carries, or the one in `folder`; an empty one, told in the log,
    /// where there is neither. A folder that is named comes first, so that a developer sees it.
    ///
    /// # Errors
    /// When the folder cannot be read or holds something else than a site.
    pub fn load(folder: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(folder) = folder {
            let mut files = HashMap::new();
            let mut room = SITE_BYTES_MAX;
            read_folder(folder, folder, &mut room, &mut files)
                .with_context(|| format!("cannot read the site in {}", folder.display()))?;
            return Ok(Self::of(files));
        }
        let carried = carried();
        if carried.is_empty() {
            tracing::warn!("there is no site: pages come without style; set WEIR_SITE_DIR");
        }
        Ok(Self::of(carried))
    }

    fn of(files: HashMap<String, Bytes>) -> Self {
        let assets = files.iter().filter_map(|(path, plain)| {
            let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
            if extension == COMPRESSED {
                return None;
            }
            let compressed = files.get(&format!("{path}.{COMPRESSED}")).cloned();
            let content_type = content_type(extension);
            Some((
                path.clone(),
                Asset { plain: plain.clone(), compressed, content_type, etag: etag(plain) },
            ))
        });
        Self(Arc::new(assets.collect()))
    }

    /// The answer to a request for `path`, without its first slash; nothing where there is no such
    /// file.
    #[must_use]
    pub fn answer(&self, path: &str, headers: &HeaderMap) -> Option<Response<Body>> {
        let asset = self.0.get(path)?;
        let mut response = Response::new(Body::empty());
        let out = response.headers_mut();
        out.insert(CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
        out.insert(ETAG, asset.etag.clone());
        out.insert(VARY, HeaderValue::from_static("accept-encoding"));
        // The names do not change with the content: browsers keep the file and ask whether it is
        // still the same.
        out.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if known(headers, &asset.etag) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return Some(response);
        }
        let body = match &asset.compressed {
            Some(compressed) if accepts_brotli(headers) => {
                out.insert(CONTENT_ENCODING, HeaderValue::from_static("br"));
                compressed
            }
            _ => &asset.plain,
        };
        *response.body_mut() = Body::from(body.clone());
        Some(response)
    }
}

fn known(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    let sent = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = sent.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|tag| tag.as_bytes() == etag.as_bytes())
}

fn accepts_brotli(headers: &HeaderMap) -> bool {
    let sent = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut codings = sent.flat_map(|value| value.split(','));
    codings.any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let refused = quality
            .trim()
            .strip_prefix("q=")
            .is_some_and(|q| q.trim_matches(['0', '.']).is_empty());
        name.trim().eq_ignore_ascii_case("br") && !refused
    })
}

fn etag(bytes: &Bytes) -> HeaderValue {
    let hash = Sha256::digest(bytes);
    let hex: String = hash.iter().take(ETAG_BYTES).map(|byte| format!("{byte:02x}")).collect();
    // Weak: the compressed form has the same tag. Hexadecimal digits are always a header value.
    HeaderValue::try_from(format!("W/\"{hex}\"")).unwrap_or(HeaderValue::from_static("W/\"0\""))
}

fn content_type(extension: &str) -> &'static str {
    match extension {
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "wasm" => "application/wasm",
        "svg" => "image/svg+xml",
        "json" => "application/json",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

fn read_folder(
    root: &Path,
    folder: &Path,
    room: &mut u64,
    files: &mut HashMap<String, Bytes>,
) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_folder(root, &path, room, files)?;
            continue;
        }
        let size = path.metadata()?.len();
        let Some(left) = room.checked_sub(size) else {
            bail!("it is larger than {SITE_BYTES_MAX} bytes");
        };
        *room = left;
        // A name that is not Unicode is none of the site's.
        if let Some(name) = path.strip_prefix(root)?.to_str() {
            files.insert(name.to_owned(), Bytes::from(std::fs::read(&path)?));
        }
    }
    Ok(())
}

/// The files that were put into the program when it was built.
#[cfg(feature = "embed")]
fn carried() -> HashMap<String, Bytes> {
    use std::borrow::Cow;

    #[derive(rust_embed::Embed)]
    #[folder = "$WEIR_SITE_DIR"]
    struct Carried;

    let file = |path: Cow<'static, str>| {
        let bytes = match Carried::get(&path)?.data {
            Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            Cow::Owned(bytes) => Bytes::from(bytes),
        };
        Some((path.into_owned(), bytes))
    };
    Carried::iter().filter_map(file).collect()
}

/// This program was built without a site.
#[cfg(not(feature = "embed"))]
fn carried() -> HashMap<String, Bytes> {
    HashMap::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        let file =
            |path: &str, text: &'static str| (path.to_owned(), Bytes::from_static(text.as_bytes()));
        Site::of(HashMap::from([
            file("pkg/weir.css", "a{}"),
            file("pkg/weir.css.br", "small"),
            file("favicon.svg", "<svg/>"),
        ]))
    }

    fn headers(name: http::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    async fn body(response: Response<Body>) -> Bytes {
        axum::body::to_bytes(response.into_body(), 1024).await.unwrap()
    }

    #[tokio::test]
    async fn a_browser_that_takes_brotli_gets_the_compressed_form() {
        let answer =
            |encoding| site().answer("pkg/weir.css", &headers(ACCEPT_ENCODING, encoding)).unwrap();
        let small = answer("gzip, deflate, br");
        assert_eq!(small.headers()[CONTENT_ENCODING], "br");
        assert_eq!(small.headers()[CONTENT_TYPE], "text/css; charset=utf-8");
        assert_eq!(body(small).await, "small");
        for plain in ["gzip", "br;q=0", "brr", ""] {
            let plain = answer(plain);
            assert!(!plain.headers().contains_key(CONTENT_ENCODING));
            assert_eq!(body(plain).await, "a{}");
        }
    }

    #[tokio::test]
    async fn a_known_version_is_not_sent_again() {
        let site = site();
        let first = site.answer("favicon.svg", &HeaderMap::new()).unwrap();
        let etag = first.headers()[ETAG].clone();
        let mut again = HeaderMap::new();
        again.insert(IF_NONE_MATCH, etag);
        let second = site.answer("favicon.svg", &again).unwrap();
        assert_eq!(second.status(), StatusCode::NOT_MODIFIED);
        assert!(body(second).await.is_empty());
        let other = headers(IF_NONE_MATCH, "\"0000\"");
        assert_eq!(site.answer("favicon.svg", &other).unwrap().status(), StatusCode::OK);
    }

    #[test]
    fn nothing_outside_the_site_can_be_named() {
        for path in ["pkg/../favicon.svg", "../Cargo.toml", "pkg/weir.css.br", "", "pkg"] {
            assert!(site().answer(path, &HeaderMap::new()).is_none(), "{path}");
        }
    }
}
