//! How this process is set up: the only place that reads the environment.
//!
//! A value is taken from the first place that has it: a flag, the environment, `weir.toml`, the
//! built-in default. An unknown name in the file or among the `WEIR_*` variables is an error.

mod flags;
mod setting;
mod show;
mod sources;
mod suggest;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

pub use flags::Flags;
pub use setting::{SETTINGS, Setting};
pub use show::Shown;
pub use sources::Source;
pub use values::PublicUrl;

/// What this process is set up to do.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen.
    pub bind: SocketAddr,
    /// Where metrics are served; `None` when they are not.
    pub metrics_bind: Option<SocketAddr>,
    /// What people and clients use to reach this process; `None` for the address bound.
    pub public_url: Option<PublicUrl>,
    /// The folder for the embedded database and the generated key.
    pub data_dir: PathBuf,
    /// The folder of PostgreSQL's programs, for the embedded database.
    pub pg_bin: Option<PathBuf>,
    /// The operator's own PostgreSQL; `None` for the embedded one.
    pub database_url: Option<SecretString>,
    /// The operator's Redis.
    pub redis_url: Option<SecretString>,
    /// What every key in Redis begins with.
    pub redis_prefix: String,
    /// How long one question to Redis may take.
    pub redis_deadline: Duration,
    /// The most connections to the database.
    pub database_connections: u32,
    /// Whether the schema is brought up to date at the start.
    pub migrate: bool,
    /// The form of the log.
    pub log: LogFormat,
    /// What is logged, in the form of `tracing`'s filters.
    pub log_level: String,
    /// The largest request body, in bytes.
    pub body_limit_bytes: usize,
    /// How long a connection stays open between two requests.
    pub keep_alive: Duration,
    /// How long calls may go on after a stop was asked for.
    pub drain: Duration,
    /// Where calls are on record until they are in the books.
    pub spool: SpoolSettings,
    /// Where the process ends itself, for fault tests.
    #[cfg(debug_assertions)]
    pub fail_point: Option<FailAt>,
    /// The folder of the built site.
    pub site_dir: Option<PathBuf>,
    /// The key that seals credentials, in base64; `None` for the generated one.
    pub key: Option<SecretString>,
    /// The token of the admin API.
    pub admin_token: Option<SecretString>,
    /// Whether tests may set the clock.
    pub test_clock: bool,
}

/// Where calls are on record until they are in the books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolSettings {
    /// The folder.
    pub dir: PathBuf,
    /// How long calls are taken while the books cannot be written.
    pub admit: Duration,
    /// Whether the disk is made to keep what is written.
    pub sync: bool,
}

/// Where the process ends itself: a place in the life of a call, and which time, from 1.
#[cfg(debug_assertions)]
pub type FailAt = (gateway::FailPoint, u32);

/// The form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Pretty on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Pretty,
    /// One JSON object on each line.
    Json,
}

/// The environment, read once.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The environment of this process. Variables that are not Unicode are none of Weir's.
    #[must_use]
    pub fn of_this_process() -> Self {
        let texts = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Self(texts.collect())
    }

    /// An environment of these variables alone.
    #[must_use]
    pub fn of(variables: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self(variables.iter().map(owned).collect())
    }

    /// The value of `name`. An empty one counts as not set: compose files produce those.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, value)| !value.is_empty()).map(|(name, _)| name.as_str())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment([redacted])")
    }
}

/// The settings are wrong; each sentence names the setting and its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// Every problem found.
    pub problems: Vec<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the settings are wrong")?;
        for problem in &self.problems {
            write!(f, "\n  {problem}")?;
        }
        Ok(())
    }
}

impl Config {
    /// Reads the settings from all sources.
    ///
    /// # Errors
    /// When a name is unknown, a value does not fit, or a file cannot be read: all of them at once.
    pub fn load(flags: &Flags, environment: &Environment) -> Result<Self, ConfigError> {
        let raw = sources::resolve(&flags.texts, flags.config.as_deref(), environment)?;
        values::parse(&raw, environment)
    }

    /// Each setting with its value and its source, secrets masked.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn explain(flags: &Flags, environment: &Environment) -> Result<Vec<Shown>, ConfigError> {
        let raw = sources::resolve(&flags.texts, flags.config.as_deref(), environment)?;
        let config = values::parse(&raw, environment)?;
        Ok(show::lines(&raw, &config))
    }
}

#[cfg(test)]
mod tests;
