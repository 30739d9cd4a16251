//! The scripts, each with what they share in front.

use std::sync::LazyLock;

/// A script and its name at the server.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) source: String,
    /// What EVALSHA calls it by: the SHA-1 of its source.
    pub(super) sha: String,
}

impl Script {
    fn new(source: &str) -> Self {
        let source = format!("{}\n{source}", include_str!("../../../../lua/prelude.lua"));
        let sha = ::redis::Script::new(&source).get_hash().to_owned();
        Self { source, sha }
    }
}

pub(super) static ADMIT: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../../../lua/admit.lua")));
pub(super) static SETTLE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../../../lua/settle.lua")));
pub(super) static RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../../../lua/release.lua")));
pub(super) static RENEW: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../../../lua/renew.lua")));
pub(super) static READINGS: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../../../lua/readings.lua")));
pub(super) static EXPIRED: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../../../lua/expired.lua")));
pub(super) static WARM_UP: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../../../lua/warm_up.lua")));
pub(super) static AUDIT: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../../../lua/audit.lua")));
pub(super) static REPAIR: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../../../lua/repair.lua")));
