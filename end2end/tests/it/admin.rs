//! The admin API, as an operator's script calls it.

use serde_json::{Value, json};

use crate::weir_process::{ADMIN_TOKEN, Weir};

/// Prices hold ever since: no call of a test is older.
const EVER_SINCE: &str = "2020-01-01T00:00:00Z";
const DEFAULT_OUTPUT_TOKENS: i64 = 1_024;
const OUTPUT_TOKENS_MAX: i64 = 8_192;

/// The API of one process.
#[derive(Debug)]
pub(crate) struct Admin {
    base: String,
    http: reqwest::Client,
}

impl Admin {
    pub(crate) fn of(weir: &Weir) -> Self {
        Self { base: weir.url("/admin/api/v1"), http: crate::http::client() }
    }

    /// A provider; gives its id.
    pub(crate) async fn provider(&self, dialect: &str, base_url: &str, credential: &str) -> i64 {
        let body = json!({
            "name": format!("sim-{dialect}"),
            "dialect": dialect,
            "base_url": base_url,
            "credential": credential,
        });
        id(&self.post("providers", &body).await)
    }

    /// A model of class `flash` that `provider` serves under the same name, and its price.
    pub(crate) async fn model(&self, name: &str, provider: i64, prices: Value) {
        let body = json!({
            "name": name,
            "class": "flash",
            "context_tokens": 1_000_000,
            "max_output_tokens": 65_536,
            "routes": [{"provider_id": provider, "upstream_model": name}],
        });
        let model = id(&self.post("models", &body).await);
        let body = json!({"effective_from": EVER_SINCE, "prices": prices, "source": "test"});
        self.post(&format!("models/{model}/prices"), &body).await;
    }

    /// A plan with these rules and all models; gives its id.
    pub(crate) async fn plan(&self, name: &str, rules: &[Value], markup_bps: i64) -> i64 {
        let body = json!({
            "name": name,
            "rules": rules,
            "models": "all",
            "markup_bps": markup_bps,
            "default_max_output_tokens": DEFAULT_OUTPUT_TOKENS,
            "max_output_tokens": OUTPUT_TOKENS_MAX,
        });
        id(&self.post("plans", &body).await)
    }

    /// A tenant, whose name is its slug; gives its id.
    pub(crate) async fn tenant(&self, slug: &str, plan: i64) -> i64 {
        let body = json!({"slug": slug, "name": slug, "plan_id": plan});
        id(&self.post("tenants", &body).await)
    }

    /// A key; gives its text, which is told only now.
    pub(crate) async fn key(&self, tenant: i64, name: &str) -> String {
        let key = self.post(&format!("tenants/{tenant}/keys"), &json!({"name": name})).await;
        key["secret"].as_str().unwrap_or_else(|| panic!("no secret in {key}")).to_owned()
    }

    /// The slugs of all tenants.
    pub(crate) async fn tenants(&self) -> Vec<String> {
        let request = self.http.get(format!("{}/tenants", self.base)).bearer_auth(ADMIN_TOKEN);
        let list = answer("tenants", request).await;
        let all = list["data"].as_array().unwrap_or_else(|| panic!("no list in {list}"));
        all.iter().map(|tenant| tenant["slug"].as_str().unwrap_or_default().to_owned()).collect()
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        let request = self.http.post(format!("{}/{path}", self.base)).bearer_auth(ADMIN_TOKEN);
        let request = request.header("content-type", "application/json").body(body.to_string());
        answer(path, request).await
    }
}

async fn answer(path: &str, request: reqwest::RequestBuilder) -> Value {
    let answer = request.send().await.unwrap_or_else(|e| panic!("{path}: no answer: {e:?}"));
    let status = answer.status();
    let bytes = answer.bytes().await.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    assert!(status.is_success(), "the admin API answers {path} with {status}: {text}");
    serde_json::from_str(&text).unwrap_or_default()
}

fn id(created: &Value) -> i64 {
    created["id"].as_i64().unwrap_or_else(|| panic!("no id in {created}"))
}
