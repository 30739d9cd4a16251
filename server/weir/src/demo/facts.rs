//! What a person needs to know to look around.

use std::fmt;

use secrecy::ExposeSecret;

use crate::seed::{DemoFacts, DemoSecrets, OPERATOR_EMAIL, SHOWN_KEY, SHOWN_TENANT, TENANT_EMAIL};

/// The models that the ready calls name: one for each dialect, the least dear.
const OPENAI_MODEL: &str = "gpt-6-luna";
const ANTHROPIC_MODEL: &str = "claude-haiku-5-5";
const GEMINI_MODEL: &str = "gemini-2.5-flash-lite";
/// The tenant that is over its budget, its key, and a dear model.
const OVER: (&str, &str) = ("harborline-freight", "support-chat");
const OVER_MODEL: &str = "claude-opus-5-5";

/// The facts of a demonstration that serves.
pub(super) struct Facts<'a> {
    pub(super) demo: &'a DemoFacts,
    pub(super) secrets: &'a DemoSecrets,
    pub(super) public_url: String,
    /// Where the data are.
    pub(super) data: String,
    pub(super) with_traffic: bool,
    /// Whether the output is a terminal that shows colours.
    pub(super) colour: bool,
}

/// A ready call: what it shows, and its line.
struct Call {
    title: &'static str,
    line: String,
}

impl fmt::Display for Facts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bold, dim, plain) =
            if self.colour { ("\x1b[1m", "\x1b[2m", "\x1b[0m") } else { ("", "", "") };
        let made = self.demo.seeded.map_or_else(
            || "with the data of its last start".to_owned(),
            |s| {
                format!("{} calls made up in {:.1} s", thousands(s.events), s.elapsed.as_secs_f32())
            },
        );
        let traffic = if self.with_traffic { ", live traffic" } else { "" };
        let tenants = self.demo.tenants.len();
        writeln!(f, "{bold}Weir demo is ready{plain}: {tenants} tenants, {made}{traffic}.\n")?;
        let shown = self.demo.tenants.iter().find(|t| t.slug == SHOWN_TENANT);
        let (name, plan) = shown.map_or(("", ""), |t| (t.name, t.plan));
        let operator = self.secrets.operator_password.expose_secret();
        let tenant = self.secrets.tenant_password.expose_secret();
        for (label, value, note) in [
            ("Console", self.public_url.as_str(), ""),
            ("Operator", OPERATOR_EMAIL, operator),
            ("Tenant", TENANT_EMAIL, tenant),
            ("API key", self.key(SHOWN_TENANT, SHOWN_KEY), ""),
            ("Data", self.data.as_str(), ""),
        ] {
            let line = format!("  {bold}{label:<9}{plain} {value:<25}  {note}");
            writeln!(f, "{}", line.trim_end())?;
        }
        writeln!(f, "\n{dim}The tenant and the key are of {name}, plan {plan}.{plain}\n")?;
        writeln!(f, "{bold}Calls to try{plain}")?;
        for call in self.calls() {
            writeln!(f, "\n  {dim}# {}{plain}\n  {}", call.title, call.line)?;
        }
        write!(
            f,
            "\n{bold}Ctrl-C{plain} stops everything. `weir demo` goes on with these data; `weir demo --fresh` \
             starts over."
        )
    }
}

impl Facts<'_> {
    fn key(&self, slug: &str, name: &str) -> &str {
        self.secrets.key(slug, name).map_or("", tenants::api_key::ApiKeySecret::expose)
    }

    fn calls(&self) -> Vec<Call> {
        let key = self.key(SHOWN_TENANT, SHOWN_KEY);
        let openai = |key: &str, stream: bool, title| {
            let bearer = format!("authorization: Bearer {key}");
            let body = with_messages(OPENAI_MODEL, stream, "");
            self.call(title, stream, "/v1/chat/completions", &[&bearer], &body)
        };
        let anthropic = |stream: bool, title| {
            let key = format!("x-api-key: {key}");
            let body = with_messages(ANTHROPIC_MODEL, stream, r#","max_tokens":200"#);
            let headers = [key.as_str(), "anthropic-version: 2023-06-01"];
            self.call(title, stream, "/v1/messages", &headers, &body)
        };
        let gemini = |stream: bool, title| {
            let verb = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
            let path = format!("/v1beta/models/{GEMINI_MODEL}:{verb}");
            let key = format!("x-goog-api-key: {key}");
            let body = r#"{"contents":[{"role":"user","parts":[{"text":"Say hello."}]}]}"#;
            self.call(title, stream, &path, &[&key], body)
        };
        vec![
            openai(key, false, "OpenAI"),
            openai(key, true, "OpenAI, streamed"),
            anthropic(false, "Anthropic"),
            anthropic(true, "Anthropic, streamed"),
            gemini(false, "Gemini"),
            gemini(true, "Gemini, streamed"),
            self.refused(),
        ]
    }

    /// A call of the tenant that is over its budget: so large that too little is left for it.
    fn refused(&self) -> Call {
        let key = format!("x-api-key: {}", self.key(OVER.0, OVER.1));
        let headers = [key.as_str(), "anthropic-version: 2023-06-01"];
        let body = with_messages(OVER_MODEL, false, r#","max_tokens":60000"#);
        let title = "Refused with 402: this tenant is over its budget";
        self.call(title, false, "/v1/messages", &headers, &body)
    }

    fn call(
        &self,
        title: &'static str,
        stream: bool,
        path: &str,
        headers: &[&str],
        body: &str,
    ) -> Call {
        let quiet = if stream { "-sN" } else { "-s" };
        let headers: String = headers.iter().map(|header| format!(" -H '{header}'")).collect();
        let url = &self.public_url;
        let line = format!(
            "curl {quiet} '{url}{path}'{headers} -H 'content-type: application/json' -d '{body}'"
        );
        Call { title, line }
    }
}

fn with_messages(model: &str, stream: bool, more: &str) -> String {
    let stream = if stream { r#","stream":true"# } else { "" };
    let message = r#"{"role":"user","content":"Say hello."}"#;
    format!(r#"{{"model":"{model}"{more}{stream},"messages":[{message}]}}"#)
}

/// `90274` as `90,274`.
fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::seed::{DemoTenant, Seeded};

    fn shown(colour: bool) -> String {
        let demo = DemoFacts {
            seeded: Some(Seeded {
                events: 1_090_274,
                refusals: 5,
                elapsed: Duration::from_millis(4_240),
            }),
            tenants: vec![DemoTenant { slug: SHOWN_TENANT, name: "Lumen Clinics", plan: "pro" }],
        };
        let secrets = DemoSecrets::generate();
        let facts = Facts {
            demo: &demo,
            secrets: &secrets,
            public_url: "http://127.0.0.1:8080".to_owned(),
            data: "/var/lib/weir/demo".to_owned(),
            with_traffic: true,
            colour,
        };
        facts.to_string()
    }

    #[test]
    fn every_dialect_has_a_plain_and_a_streamed_call_with_a_body_that_is_json() {
        let text = shown(false);
        let lines: Vec<&str> = text.lines().filter(|l| l.trim().starts_with("curl")).collect();
        assert_eq!(lines.len(), 7);
        for line in &lines {
            let body = line.rsplit("-d '").next().unwrap().trim_end_matches('\'');
            serde_json::from_str::<serde_json::Value>(body).unwrap();
            assert!(line.contains("weir_sk_"), "{line}");
        }
        assert_eq!(lines.iter().filter(|line| line.contains("curl -sN")).count(), 3);
    }

    #[test]
    fn a_pipe_gets_no_colours_and_a_terminal_does() {
        assert!(!shown(false).contains('\x1b'));
        assert!(shown(true).contains("\x1b[1mOperator"));
        assert!(
            shown(false)
                .starts_with("Weir demo is ready: 1 tenants, 1,090,274 calls made up in 4.2 s")
        );
    }
}
