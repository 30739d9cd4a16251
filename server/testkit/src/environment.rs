//! Where the servers are that tests may use.

/// The first of these variables that is set and not empty.
///
/// # Panics
/// When none is set: a test that cannot reach its server has failed, it is not skipped.
#[expect(clippy::disallowed_methods, reason = "tests have no configuration but their environment")]
pub(crate) fn server_url(server: &str, variables: [&str; 2]) -> String {
    let set = variables.iter().find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()));
    let [first, second] = variables;
    set.unwrap_or_else(|| panic!("no {server} for the tests: set {first} or {second} to its URL"))
}
