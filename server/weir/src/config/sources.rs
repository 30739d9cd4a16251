//! Where each value comes from: flag, environment, file, default, in that order.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};

use super::setting::{BIND, CONFIG_FILE, PORT, SETTINGS, Setting, TOOL_PREFIXES};
use super::suggest::nearest;
use super::{ConfigError, Environment};

/// The largest settings or secret file that is read: they are a few lines.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// On the command line.
    Flag(&'static str),
    /// In the environment.
    Env(String),
    /// In the settings file.
    File(PathBuf),
    /// Nowhere: it is the built-in one.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "flag --{flag}"),
            Self::Env(variable) => write!(f, "environment {variable}"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value as text, and where it stands. All are held like secrets, because some are.
#[derive(Debug, Clone)]
pub(super) struct Raw {
    pub(super) text: SecretString,
    pub(super) source: Source,
}

/// What was said on the command line, by flag.
pub(super) type FlagTexts = BTreeMap<&'static str, String>;

/// Looks each setting up in all sources. Every problem is told, not just the first.
pub(super) fn resolve(
    flags: &FlagTexts,
    config_flag: Option<&Path>,
    environment: &Environment,
) -> Result<BTreeMap<&'static str, Raw>, ConfigError> {
    let mut problems = Vec::new();
    unknown_variables(environment, &mut problems);
    let file = settings_file(config_flag, environment, &mut problems);
    let mut found = BTreeMap::new();
    for setting in SETTINGS {
        let tiers = [
            from_flag(setting, flags),
            from_environment(setting, environment),
            from_file(setting, file.as_ref()),
        ];
        let first = tiers.into_iter().find_map(|tier| tier.transpose());
        match first {
            Some(Ok(raw)) => drop(found.insert(setting.key, raw)),
            Some(Err(problem)) => problems.push(problem),
            None if setting.default.is_empty() => {}
            None => {
                let raw = Raw { text: setting.default.into(), source: Source::Default };
                found.insert(setting.key, raw);
            }
        }
    }
    if problems.is_empty() { Ok(found) } else { Err(ConfigError { problems }) }
}

fn from_flag(setting: &Setting, flags: &FlagTexts) -> Result<Option<Raw>, String> {
    let Some(text) = flags.get(setting.flag) else { return Ok(None) };
    let source = Source::Flag(setting.flag);
    if setting.secret {
        return read_secret(Path::new(text), &source).map(|text| Some(Raw { text, source }));
    }
    Ok(Some(Raw { text: text.as_str().into(), source }))
}

fn from_environment(setting: &Setting, environment: &Environment) -> Result<Option<Raw>, String> {
    let own = environment.get(setting.env);
    if setting.secret {
        let file_variable = format!("{}_FILE", setting.env);
        if let Some(path) = environment.get(&file_variable) {
            if own.is_some() {
                return Err(format!("{} and {file_variable} are both set: keep one", setting.env));
            }
            let source = Source::Env(file_variable);
            return read_secret(Path::new(path), &source).map(|text| Some(Raw { text, source }));
        }
    }
    if let Some(text) = own {
        return Ok(Some(Raw { text: text.into(), source: Source::Env(setting.env.to_owned()) }));
    }
    // A platform that sets PORT routes to it from outside, so loopback would not do.
    if setting.key == BIND.key
        && let Some(port) = environment.get(PORT)
    {
        let text = format!("0.0.0.0:{port}").into();
        return Ok(Some(Raw { text, source: Source::Env(PORT.to_owned()) }));
    }
    Ok(None)
}

fn from_file(setting: &Setting, file: Option<&SettingsFile>) -> Result<Option<Raw>, String> {
    let Some(file) = file else { return Ok(None) };
    let source = Source::File(file.path.clone());
    if setting.secret
        && let Some(path) = file.values.get(&format!("{}_file", setting.key))
    {
        if file.values.contains_key(setting.key) {
            return Err(format!("{source}: {0} and {0}_file are both set: keep one", setting.key));
        }
        // A relative path in a file means beside that file, wherever Weir is started.
        let path = file.path.parent().unwrap_or_else(|| Path::new(".")).join(path);
        return read_secret(&path, &source).map(|text| Some(Raw { text, source }));
    }
    Ok(file.values.get(setting.key).map(|text| Raw { text: text.as_str().into(), source }))
}

struct SettingsFile {
    path: PathBuf,
    values: BTreeMap<String, String>,
}

fn settings_file(
    flag: Option<&Path>,
    environment: &Environment,
    problems: &mut Vec<String>,
) -> Option<SettingsFile> {
    let path = flag.map_or_else(
        || environment.get(CONFIG_FILE).map(PathBuf::from),
        |path| Some(path.to_path_buf()),
    )?;
    match parse_file(&path) {
        Ok(values) => {
            let known: Vec<String> = SETTINGS.iter().flat_map(|s| file_keys(s)).collect();
            for key in values.keys().filter(|key| !known.contains(key)) {
                let hint = did_you_mean(nearest(key, known.iter().map(String::as_str)));
                problems.push(format!("{}: unknown setting `{key}`{hint}", path.display()));
            }
            Some(SettingsFile { path, values })
        }
        Err(problem) => {
            problems.push(problem);
            None
        }
    }
}

fn file_keys(setting: &Setting) -> Vec<String> {
    let mut keys = vec![setting.key.to_owned()];
    if setting.secret {
        keys.push(format!("{}_file", setting.key));
    }
    keys
}

fn parse_file(path: &Path) -> Result<BTreeMap<String, String>, String> {
    let text = read(path)?;
    let shown = path.display();
    let table: toml::Table = text.expose_secret().parse().map_err(|error: toml::de::Error| {
        // The parser's own words quote the line, which may hold a secret.
        let line = error
            .span()
            .map_or(1, |span| text.expose_secret()[..span.start].matches('\n').count() + 1);
        format!("{shown}, line {line}: {}", error.message())
    })?;
    table
        .into_iter()
        .map(|(key, value)| match value {
            toml::Value::String(text) => Ok((key, text)),
            toml::Value::Integer(number) => Ok((key, number.to_string())),
            toml::Value::Boolean(flag) => Ok((key, if flag { "on" } else { "off" }.to_owned())),
            toml::Value::Float(_)
            | toml::Value::Datetime(_)
            | toml::Value::Array(_)
            | toml::Value::Table(_) => {
                Err(format!("{shown}: `{key}` must be a text, a whole number, or true or false"))
            }
        })
        .collect()
}

fn read_secret(path: &Path, source: &Source) -> Result<SecretString, String> {
    let text = read(path).map_err(|problem| format!("{source}: {problem}"))?;
    let text = text.expose_secret().trim();
    if text.is_empty() {
        return Err(format!("{source}: {} is empty", path.display()));
    }
    Ok(text.into())
}

fn read(path: &Path) -> Result<SecretString, String> {
    let shown = path.display();
    let size = std::fs::metadata(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    if size.len() > FILE_BYTES_MAX {
        return Err(format!("{shown} is larger than {FILE_BYTES_MAX} bytes: it is not settings"));
    }
    std::fs::read_to_string(path)
        .map(SecretString::from)
        .map_err(|error| format!("cannot read {shown}: {error}"))
}

/// A variable that begins like one of ours and is none is a slip that would silently do nothing.
fn unknown_variables(environment: &Environment, problems: &mut Vec<String>) {
    let mut known = vec![CONFIG_FILE.to_owned()];
    #[cfg(debug_assertions)]
    known.push(super::setting::FAIL_POINT.to_owned());
    for setting in SETTINGS {
        known.push(setting.env.to_owned());
        if setting.secret {
            known.push(format!("{}_FILE", setting.env));
        }
    }
    let ours = environment.names().filter(|name| name.starts_with("WEIR_"));
    for name in ours.filter(|name| !known.iter().any(|known| known == name)) {
        // WEIR_DATABASE_URL is meant for DATABASE_URL, however many letters that drops.
        let without_prefix = name.strip_prefix("WEIR_").unwrap_or(name);
        let exact = known.iter().find(|known| *known == without_prefix).map(String::as_str);
        let meant = exact.or_else(|| nearest(name, known.iter().map(String::as_str)));
        if meant.is_none() && TOOL_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let hint = did_you_mean(meant);
        problems.push(format!("environment: unknown variable {name}{hint}"));
    }
}

fn did_you_mean(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}
