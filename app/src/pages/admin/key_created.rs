//! A key that was just made: its text is shown here once, and never again.

use leptos::prelude::*;
use secrecy::ExposeSecret;

use crate::components::amount::instant;
use crate::components::frame::Place;
use crate::components::icon::{Icon, icon};
use crate::console::ConsoleError;
use crate::islands::CopyButtons;
use crate::pages::request::{Asked, parameter};
use crate::pages::sheet::{Sheet, sheet_page};
use crate::rights::Right;
use crate::routes;
use crate::views::{KeyPage, NewKey, SampleModels};

/// The page.
pub(crate) fn key_created_page() -> AnyView {
    let (slug, id) = (parameter("slug"), parameter("id"));
    sheet_page(Place::Tenants, Right::CreateKeys, move |asked| created(asked, slug, id))
}

async fn created(asked: Asked, slug: String, id: String) -> Result<Sheet, ConsoleError> {
    let id: i64 = id.parse().map_err(|_| ConsoleError::NotFound)?;
    let (console, viewer) = (&asked.console, &asked.viewer);
    let page = console.key(viewer, &slug, id).await?;
    let new_key = console.take_new_key(viewer, &slug, id).await?;
    let gateway = asked.instance.as_ref().map(|instance| instance.gateway_url.clone());
    let (title, body) = match new_key {
        Some(new_key) => (
            format!("Key “{}” created", page.key.name),
            shown_once(&page, &new_key, &gateway.unwrap_or_default()),
        ),
        None => (format!("Key “{}”", page.key.name), shown_before(&page)),
    };
    Ok(Sheet {
        title,
        crumbs: vec![
            ("Tenants".to_owned(), routes::ADMIN_TENANTS.to_owned()),
            (page.tenant_name.clone(), routes::tenant(&slug)),
        ],
        head: None,
        body,
    })
}

fn shown_once(page: &KeyPage, new_key: &NewKey, gateway: &str) -> AnyView {
    let expires = match page.key.expires_ms {
        Some(at_ms) => view! {
            "Expires "
            {instant(at_ms, &page.zone, page.as_of_ms)}
            " "
            {page.zone.clone()}
            "."
        }
        .into_any(),
        None => view! { "Does not expire." }.into_any(),
    };
    view! {
        <section class="panel secret" aria-labelledby="secret-heading">
            <header class="panel-head">
                <h2 id="secret-heading">"Shown only now"</h2>
                <p class="covers">{expires}</p>
            </header>
            <div class="panel-body">
                <p>
                    "Copy the key and store it where your other secrets are. Weir keeps only a hash and cannot show it again."
                </p>
                <div class="secret-line">
                    <code id="key-secret" data-testid="key-secret">
                        {new_key.secret.expose_secret().to_owned()}
                    </code>
                    {copy("key-secret", "", "Copy key", "copy-key")}
                    {copy("key-secret", "WEIR_KEY=", "Copy .env line", "copy-env")}
                </div>
            </div>
        </section>
        {commands(gateway, &new_key.models)}
        <p class="actions">
            <a
                class="button primary"
                href=routes::tenant(&page.tenant_slug)
                data-testid="stored-it"
            >
                "I have stored it"
            </a>
        </p>
        <CopyButtons/>
    }
    .into_any()
}

fn shown_before(page: &KeyPage) -> AnyView {
    view! {
        <div class="panel sheet" data-testid="key-masked">
            <p class="secret-line">
                <code class="id">{page.key.masked.clone()}</code>
            </p>
            <p>
                "The text of this key was shown once, right after it was made. Weir keeps only a hash. If it is lost, revoke this key and make another."
            </p>
            <p class="actions">
                <a
                    class="button primary"
                    href=routes::tenant(&page.tenant_slug)
                    data-testid="back-to-tenant"
                >
                    "Back to the tenant"
                </a>
            </p>
        </div>
    }
    .into_any()
}

fn copy(
    target: &'static str,
    before: &'static str,
    label: &'static str,
    testid: &'static str,
) -> AnyView {
    view! {
        <button
            type="button"
            class="button small copy"
            data-copy=target
            data-before=before
            data-testid=testid
            aria-live="polite"
            hidden
        >
            {label}
        </button>
    }
    .into_any()
}

/// A ready command per dialect that the tenant's models speak. The key itself is not in it: the
/// page holds its text once.
fn commands(gateway: &str, models: &SampleModels) -> AnyView {
    let known = [
        ("OpenAI", "curl-openai", models.openai.as_deref().map(|model| openai(gateway, model))),
        (
            "Anthropic",
            "curl-anthropic",
            models.anthropic.as_deref().map(|model| anthropic(gateway, model)),
        ),
        ("Gemini", "curl-gemini", models.gemini.as_deref().map(|model| gemini(gateway, model))),
    ];
    let blocks: Vec<AnyView> = known
        .into_iter()
        .filter_map(|(name, id, command)| Some((name, id, command?)))
        .map(|(name, id, command)| {
            view! {
                <div class="command">
                    <div class="command-head">
                        <h3>{name}</h3>
                        {copy(id, "", "Copy", match id {
                            "curl-openai" => "copy-openai",
                            "curl-anthropic" => "copy-anthropic",
                            _ => "copy-gemini",
                        })}
                    </div>
                    <pre tabindex="0"><code id=id data-testid=id>{command}</code></pre>
                </div>
            }
            .into_any()
        })
        .collect();
    if blocks.is_empty() {
        return view! {
            <p class="notice warn" role="note">
                {icon(Icon::Warning)}
                "The plan of this tenant allows no model yet, so there is nothing to call."
            </p>
        }
        .into_any();
    }
    view! {
        <section class="panel" aria-labelledby="try-heading">
            <header class="panel-head">
                <h2 id="try-heading">"Try it"</h2>
                <p class="covers">
                    "Put the key into the shell first: " <code>"export WEIR_KEY=…"</code>
                </p>
            </header>
            <div class="panel-body commands">{blocks}</div>
        </section>
    }
    .into_any()
}

fn openai(gateway: &str, model: &str) -> String {
    let body = format!(
        r#"{{"model":"{}","messages":[{{"role":"user","content":"Say hello"}}]}}"#,
        json_text(model)
    );
    command(&format!("{gateway}/v1/chat/completions"), &["Authorization: Bearer $WEIR_KEY"], &body)
}

fn anthropic(gateway: &str, model: &str) -> String {
    let body = format!(
        r#"{{"model":"{}","max_tokens":64,"messages":[{{"role":"user","content":"Say hello"}}]}}"#,
        json_text(model)
    );
    let headers = ["x-api-key: $WEIR_KEY", "anthropic-version: 2023-06-01"];
    command(&format!("{gateway}/v1/messages"), &headers, &body)
}

fn gemini(gateway: &str, model: &str) -> String {
    let body = r#"{"contents":[{"parts":[{"text":"Say hello"}]}]}"#;
    let url = format!("{gateway}/v1beta/models/{}:generateContent", routes::segment(model));
    command(&url, &["x-goog-api-key: $WEIR_KEY"], body)
}

/// One curl command. Only the headers stand in double quotes: there the shell puts the key in.
fn command(url: &str, headers: &[&str], body: &str) -> String {
    let mut text = format!("curl {}", quoted(url));
    for header in headers {
        text.push_str(&format!(" \\\n  -H \"{header}\""));
    }
    text.push_str(" \\\n  -H 'content-type: application/json' \\\n  -d ");
    text.push_str(&quoted(body));
    text
}

/// `text` as one word of a shell, whatever is in it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// `text` inside a JSON string.
fn json_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\\' => escaped.extend(['\\', character]),
            control if control.is_control() => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_dialect_has_its_own_address_header_and_body() {
        let gateway = "https://gw.example";
        assert_eq!(
            openai(gateway, "flash"),
            "curl 'https://gw.example/v1/chat/completions' \\\n  \
             -H \"Authorization: Bearer $WEIR_KEY\" \\\n  \
             -H 'content-type: application/json' \\\n  \
             -d '{\"model\":\"flash\",\"messages\":[{\"role\":\"user\",\"content\":\"Say hello\"}]}'"
        );
        assert!(anthropic(gateway, "haiku").contains("-H \"anthropic-version: 2023-06-01\""));
        assert!(
            gemini(gateway, "g").contains("'https://gw.example/v1beta/models/g:generateContent'")
        );
    }

    #[test]
    fn a_hostile_model_name_leaves_neither_the_shell_word_nor_the_json_string() {
        let text = openai("https://gw", "x'; rm -rf \"~\" #");
        assert!(text.contains(r#"x'\''; rm -rf \"~\" #"#), "{text}");
        assert!(gemini("https://gw", "a'/../b").contains("a%27%2F..%2Fb:generateContent"));
    }
}
