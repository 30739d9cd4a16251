//! Who may import whom: the table of the house, held against each `Cargo.toml`.
//!
//! Cargo forbids cycles; this forbids the edge and the foreign crate that nobody has decided on.
//! A new line here is a decision, and stands in the same change as the import.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One package's row: what it may import, of ours and of theirs.
struct Row {
    folder: &'static str,
    ours: &'static [&'static str],
    theirs: &'static [&'static str],
    /// What its tests and examples may import besides, of ours and of theirs.
    tests: &'static [&'static str],
}

/// Words, errors and logs: allowed wherever something happens.
const PLAIN: &[&str] = &["serde", "serde_json", "thiserror", "tracing", "metrics"];
/// Waiting: allowed wherever there is I/O.
const ASYNC: &[&str] = &["tokio", "tokio-util", "futures-util", "async-trait", "bytes"];

const TABLE: &[Row] = &[
    Row {
        folder: "server/domain",
        ours: &[],
        theirs: &["serde", "thiserror", "jiff"],
        tests: &["proptest", "serde_json"],
    },
    Row {
        folder: "server/tenants",
        ours: &["domain"],
        theirs: &[
            "sqlx",
            "time",
            "argon2",
            "chacha20poly1305",
            "secrecy",
            "sha2",
            "subtle",
            "zeroize",
            "rand",
            "base64",
            "crc32fast",
            "arc-swap",
        ],
        tests: &["testkit", "proptest"],
    },
    Row {
        folder: "server/ledger",
        ours: &["domain"],
        theirs: &["sqlx", "time", "crc32fast"],
        tests: &["testkit", "proptest"],
    },
    Row {
        folder: "server/limiter",
        ours: &["domain", "ledger"],
        theirs: &["sqlx", "redis", "time"],
        tests: &["testkit", "proptest"],
    },
    Row {
        folder: "server/gateway",
        ours: &["domain", "tenants", "ledger", "limiter"],
        theirs: &[
            "reqwest",
            "rustls",
            "http",
            "http-body",
            "http-body-util",
            "memchr",
            "ulid",
            "secrecy",
            "rand",
        ],
        tests: &["testkit", "sim", "proptest", "axum", "sqlx"],
    },
    Row {
        folder: "app",
        ours: &["domain"],
        theirs: &[
            "leptos",
            "leptos_meta",
            "leptos_router",
            "leptos_axum",
            "plotters",
            "plotters-backend",
            "http",
            "jiff",
            "secrecy",
            "wasm-bindgen",
            "web-sys",
        ],
        tests: &["app", "proptest", "axum", "http-body-util", "tower"],
    },
    Row {
        folder: "server/sim",
        ours: &[],
        theirs: &["http", "http-body", "http-body-util", "hyper", "hyper-util", "base64"],
        tests: &["hyper", "nix"],
    },
    Row { folder: "server/embedded", ours: &[], theirs: &["nix", "rand", "secrecy"], tests: &[] },
    Row {
        folder: "server/testkit",
        ours: &["domain"],
        theirs: &["sqlx", "redis", "axum", "time"],
        tests: &[],
    },
    Row {
        folder: "server/weir",
        ours: &["app", "domain", "tenants", "ledger", "limiter", "gateway", "sim", "embedded"],
        theirs: &[
            "anyhow",
            "axum",
            "base64",
            "clap",
            "http",
            "http-body",
            "http-body-util",
            "hyper",
            "hyper-util",
            "jiff",
            "leptos",
            "leptos_axum",
            "leptos_router",
            "metrics-exporter-prometheus",
            "nix",
            "rand",
            "reqwest",
            "rust-embed",
            "rustls",
            "secrecy",
            "sha2",
            "sqlx",
            "subtle",
            "time",
            "tokio-stream",
            "toml",
            "tower",
            "tower-http",
            "tower-sessions",
            "tracing-subscriber",
            "utoipa",
        ],
        tests: &["testkit", "fantoccini", "reqwest"],
    },
    Row {
        // Runs the built program as its users do: it may import no part of it.
        folder: "end2end",
        ours: &[],
        theirs: &[],
        tests: &[
            "testkit",
            "sim",
            "embedded",
            "domain",
            "fantoccini",
            "hyper-util",
            "reqwest",
            "rustls",
            "sqlx",
            "rand",
            "nix",
            "secrecy",
        ],
    },
    Row {
        folder: "xtask",
        ours: &["embedded"],
        theirs: &[
            "anyhow",
            "brotli",
            "clap",
            "nix",
            "rand",
            "secrecy",
            "signal-hook",
            "wasm-bindgen-cli-support",
        ],
        tests: &[],
    },
];

/// Packages of this workspace, besides the ones named in the table's rows.
fn ours() -> BTreeSet<&'static str> {
    TABLE.iter().map(|row| row.folder.rsplit('/').next().unwrap()).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn manifest(folder: &str) -> toml::Table {
    let path = root().join(folder).join("Cargo.toml");
    std::fs::read_to_string(&path).unwrap().parse().unwrap()
}

fn names(manifest: &toml::Table, section: &str) -> Vec<String> {
    let table = manifest.get(section).and_then(toml::Value::as_table);
    table.map(|table| table.keys().cloned().collect()).unwrap_or_default()
}

#[test]
fn every_import_is_in_the_table() {
    let mut wrong = Vec::new();
    for row in TABLE {
        let manifest = manifest(row.folder);
        assert!(manifest.get("target").is_none(), "{}: imports per target hide", row.folder);
        for section in ["dependencies", "build-dependencies"] {
            for name in names(&manifest, section) {
                let known = |list: &[&str]| list.contains(&name.as_str());
                let ours = ours().contains(name.as_str());
                let plain =
                    !ours && row.folder != "server/domain" && (known(PLAIN) || known(ASYNC));
                let allowed = if ours { known(row.ours) } else { plain || known(row.theirs) };
                if !allowed {
                    wrong.push(format!("{} may not import {name}", row.folder));
                }
            }
        }
        for name in names(&manifest, "dev-dependencies") {
            let known = |list: &[&str]| list.contains(&name.as_str());
            if !known(row.tests) && !known(row.theirs) && !known(PLAIN) && !known(ASYNC) {
                wrong.push(format!("the tests of {} may not import {name}", row.folder));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_package_has_a_row() {
    let mut folders = BTreeSet::from(["app", "end2end", "xtask"].map(str::to_owned));
    for entry in std::fs::read_dir(root().join("server")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        folders.insert(format!("server/{name}"));
    }
    let rows: BTreeSet<String> = TABLE.iter().map(|row| row.folder.to_owned()).collect();
    assert_eq!(folders, rows);
}

#[test]
fn every_import_goes_downwards() {
    // The floors of the house; the ground has no number of its own below it.
    let floor = |name: &str| match name {
        "domain" => 1,
        "ledger" | "tenants" => 2,
        "limiter" => 3,
        "gateway" | "app" => 4,
        "weir" => 5,
        // Beside the house: they know none of it.
        "sim" | "embedded" | "testkit" | "end2end" => 0,
        _ => 6,
    };
    for row in TABLE {
        let own = row.folder.rsplit('/').next().unwrap();
        for import in row.ours.iter().filter(|_| own != "testkit") {
            assert!(floor(import) < floor(own), "{own} and {import} are on one floor");
        }
    }
}

#[test]
fn every_package_keeps_the_house_lints() {
    for row in TABLE {
        let manifest = manifest(row.folder);
        let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        assert_eq!(lints.and_then(toml::Value::as_bool), Some(true), "{}", row.folder);
    }
}

#[test]
fn no_crate_brings_a_second_cryptography() {
    let lock: toml::Table =
        std::fs::read_to_string(root().join("Cargo.lock")).unwrap().parse().unwrap();
    let packages = lock["package"].as_array().unwrap();
    for banned in ["aws-lc-rs", "aws-lc-sys", "native-tls", "openssl-sys"] {
        let found = packages.iter().any(|package| package["name"].as_str() == Some(banned));
        assert!(!found, "{banned} came into the lock file");
    }
}
