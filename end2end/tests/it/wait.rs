//! Waiting for a condition, never for a time.

use std::time::{Duration, Instant};

use tokio::sync::{Mutex, MutexGuard};

/// How often a waiting loop looks again.
const POLL: Duration = Duration::from_millis(20);

/// Held by a test that keeps every core busy: two of them at once would measure each other's patience.
static HEAVY: Mutex<()> = Mutex::const_new(());

/// Waits until no other heavy test runs.
pub(crate) async fn alone() -> MutexGuard<'static, ()> {
    HEAVY.lock().await
}

/// Looks until there is something to see, and gives it.
///
/// # Panics
/// When there is nothing after `limit`; with the last reason why not.
pub(crate) async fn until<T>(
    what: &str,
    limit: Duration,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let began = Instant::now();
    loop {
        match look().await {
            Ok(seen) => return seen,
            Err(why) if began.elapsed() > limit => {
                panic!("{what}: not within {} s: {why}", limit.as_secs());
            }
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}
