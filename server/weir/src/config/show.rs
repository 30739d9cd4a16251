//! `weir config print`: each value with its source, secrets masked.

use std::collections::BTreeMap;

use secrecy::ExposeSecret;
use serde::Serialize;

use super::Config;
use super::setting::{DATA_DIR, SETTINGS};
use super::sources::{Raw, Source};

/// One setting as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// The name in the file.
    pub key: &'static str,
    /// The value; a secret's is `[set]`. Nothing when there is none.
    pub value: Option<String>,
    /// Where it stands.
    pub source: String,
}

pub(super) fn lines(raw: &BTreeMap<&'static str, Raw>, config: &Config) -> Vec<Shown> {
    let shown = SETTINGS.iter().map(|setting| {
        let found = raw.get(setting.key);
        let value = match found {
            Some(_) if setting.secret => Some("[set]".to_owned()),
            Some(raw) => Some(raw.text.expose_secret().to_owned()),
            // The one default that depends on who asks.
            None if setting.key == DATA_DIR.key => Some(config.data_dir.display().to_string()),
            None => None,
        };
        let source = found.map_or(Source::Default, |raw| raw.source.clone()).to_string();
        Shown { key: setting.key, value, source }
    });
    shown.collect()
}
