//! The server's settings. They are given at each start, so that a newer Weir brings newer ones.

use crate::Durability;

/// Connections for kept data: Weir's pool, its listeners, and an operator's `psql`.
const CONNECTIONS_KEPT: u32 = 100;
/// Connections for tests: each has a database and a pool of its own, many run at once.
const CONNECTIONS_THROWAWAY: u32 = 300;

/// The arguments that set the server up on `port` of the loopback interface.
///
/// Loopback and not a local socket: a socket's path may have 107 bytes at most and some mounted
/// folders cannot hold one, while a port works everywhere and gives every client the same form of
/// address. The random password keeps the machine's other users out.
pub(crate) fn arguments(durability: Durability, port: u16) -> Vec<String> {
    let connections = match durability {
        Durability::Kept => CONNECTIONS_KEPT,
        Durability::Throwaway => CONNECTIONS_THROWAWAY,
    };
    let mut settings = vec![
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={port}"),
        "unix_socket_directories=".to_owned(),
        format!("max_connections={connections}"),
        "password_encryption=scram-sha-256".to_owned(),
        "timezone=UTC".to_owned(),
        "log_timezone=UTC".to_owned(),
        "log_destination=stderr".to_owned(),
        "logging_collector=off".to_owned(),
        "log_line_prefix=%m [%p] ".to_owned(),
        "log_checkpoints=off".to_owned(),
    ];
    let by_durability: &[&str] = match durability {
        Durability::Kept => &["fsync=on", "synchronous_commit=on", "full_page_writes=on"],
        Durability::Throwaway => &["fsync=off", "synchronous_commit=off", "full_page_writes=off"],
    };
    settings.extend(by_durability.iter().map(|setting| (*setting).to_owned()));
    settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_data_are_flushed_and_tests_are_not_slowed_by_it() {
        let kept = arguments(Durability::Kept, 5);
        assert!(kept.contains(&"fsync=on".to_owned()) && kept.contains(&"port=5".to_owned()));
        assert!(kept.contains(&"full_page_writes=on".to_owned()));
        assert!(kept.contains(&"synchronous_commit=on".to_owned()));
        assert!(arguments(Durability::Throwaway, 5).contains(&"fsync=off".to_owned()));
    }
}
