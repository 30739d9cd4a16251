//! What the tests are told from outside: their only settings.

use std::path::PathBuf;

/// Draws the calls of the storm. Said on every run, so that a failure can be repeated.
const SEED: &str = "WEIR_TEST_SEED";
/// `1` where the official clients cannot be fetched: that test then says that it was left out.
const SKIP_SDK: &str = "WEIR_SKIP_SDK";
/// The folder of the built site.
const SITE_DIR: &str = "WEIR_SITE_DIR";
/// The folder of PostgreSQL's programs.
const PG_BIN: &str = "WEIR_PG_BIN";
/// The Redis server's program, for tests that stop one of their own.
const REDIS_SERVER: &str = "WEIR_TEST_REDIS_SERVER";

#[expect(clippy::disallowed_methods, reason = "tests have no configuration but their environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The seed that was asked for, or a fresh one.
pub(crate) fn seed() -> u64 {
    match variable(SEED) {
        Some(text) => text.parse().unwrap_or_else(|_| panic!("{SEED} is not a number: {text}")),
        None => rand::random(),
    }
}

/// Whether the official clients are left out.
pub(crate) fn without_sdks() -> bool {
    variable(SKIP_SDK).is_some_and(|value| value == "1")
}

/// Where the built site is: what the environment says, else where `cargo xtask` puts it.
pub(crate) fn site() -> Option<PathBuf> {
    let built = target().join("site");
    variable(SITE_DIR).map(PathBuf::from).or_else(|| built.is_dir().then_some(built))
}

/// PostgreSQL's programs, where the environment names them.
pub(crate) fn pg_bin() -> Option<PathBuf> {
    variable(PG_BIN).map(PathBuf::from)
}

/// The Redis server's program: what the environment says, else what `PATH` has.
pub(crate) fn redis_server() -> PathBuf {
    variable(REDIS_SERVER).unwrap_or_else(|| "redis-server".to_owned()).into()
}

/// What the program needs of the machine, and nothing that could be a setting of it.
pub(crate) fn of_the_machine() -> Vec<(&'static str, String)> {
    ["PATH", "LANG", "TMPDIR", PG_BIN]
        .into_iter()
        .filter_map(|name| Some((name, variable(name)?)))
        .collect()
}

/// The folder that cargo builds into: these tests are `target/<profile>/deps/it-…`.
pub(crate) fn target() -> PathBuf {
    let program = weir();
    let profile = program.parent().and_then(std::path::Path::parent);
    profile.map(PathBuf::from).unwrap_or_else(|| panic!("the tests are not in a target folder"))
}

/// The program, which cargo puts beside the folder of the tests.
pub(crate) fn weir() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_else(|e| panic!("where are these tests? {e}"));
    let profile = own.parent().and_then(std::path::Path::parent);
    profile.map(|folder| folder.join("weir")).unwrap_or_else(|| panic!("where are these tests?"))
}
