//! The limiter on a real PostgreSQL, a real Redis and a real Redis Cluster.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails, and says where")]

/// Makes a test of a scenario for each engine: the scenario is written once.
macro_rules! in_all_engines {
    ($scenario:ident) => {
        mod $scenario {
            use crate::fixture::{House, Kind};

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn postgres() {
                super::$scenario(House::on(Kind::Postgres).await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn redis() {
                super::$scenario(House::on(Kind::Redis).await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn cluster() {
                super::$scenario(House::on(Kind::Cluster).await).await;
            }
        }
    };
}

mod budget;
mod engine;
mod expiry;
mod fixture;
mod gone;
mod hold;

mod model;
mod outage;
mod random_walk;
mod reconcile;
mod refusal;
mod scope;
