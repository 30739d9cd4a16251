//! A whole Weir for one test: its own database, a free port, a clock that the test sets.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use reqwest::{Method, Response};
use tenants::member::{self, NewMember, Role};
use testkit::TestDatabase;
use weir::boot::Running;
use weir::config::{Config, Environment, Flags};
use weir::weir::Weir;

/// The admin token of every test.
pub(crate) const ADMIN_TOKEN: &str = "weir_admin_0123456789abcdef0123456789abcdef";
/// The password of everybody in tests.
pub(crate) const PASSWORD: &str = "correct horse battery";

/// The owner of most tests.
pub(crate) const ANA: &str = "ana@weir.example";

static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// A running Weir with an owner.
pub(crate) async fn with_owner() -> TestWeir {
    let weir = TestWeir::start().await;
    weir.member(ANA, Role::Owner, None).await;
    weir
}

/// A running Weir.
pub(crate) struct TestWeir {
    running: Running,
    database: TestDatabase,
    folder: PathBuf,
    /// A client that follows nothing and keeps nothing.
    pub(crate) client: reqwest::Client,
}

impl TestWeir {
    /// Starts one with the settings of a test.
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts one with these settings besides.
    pub(crate) async fn start_with(settings: &[(&str, &str)]) -> Self {
        let database = testkit::database().await;
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-it-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let mut variables = vec![
            ("WEIR_BIND", "127.0.0.1:0"),
            ("WEIR_METRICS_BIND", "off"),
            ("WEIR_TEST_CLOCK", "1"),
            ("WEIR_DRAIN_S", "2"),
            ("WEIR_LOG_LEVEL", "warn"),
            ("WEIR_DATABASE_CONNECTIONS", "8"),
            ("WEIR_ADMIN_TOKEN", ADMIN_TOKEN),
            ("DATABASE_URL", database.url.as_str()),
            ("WEIR_DATA_DIR", folder.to_str().unwrap()),
        ];
        variables.retain(|(name, _)| settings.iter().all(|(other, _)| other != name));
        variables.extend_from_slice(settings);
        let config = Config::load(&Flags::default(), &Environment::of(&variables)).unwrap();
        weir::logging::start(&config);
        // A second test of this process finds the first one's.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let running = Running::start(config).await.unwrap_or_else(|failure| panic!("{failure}"));
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .unwrap();
        Self { running, database, folder, client }
    }

    /// Its parts.
    pub(crate) fn weir(&self) -> &Weir {
        self.running.weir()
    }

    /// Its database.
    pub(crate) fn pool(&self) -> &sqlx::PgPool {
        &self.database.pool
    }

    /// The address of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.running.address())
    }

    /// Asks without any credential.
    pub(crate) async fn get(&self, path: &str) -> Response {
        self.client.get(self.url(path)).send().await.unwrap()
    }

    /// Asks the admin API.
    pub(crate) async fn admin(
        &self,
        method: Method,
        path: &str,
        body: Option<serde_json::Value>,
    ) -> (u16, serde_json::Value) {
        let url = self.url(&format!("/admin/api/v1{path}"));
        let mut request = self.client.request(method, url).bearer_auth(ADMIN_TOKEN);
        if let Some(body) = body {
            request = request.body(body.to_string());
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(serde_json::Value::Null))
    }

    /// Lets a person in, with the password of everybody.
    pub(crate) async fn member(&self, email: &str, role: Role, tenant: Option<&str>) {
        let tenant = match tenant {
            Some(slug) => Some(tenants::tenant::find_by_slug(self.pool(), slug).await.unwrap().id),
            None => None,
        };
        let new = NewMember { email: email.to_owned(), password: PASSWORD.into(), role, tenant };
        member::create(self.pool(), &self.weir().passwords, new).await.unwrap();
    }

    /// Makes a tenant on a plan.
    pub(crate) async fn tenant(&self, slug: &str, plan: &str) -> i64 {
        let body = serde_json::json!({ "slug": slug, "name": slug.to_uppercase(), "plan": plan });
        let (status, made) = self.admin(Method::POST, "/tenants", Some(body)).await;
        assert_eq!(status, 201, "{made}");
        made["id"].as_i64().unwrap()
    }

    /// Makes a key and gives its id and text.
    pub(crate) async fn key(&self, tenant: i64, name: &str) -> (i64, String) {
        let body = serde_json::json!({ "name": name });
        let path = format!("/tenants/{tenant}/keys");
        let (status, made) = self.admin(Method::POST, &path, Some(body)).await;
        assert_eq!(status, 201, "{made}");
        let secret = made["secret"].as_str().unwrap().to_owned();
        (made["key"]["id"].as_i64().unwrap(), secret)
    }

    /// Stops it in good order and makes sure that nothing is left open.
    pub(crate) async fn end(self) {
        drop(self.stop().await);
    }

    /// The same, and keeps the database to look into.
    pub(crate) async fn stop(self) -> TestDatabase {
        let Self { running, database, folder, .. } = self;
        running.stop().await.unwrap_or_else(|failure| panic!("{failure}"));
        let holds: i64 = sqlx::query_scalar("select count(*) from holds")
            .fetch_one(&database.pool)
            .await
            .unwrap();
        assert_eq!(holds, 0, "a hold is left open");
        let _ = std::fs::remove_dir_all(folder);
        database
    }
}
