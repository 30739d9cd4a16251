//! What the commands that change a few rows have in common.

use crate::config::Config;
use crate::database;
use crate::deeds::Desk;
use crate::failure::Failure;
use crate::store::Store;

/// How many connections such a command uses.
const CONNECTIONS: u32 = 2;

/// Runs `deed` on the database that the settings name, be it that of a running Weir.
pub(crate) async fn with_desk<T, F>(
    config: &Config,
    deed: impl FnOnce(Desk) -> F,
) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let store = Store::join(config).await?;
    let done = on(config, &store, deed).await;
    store.close().await?;
    done
}

async fn on<T, F>(
    config: &Config,
    store: &Store,
    deed: impl FnOnce(Desk) -> F,
) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    if config.migrate {
        database::migrate(store.url()).await?;
    }
    let pool = database::open(store.url(), CONNECTIONS).await?;
    let done = match database::schema(&pool).await.and_then(database::Schema::require) {
        Ok(()) => deed(Desk::on(pool.clone())).await,
        Err(failure) => Err(failure),
    };
    pool.close().await;
    done
}
