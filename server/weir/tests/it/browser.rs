//! A browser as far as the server can tell: it keeps cookies, names its origin and posts forms.

use std::collections::BTreeMap;

use reqwest::header::{HeaderMap, LOCATION, SET_COOKIE};
use reqwest::{Method, Response};

use crate::process::{PASSWORD, TestWeir};

/// One person's browser.
pub(crate) struct Browser<'a> {
    weir: &'a TestWeir,
    pub(crate) cookies: BTreeMap<String, String>,
    /// Every `Set-Cookie` so far, as it came.
    pub(crate) set_cookies: Vec<String>,
    /// The form token of the page seen last.
    pub(crate) csrf: String,
}

/// What came back.
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Seen {
    /// Where a redirect goes; nothing for any other answer.
    pub(crate) fn location(&self) -> &str {
        self.headers.get(LOCATION).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl<'a> Browser<'a> {
    pub(crate) fn new(weir: &'a TestWeir) -> Self {
        Self { weir, cookies: BTreeMap::new(), set_cookies: Vec::new(), csrf: String::new() }
    }

    /// A browser in which somebody has signed in.
    pub(crate) async fn signed_in(weir: &'a TestWeir, email: &str) -> Self {
        let mut browser = Self::new(weir);
        let landed = browser.sign_in(email, PASSWORD).await;
        assert_eq!(landed.status, 303, "{}", landed.text);
        assert!(!landed.location().contains("error"), "{}", landed.location());
        browser
    }

    /// Opens the sign-in page and posts its form.
    pub(crate) async fn sign_in(&mut self, email: &str, password: &str) -> Seen {
        self.get("/login").await;
        self.post("/login", &[("email", email), ("password", password)]).await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Seen {
        let request = self.weir.client.request(Method::GET, self.weir.url(path));
        let seen = self.send(request).await;
        if let Some(token) = token_in(&seen.text) {
            self.csrf = token;
        }
        seen
    }

    /// Posts a form of the page seen last.
    pub(crate) async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Seen {
        let token = self.csrf.clone();
        let origin = self.weir.url("");
        self.post_as(path, fields, &token, &[("origin", &origin)]).await
    }

    /// Posts a form with this token and these headers.
    pub(crate) async fn post_as(
        &mut self,
        path: &str,
        fields: &[(&str, &str)],
        token: &str,
        headers: &[(&str, &str)],
    ) -> Seen {
        let all: Vec<(&str, &str)> = fields.iter().copied().chain([("csrf", token)]).collect();
        let body = app::routes::with_query("", &all);
        let mut request = self
            .weir
            .client
            .request(Method::POST, self.weir.url(path))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body.trim_start_matches('?').to_owned());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request).await
    }

    async fn send(&mut self, request: reqwest::RequestBuilder) -> Seen {
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let response = request.header("cookie", cookies.join("; ")).send().await.unwrap();
        self.keep_cookies(&response);
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Seen { status, headers, text: response.text().await.unwrap() }
    }

    fn keep_cookies(&mut self, response: &Response) {
        for value in response.headers().get_all(SET_COOKIE) {
            let text = value.to_str().unwrap().to_owned();
            let (name, rest) = text.split_once('=').unwrap();
            let value = rest.split(';').next().unwrap();
            if rest.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
            self.set_cookies.push(text);
        }
    }
}

/// The form token of a page.
fn token_in(html: &str) -> Option<String> {
    let at = html.find("name=\"csrf\"")?;
    let tag_start = html[..at].rfind('<')?;
    let tag = &html[tag_start..at + html[at..].find('>')?];
    let value = tag.split("value=\"").nth(1)?;
    Some(value.split('"').next()?.to_owned())
}
