//! `weir migrate`.

use super::say;
use crate::config::Config;
use crate::database;
use crate::failure::Failure;
use crate::store::Store;

/// Brings the schema up to date, or only says whether it is.
pub(crate) async fn run(config: Config, check: bool) -> Result<(), Failure> {
    let store = Store::join(&config).await?;
    let done =
        if check { inspect(&config, &store).await } else { database::migrate(store.url()).await };
    store.close().await?;
    done?;
    say(&format!("The schema is this program's: version {}.", database::newest()))
}

async fn inspect(config: &Config, store: &Store) -> Result<(), Failure> {
    let pool = database::open(store.url(), config.database_connections).await?;
    let schema = database::schema(&pool).await;
    pool.close().await;
    schema?.require()
}
