//! Why a command failed, and the exit code that says so to scripts.

use std::fmt;
use std::process::ExitCode;

use crate::config::ConfigError;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// It could not be done. Exit code 1.
    Failed(anyhow::Error),
    /// The settings are wrong. Exit code 3.
    Config(ConfigError),
    /// Something that Weir stands on is missing: PostgreSQL, a folder, an address. Exit code 4.
    Missing(anyhow::Error),
    /// The schema is another one than this program's. Exit code 5.
    Migration(String),
}

impl Failure {
    /// Something that Weir stands on is missing.
    pub fn missing(error: impl Into<anyhow::Error>) -> Self {
        Self::Missing(error.into())
    }

    /// The exit code: 2 is left to the command line's own errors.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Failed(_) => 1,
            Self::Config(_) => 3,
            Self::Missing(_) => 4,
            Self::Migration(_) => 5,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // With its causes, each once.
            Self::Failed(error) | Self::Missing(error) => write!(f, "{error:#}"),
            Self::Config(error) => error.fmt(f),
            Self::Migration(sentence) => f.write_str(sentence),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}
