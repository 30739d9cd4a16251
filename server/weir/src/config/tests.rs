use std::path::Path;

use super::*;

fn load(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let mut all = vec![("HOME", "/home/ana")];
    all.extend_from_slice(variables);
    Config::load(&Flags::default(), &Environment::of(&all))
}

fn problem(variables: &[(&str, &str)]) -> String {
    load(variables).unwrap_err().to_string()
}

/// A folder of its own that ends with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weir-config-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default() {
    let folder = Folder::new("order");
    let file = folder.write("weir.toml", "bind = \"127.0.0.1:1\"\ndrain_s = 7\nlog = \"json\"\n");
    let flags = Flags { config: Some(file.clone()), ..Flags::default() };
    let flags = flags.with("bind", "127.0.0.1:3");
    let environment =
        Environment::of(&[("HOME", "/h"), ("WEIR_BIND", "127.0.0.1:2"), ("WEIR_LOG", "pretty")]);
    let config = Config::load(&flags, &environment).unwrap();
    assert_eq!(config.bind.port(), 3);
    assert_eq!(config.log, LogFormat::Pretty);
    assert_eq!(config.drain, Duration::from_secs(7));
    assert_eq!(config.database_connections, 16);

    let shown = Config::explain(&flags, &environment).unwrap();
    let source = |key| shown.iter().find(|line| line.key == key).unwrap().source.clone();
    assert_eq!(source("bind"), "flag --bind");
    assert_eq!(source("log"), "environment WEIR_LOG");
    assert_eq!(source("drain_s"), format!("file {}", file.display()));
    assert_eq!(source("database_connections"), "default");
}

#[test]
fn an_unknown_variable_is_refused_with_a_suggestion() {
    let said = problem(&[("WEIR_BNID", "127.0.0.1:1")]);
    assert!(said.contains("unknown variable WEIR_BNID; did you mean `WEIR_BIND`?"), "{said}");
    let said = problem(&[("WEIR_DATABASE_URL", "postgres://x")]);
    assert!(said.contains("did you mean `DATABASE_URL`?"), "{said}");
    let tools = [("WEIR_CI_CACHE", "/x"), ("WEIR_TEST_DATABASE_URL", "postgres://x")];
    assert!(load(&tools).is_ok(), "the tools' own variables are left alone");
    let said = problem(&[("WEIR_TEST_CLOK", "1")]);
    assert!(said.contains("did you mean `WEIR_TEST_CLOCK`?"), "{said}");
}

#[test]
fn an_unknown_setting_in_the_file_is_refused_with_a_suggestion() {
    let folder = Folder::new("unknown");
    let file = folder.write("weir.toml", "drain_seconds = 3\nadmin_tokn = \"x\"\n");
    let said = problem(&[("WEIR_CONFIG", file.to_str().unwrap())]);
    assert!(said.contains("unknown setting `admin_tokn`; did you mean `admin_token`?"), "{said}");
    assert!(said.contains("unknown setting `drain_seconds`"), "{said}");
}

#[test]
fn a_broken_file_is_named_by_line_without_its_text() {
    let folder = Folder::new("broken");
    let file = folder.write("weir.toml", "log = \"json\"\nkey = \"s3cret\n");
    let said = problem(&[("WEIR_CONFIG", file.to_str().unwrap())]);
    assert!(said.contains("line 2") && !said.contains("s3cret"), "{said}");
}

#[test]
fn a_secret_comes_from_its_file_and_is_never_shown() {
    let folder = Folder::new("secret");
    let token = format!("weir_admin_{}", "q".repeat(32));
    let file = folder.write("token", &format!("{token}\n"));
    let variables = [("HOME", "/h"), ("WEIR_ADMIN_TOKEN_FILE", file.to_str().unwrap())];
    let environment = Environment::of(&variables);
    let config = Config::load(&Flags::default(), &environment).unwrap();
    assert_eq!(secrecy::ExposeSecret::expose_secret(config.admin_token.as_ref().unwrap()), &token);
    assert!(!format!("{config:?}{environment:?}").contains("qqq"));
    let shown = Config::explain(&Flags::default(), &environment).unwrap();
    let line = shown.iter().find(|line| line.key == "admin_token").unwrap();
    assert_eq!(line.value.as_deref(), Some("[set]"));
    let both = [variables[1], ("WEIR_ADMIN_TOKEN", "x")];
    assert!(problem(&both).contains("are both set"));
}

#[test]
fn a_relative_secret_file_stands_beside_the_settings_file() {
    let folder = Folder::new("beside");
    folder.write("db", "postgres://u:p@h/d\n");
    let file = folder.write("weir.toml", "database_url_file = \"db\"\n");
    let config = load(&[("WEIR_CONFIG", file.to_str().unwrap())]).unwrap();
    assert!(config.database_url.is_some());
}

#[test]
fn a_short_admin_token_is_refused_without_being_shown() {
    let said = problem(&[("WEIR_ADMIN_TOKEN", "weir_admin_changeme")]);
    assert!(said.contains("at least 32 characters") && !said.contains("changeme"), "{said}");
}

#[test]
fn every_problem_is_told_at_once() {
    let said = problem(&[("WEIR_BIND", "here"), ("WEIR_DRAIN_S", "-1"), ("WEIR_MIGRATE", "maybe")]);
    for part in ["bind = \"here\"", "drain_s = \"-1\"", "migrate = \"maybe\""] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_platforms_port_means_all_addresses() {
    let config = load(&[("PORT", "3000")]).unwrap();
    assert_eq!(config.bind.to_string(), "0.0.0.0:3000");
    let config = load(&[("PORT", "3000"), ("WEIR_BIND", "127.0.0.1:9")]).unwrap();
    assert_eq!(config.bind.to_string(), "127.0.0.1:9");
}

#[test]
fn the_test_clock_is_refused_where_others_can_reach_it() {
    assert!(load(&[("WEIR_TEST_CLOCK", "1")]).unwrap().test_clock);
    let said = problem(&[("WEIR_TEST_CLOCK", "1"), ("WEIR_BIND", "0.0.0.0:80")]);
    assert!(said.contains("loopback"), "{said}");
}

#[test]
fn a_public_address_is_an_origin_and_nothing_more() {
    let url = PublicUrl::parse("https://GW.example/").unwrap();
    assert_eq!((url.origin(), url.is_https()), ("https://gw.example", true));
    for text in ["gw.example", "ftp://x", "https://x/path", "https://u@x", "https://x?q"] {
        assert!(PublicUrl::parse(text).is_err(), "{text}");
    }
}

#[test]
fn the_example_names_every_setting_and_no_other() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.env.example");
    let text = std::fs::read_to_string(path).unwrap();
    let named: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim_start_matches(['#', ' ']).split_once('='))
        .map(|(name, _)| name)
        .filter(|name| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
        .collect();
    for setting in SETTINGS {
        assert!(named.contains(&setting.env), "{} is missing", setting.env);
    }
    let known = |name: &str| {
        let plain = name.strip_suffix("_FILE").unwrap_or(name);
        [setting::PORT, setting::CONFIG_FILE].contains(&name)
            || SETTINGS.iter().any(|s| s.env == name || (s.secret && s.env == plain))
    };
    for name in named {
        assert!(known(name), "{name} is no setting");
    }
}

#[test]
fn the_spool_is_in_the_data_folder_unless_another_is_named() {
    let config = load(&[("WEIR_DATA_DIR", "/data")]).unwrap();
    assert_eq!(config.spool.dir, Path::new("/data/spool"));
    assert_eq!((config.spool.admit, config.spool.sync), (Duration::from_secs(30), false));
    let named = [("WEIR_DATA_DIR", "/data"), ("WEIR_SPOOL_DIR", "/fast")];
    assert_eq!(load(&named).unwrap().spool.dir, Path::new("/fast"));
    assert!(problem(&[("WEIR_SPOOL_ADMIT_SECONDS", "3601")]).contains("spool_admit_seconds"));
}

#[cfg(debug_assertions)]
#[test]
fn a_fail_point_is_a_place_and_which_time() {
    let at = |text| load(&[("WEIR_FAIL_POINT", text)]).map(|config| config.fail_point);
    assert_eq!(at("after_open").unwrap(), Some((gateway::FailPoint::AfterOpen, 1)));
    assert_eq!(at("before_commit:7").unwrap(), Some((gateway::FailPoint::BeforeCommit, 7)));
    for text in ["somewhere", "after_open:0", "after_open:x"] {
        assert!(problem(&[("WEIR_FAIL_POINT", text)]).contains("is no place"), "{text}");
    }
}
