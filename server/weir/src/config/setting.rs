//! Every setting by name: one table drives flags, environment, file, `config print` and the check
//! for unknown names.

/// One setting and its names.
#[derive(Debug)]
pub struct Setting {
    /// The name in `weir.toml`.
    pub key: &'static str,
    /// The environment variable. A secret's file is named by the same with `_FILE` behind it.
    pub env: &'static str,
    /// The flag. A secret's names its file: the command line can be seen by all users of a machine.
    pub flag: &'static str,
    /// Whether it is a secret: never printed, never a flag, and readable from a file.
    pub secret: bool,
    /// What stands when nobody says anything; empty when nothing does, or when it is found out at
    /// the start.
    pub default: &'static str,
    /// What it is, in one line.
    pub help: &'static str,
}

impl Setting {
    const fn plain(
        key: &'static str,
        env: &'static str,
        flag: &'static str,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self { key, env, flag, secret: false, default, help }
    }

    const fn secret(
        key: &'static str,
        env: &'static str,
        flag: &'static str,
        help: &'static str,
    ) -> Self {
        Self { key, env, flag, secret: true, default: "", help }
    }
}

/// The variable that platforms set to say on which port a program has to listen.
pub(super) const PORT: &str = "PORT";
/// The variable that names the settings file.
pub(super) const CONFIG_FILE: &str = "WEIR_CONFIG";
/// The variable of fault tests that names the place at which the process ends itself.
#[cfg(debug_assertions)]
pub(super) const FAIL_POINT: &str = "WEIR_FAIL_POINT";
/// Variables of the build and test tools beside Weir, which may stand in the same environment. One
/// that is nearly a setting is taken for a slip all the same.
pub(super) const TOOL_PREFIXES: [&str; 3] = ["WEIR_CI_", "WEIR_XTASK_", "WEIR_TEST_"];

pub(super) static BIND: Setting = Setting::plain(
    "bind",
    "WEIR_BIND",
    "bind",
    "127.0.0.1:8080",
    "Where to listen, as address:port. `PORT` alone means all addresses on that port.",
);
pub(super) static METRICS_BIND: Setting = Setting::plain(
    "metrics_bind",
    "WEIR_METRICS_BIND",
    "metrics-bind",
    "127.0.0.1:9464",
    "Where Prometheus metrics are served, as address:port, or `off`.",
);
pub(super) static PUBLIC_URL: Setting = Setting::plain(
    "public_url",
    "WEIR_PUBLIC_URL",
    "public-url",
    "",
    "The address that people and clients use, such as https://gw.example; by default the one bound.",
);
pub(super) static DATA_DIR: Setting = Setting::plain(
    "data_dir",
    "WEIR_DATA_DIR",
    "data-dir",
    "",
    "The folder for the embedded database and the generated key; by default the user's data \
     folder, /var/lib/weir for root.",
);
pub(super) static PG_BIN: Setting = Setting::plain(
    "pg_bin",
    "WEIR_PG_BIN",
    "pg-bin",
    "",
    "The folder of `initdb` and `postgres` for the embedded database; by default it is looked for.",
);
pub(super) static DATABASE_URL: Setting = Setting::secret(
    "database_url",
    "DATABASE_URL",
    "database-url-file",
    "A PostgreSQL server of your own; without it Weir runs one in the data folder.",
);
pub(super) static REDIS_URL: Setting = Setting::secret(
    "redis_url",
    "REDIS_URL",
    "redis-url-file",
    "A Redis server for admission, or redis-cluster:// and its nodes; without it PostgreSQL admits.",
);
pub(super) static REDIS_PREFIX: Setting = Setting::plain(
    "redis_prefix",
    "WEIR_REDIS_PREFIX",
    "redis-prefix",
    "weir",
    "What every key in Redis begins with: letters, digits, - and _.",
);
pub(super) static REDIS_DEADLINE_MS: Setting = Setting::plain(
    "redis_deadline_ms",
    "WEIR_REDIS_DEADLINE_MS",
    "redis-deadline-ms",
    "50",
    "How long one question to Redis may take, in milliseconds, 5 to 5000.",
);
pub(super) static DATABASE_CONNECTIONS: Setting = Setting::plain(
    "database_connections",
    "WEIR_DATABASE_CONNECTIONS",
    "database-connections",
    "16",
    "The most connections to the database, 4 to 500; the limits open half as many again and 6.",
);
pub(super) static MIGRATE: Setting = Setting::plain(
    "migrate",
    "WEIR_MIGRATE",
    "migrate",
    "on",
    "`on`: bring the schema up to date at the start. `off`: refuse to start on another schema.",
);
pub(super) static LOG: Setting = Setting::plain(
    "log",
    "WEIR_LOG",
    "log",
    "auto",
    "The form of the log: `pretty`, `json`, or `auto`, which is pretty on a terminal.",
);
pub(super) static LOG_LEVEL: Setting = Setting::plain(
    "log_level",
    "WEIR_LOG_LEVEL",
    "log-level",
    "info",
    "What is logged: `error`, `warn`, `info`, `debug`, or filters such as `info,gateway=debug`.",
);
pub(super) static BODY_LIMIT_BYTES: Setting = Setting::plain(
    "body_limit_bytes",
    "WEIR_BODY_LIMIT_BYTES",
    "body-limit-bytes",
    "20971520",
    "The largest request body, in bytes.",
);
pub(super) static KEEP_ALIVE_S: Setting = Setting::plain(
    "keep_alive_s",
    "WEIR_KEEP_ALIVE_S",
    "keep-alive-s",
    "75",
    "How long a connection stays open between two requests, in seconds. Longer than the proxy \
     before it, if there is one.",
);
pub(super) static DRAIN_S: Setting = Setting::plain(
    "drain_s",
    "WEIR_DRAIN_S",
    "drain-s",
    "30",
    "How long calls may go on after a stop was asked for, in seconds.",
);
pub(super) static SPOOL_DIR: Setting = Setting::plain(
    "spool_dir",
    "WEIR_SPOOL_DIR",
    "spool-dir",
    "",
    "The folder for calls that are not in the books yet; on a local disk. By default `spool` in the \
     data folder.",
);
pub(super) static SPOOL_ADMIT_SECONDS: Setting = Setting::plain(
    "spool_admit_seconds",
    "WEIR_SPOOL_ADMIT_SECONDS",
    "spool-admit-seconds",
    "30",
    "How long calls are taken while the books cannot be written, in seconds. `0`: none are.",
);
pub(super) static SPOOL_SYNC: Setting = Setting::plain(
    "spool_sync",
    "WEIR_SPOOL_SYNC",
    "spool-sync",
    "off",
    "`on`: the disk is made to keep the spool every 10 ms, so that it survives a loss of power too.",
);
pub(super) static SITE_DIR: Setting = Setting::plain(
    "site_dir",
    "WEIR_SITE_DIR",
    "site-dir",
    "",
    "The folder of the built site, for a binary that does not carry it.",
);
pub(super) static KEY: Setting = Setting::secret(
    "key",
    "WEIR_KEY",
    "key-file",
    "The key that seals provider credentials: 32 bytes in base64. By default one is generated \
     into the data folder; keep a copy of it.",
);
pub(super) static ADMIN_TOKEN: Setting = Setting::secret(
    "admin_token",
    "WEIR_ADMIN_TOKEN",
    "admin-token-file",
    "The token of the admin API, `weir_admin_` and at least 32 characters; without it the API \
     refuses everybody.",
);
pub(super) static TEST_CLOCK: Setting = Setting::plain(
    "test_clock",
    "WEIR_TEST_CLOCK",
    "test-clock",
    "0",
    "`1` lets tests set the clock by POST /test/clock; only while listening on loopback.",
);

/// All settings, in the order in which they are shown.
pub static SETTINGS: [&Setting; 23] = [
    &BIND,
    &METRICS_BIND,
    &PUBLIC_URL,
    &DATABASE_URL,
    &DATABASE_CONNECTIONS,
    &MIGRATE,
    &REDIS_URL,
    &REDIS_PREFIX,
    &REDIS_DEADLINE_MS,
    &DATA_DIR,
    &PG_BIN,
    &KEY,
    &ADMIN_TOKEN,
    &LOG,
    &LOG_LEVEL,
    &BODY_LIMIT_BYTES,
    &KEEP_ALIVE_S,
    &DRAIN_S,
    &SPOOL_DIR,
    &SPOOL_ADMIT_SECONDS,
    &SPOOL_SYNC,
    &SITE_DIR,
    &TEST_CLOCK,
];
