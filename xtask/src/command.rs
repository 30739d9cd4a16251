//! Programs: where they are, and the environment they get.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Variables by which an outer cargo or a caller's shell would change what an inner cargo builds:
/// the first four make build scripts run again and with them half of the tree; the flags replace
/// those of `.cargo/config.toml`.
const NOT_FOR_CARGO: [&str; 8] = [
    "CARGO_PKG_",
    "CARGO_MANIFEST_",
    "CARGO_BIN_",
    "CARGO_CRATE_",
    "CARGO_PRIMARY_PACKAGE",
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
];

/// Cargo in `folder`, without what would change its builds. Queries are checked against `.sqlx`
/// unless a step says otherwise, so no build depends on a database.
pub(crate) fn cargo_in(folder: &Path) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cargo = Command::new(program);
    cargo.current_dir(folder).env("SQLX_OFFLINE", "true").env_remove("SQLX_OFFLINE_DIR");
    for (name, _) in env::vars_os() {
        if is_kept_from_cargo(&name) {
            cargo.env_remove(name);
        }
    }
    cargo
}

fn is_kept_from_cargo(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    NOT_FOR_CARGO.iter().any(|start| name.starts_with(start.as_bytes()))
}

/// The program called `name` on `PATH`.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|program| runs(program))
}

fn runs(program: &Path) -> bool {
    fs::metadata(program).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inner_cargo_does_not_see_the_outer_ones_package_nor_other_flags() {
        for name in ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR", "RUSTFLAGS", "CARGO_BIN_NAME"] {
            assert!(is_kept_from_cargo(name.as_ref()), "{name}");
        }
        for name in ["CARGO_TARGET_DIR", "CARGO_HOME", "CARGO_TERM_COLOR", "PATH"] {
            assert!(!is_kept_from_cargo(name.as_ref()), "{name}");
        }
        let cargo = cargo_in("/".as_ref());
        let offline = cargo.get_envs().find(|(name, _)| *name == "SQLX_OFFLINE");
        assert_eq!(offline, Some(("SQLX_OFFLINE".as_ref(), Some("true".as_ref()))));
    }

    #[test]
    fn a_program_is_found_on_the_path() {
        assert!(on_path("sh").is_some_and(|sh| sh.is_absolute()));
        assert_eq!(on_path("no such program"), None);
        assert!(!runs("/etc/passwd".as_ref()) && !runs("/etc".as_ref()));
    }
}
