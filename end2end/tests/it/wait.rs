//! Waiting for a condition, never for a time.

use std::time::{Duration, Instant};

/// How often a waiting loop looks again.
const POLL: Duration = Duration::from_millis(20);

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
