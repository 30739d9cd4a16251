//! From texts to values that fit.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use secrecy::{ExposeSecret, SecretString};

use super::setting as names;
use super::setting::Setting;
use super::sources::Raw;
use super::{Config, ConfigError, Environment, LogFormat, SpoolSettings};

/// Fewer connections would let one report and the writer block admission.
const CONNECTIONS_MIN: u32 = 4;
/// More connections than this slow PostgreSQL down rather than speed Weir up.
const CONNECTIONS_MAX: u32 = 500;
/// Bodies of calls are held in memory: a larger limit would let few callers fill it.
const BODY_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// No supervisor waits longer for a program to end.
const DRAIN_S_MAX: u64 = 3_600;
/// What waits for the books is in memory too, and nobody waits a day for a database.
const SPOOL_ADMIT_S_MAX: u64 = 3_600;
/// Beyond it a call waits longer for a verdict than for a provider.
const REDIS_DEADLINE_MS_MAX: u64 = 5_000;
/// Connections that idle longer are dropped by every box on the way.
const KEEP_ALIVE_S_MAX: u64 = 3_600;
/// Every admin token begins so: a leaked one can be found by its beginning.
pub(super) const ADMIN_TOKEN_PREFIX: &str = "weir_admin_";
/// The shortest token behind the prefix: 32 characters cannot be guessed.
const ADMIN_TOKEN_CHARS_MIN: usize = 32;

/// Where people and clients reach this process: scheme and authority, without a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    origin: String,
    https: bool,
}

impl PublicUrl {
    /// The address of a plain listener.
    #[must_use]
    pub fn of_listener(address: SocketAddr) -> Self {
        let origin = if address.ip().is_unspecified() {
            format!("http://127.0.0.1:{}", address.port())
        } else {
            format!("http://{address}")
        };
        Self { origin, https: false }
    }

    /// Reads `https://host[:port]`, with or without a slash behind it.
    ///
    /// # Errors
    /// A sentence when the text is anything else.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "is not an address such as https://gw.example".to_owned();
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong()),
        };
        if uri.path_and_query().is_some_and(|path| path.as_str() != "/") {
            return Err("must not have a path: Weir serves the root of its host".to_owned());
        }
        let authority = uri.authority().ok_or_else(wrong)?.as_str();
        if authority.contains('@') {
            return Err("must not have a user name".to_owned());
        }
        let scheme = if https { "https" } else { "http" };
        Ok(Self { origin: format!("{scheme}://{}", authority.to_ascii_lowercase()), https })
    }

    /// `https://gw.example`, as a browser sends it in `Origin`.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Whether browsers reach it over TLS.
    #[must_use]
    pub const fn is_https(&self) -> bool {
        self.https
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)
    }
}

pub(super) fn parse(
    raw: &BTreeMap<&'static str, Raw>,
    environment: &Environment,
) -> Result<Config, ConfigError> {
    let mut reader = Reader { raw, problems: Vec::new() };
    let config = read(&mut reader, environment);
    match config {
        Some(config) if reader.problems.is_empty() => Ok(config),
        _ => Err(ConfigError { problems: reader.problems }),
    }
}

/// Reads every setting before it gives up, so that all problems are told.
fn read(reader: &mut Reader<'_>, environment: &Environment) -> Option<Config> {
    let bind = reader.must(&names::BIND, address);
    let metrics_bind = reader.must(&names::METRICS_BIND, |text| match text {
        "off" => Ok(None),
        _ => address(text).map(Some),
    });
    let public_url = reader.may(&names::PUBLIC_URL, PublicUrl::parse);
    let data_dir = reader.may(&names::DATA_DIR, folder);
    let pg_bin = reader.may(&names::PG_BIN, folder);
    let database_connections = reader
        .must(&names::DATABASE_CONNECTIONS, |text| number(text, CONNECTIONS_MIN..=CONNECTIONS_MAX));
    let migrate = reader.must(&names::MIGRATE, switch);
    let log = reader.must(&names::LOG, log_format);
    let log_level = reader.must(&names::LOG_LEVEL, log_level);
    let body_limit_bytes =
        reader.must(&names::BODY_LIMIT_BYTES, |text| number(text, 1024..=BODY_BYTES_MAX));
    let keep_alive = reader.must(&names::KEEP_ALIVE_S, |text| number(text, 1..=KEEP_ALIVE_S_MAX));
    let drain = reader.must(&names::DRAIN_S, |text| number(text, 0..=DRAIN_S_MAX));
    let site_dir = reader.may(&names::SITE_DIR, folder);
    let admin_token = reader.may(&names::ADMIN_TOKEN, admin_token);
    let test_clock = reader.must(&names::TEST_CLOCK, switch);
    if test_clock == Some(true) && bind.is_some_and(|bind| !bind.ip().is_loopback()) {
        reader.problems.push(format!(
            "{} is only for a process that listens on loopback: set {} to 127.0.0.1 or turn it off",
            names::TEST_CLOCK.env,
            names::BIND.env
        ));
    }
    let data_dir = match data_dir {
        Some(folder) => Some(folder),
        None => reader.own_data_dir(environment),
    };
    let spool = spool(reader, data_dir.as_deref());
    let redis_prefix = reader.must(&names::REDIS_PREFIX, key_prefix);
    let redis_deadline =
        reader.must(&names::REDIS_DEADLINE_MS, |text| number(text, 5..=REDIS_DEADLINE_MS_MAX));
    #[cfg(debug_assertions)]
    let fail_point = fail_point(reader, environment);
    Some(Config {
        bind: bind?,
        metrics_bind: metrics_bind?,
        public_url,
        data_dir: data_dir?,
        spool: spool?,
        #[cfg(debug_assertions)]
        fail_point,
        pg_bin,
        database_url: reader.secret(&names::DATABASE_URL),
        redis_url: reader.secret(&names::REDIS_URL),
        redis_prefix: redis_prefix?,
        redis_deadline: Duration::from_millis(redis_deadline?),
        database_connections: database_connections?,
        migrate: migrate?,
        log: log?,
        log_level: log_level?,
        body_limit_bytes: body_limit_bytes?,
        keep_alive: Duration::from_secs(keep_alive?),
        drain: Duration::from_secs(drain?),
        site_dir,
        key: reader.secret(&names::KEY),
        admin_token,
        test_clock: test_clock?,
    })
}

/// What keys may begin with: no brace, which would decide where a cluster keeps them.
fn key_prefix(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if (1..=40).contains(&text.len()) && text.chars().all(is_plain) {
        Ok(text.to_owned())
    } else {
        Err("1 to 40 letters, digits, - and _".to_owned())
    }
}

fn spool(reader: &mut Reader<'_>, data_dir: Option<&Path>) -> Option<SpoolSettings> {
    let dir = reader.may(&names::SPOOL_DIR, folder);
    let admit =
        reader.must(&names::SPOOL_ADMIT_SECONDS, |text| number(text, 0..=SPOOL_ADMIT_S_MAX));
    let sync = reader.must(&names::SPOOL_SYNC, switch);
    Some(SpoolSettings {
        dir: dir.or_else(|| Some(data_dir?.join("spool")))?,
        admit: Duration::from_secs(admit?),
        sync: sync?,
    })
}

/// Reads `name` or `name:N`. It is no setting: it is in no list, and release builds do not know it.
#[cfg(debug_assertions)]
fn fail_point(reader: &mut Reader<'_>, environment: &Environment) -> Option<super::FailAt> {
    let text = environment.get(names::FAIL_POINT)?;
    let (name, times) = text.split_once(':').unwrap_or((text, "1"));
    let point = gateway::FailPoint::ALL.into_iter().find(|point| point.name() == name);
    let found = point.zip(times.parse().ok().filter(|times| *times > 0));
    if found.is_none() {
        reader.problems.push(format!("environment {}: {text} is no place", names::FAIL_POINT));
    }
    found
}

struct Reader<'a> {
    raw: &'a BTreeMap<&'static str, Raw>,
    problems: Vec<String>,
}

impl Reader<'_> {
    /// The value, where one was given. What does not fit is told and counts as not given.
    fn may<T>(
        &mut self,
        setting: &Setting,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let raw = self.raw.get(setting.key)?;
        let text = raw.text.expose_secret();
        match parse(text) {
            Ok(value) => Some(value),
            Err(reason) => {
                let shown = if setting.secret { String::new() } else { format!(" = \"{text}\"") };
                self.problems.push(format!("{}: {}{shown} {reason}", raw.source, setting.key));
                None
            }
        }
    }

    /// The value of a setting that has a default; nothing only when what was given does not fit.
    fn must<T>(
        &mut self,
        setting: &Setting,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        self.may(setting, parse)
    }

    fn secret(&self, setting: &Setting) -> Option<SecretString> {
        self.raw.get(setting.key).map(|raw| raw.text.clone())
    }

    /// Where this user's data belong: the XDG rules, and the system's folder for root.
    fn own_data_dir(&mut self, environment: &Environment) -> Option<PathBuf> {
        if self.raw.contains_key(names::DATA_DIR.key) {
            return None;
        }
        if nix::unistd::geteuid().is_root() {
            return Some(PathBuf::from("/var/lib/weir"));
        }
        let absolute = |name| environment.get(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let data_home =
            absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
        if data_home.is_none() {
            self.problems.push(format!(
                "no home folder is known: set {} to the folder for Weir's data",
                names::DATA_DIR.env
            ));
        }
        data_home.map(|home| home.join("weir"))
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let text = text
        .strip_prefix("localhost:")
        .map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    text.parse().map_err(|_| "is not an address and port such as 127.0.0.1:8080".to_owned())
}

fn folder(text: &str) -> Result<PathBuf, String> {
    // Relative folders mean the one Weir is started in; kept absolute so that a later change of
    // the working folder cannot move the data.
    std::path::absolute(text).map_err(|error| format!("is not a folder: {error}"))
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "on" | "true" | "yes" => Ok(true),
        "0" | "off" | "false" | "no" => Ok(false),
        _ => Err("is neither `on` nor `off`".to_owned()),
    }
}

fn number<T: std::str::FromStr + PartialOrd + fmt::Display>(
    text: &str,
    range: std::ops::RangeInclusive<T>,
) -> Result<T, String> {
    match text.parse::<T>() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!("is not a whole number from {} to {}", range.start(), range.end())),
    }
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "auto" => Ok(LogFormat::Auto),
        "pretty" => Ok(LogFormat::Pretty),
        "json" => Ok(LogFormat::Json),
        _ => Err("is none of `auto`, `pretty` and `json`".to_owned()),
    }
}

fn log_level(text: &str) -> Result<String, String> {
    text.parse::<tracing_subscriber::filter::Targets>()
        .map(|_| text.to_owned())
        .map_err(|error| format!("is not a log filter: {error}"))
}

fn admin_token(text: &str) -> Result<SecretString, String> {
    let long_enough = text
        .strip_prefix(ADMIN_TOKEN_PREFIX)
        .is_some_and(|rest| rest.chars().count() >= ADMIN_TOKEN_CHARS_MIN);
    if !long_enough || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "must be `{ADMIN_TOKEN_PREFIX}` and at least {ADMIN_TOKEN_CHARS_MIN} characters: try \
             `echo {ADMIN_TOKEN_PREFIX}$(openssl rand -hex 24)`"
        ));
    }
    Ok(text.into())
}
