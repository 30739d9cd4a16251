//! What goes wrong: one fault at a time, in the middle of a load.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::time::sleep;

use super::Fleet;
use super::line::Way;

/// The process that suffers where one of them does.
pub(crate) const VICTIM: usize = 0;
/// How long a process may take to come to the place that it dies at, and to end after SIGTERM.
const ENDS: Duration = Duration::from_secs(40);
/// How many keys are deleted, and how often scripts and connections are taken away.
const KEYS: usize = 30;
const TIMES: u32 = 8;
/// The pause between two of these.
const PAUSE: Duration = Duration::from_millis(100);
/// Of so many answers to commits one is lost.
const LOST_ONE_IN: u64 = 4;

/// One fault of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// F-01: `kill -9` of one process in the middle of streams.
    Killed,
    /// F-02: the same at a place in the life of a call.
    KilledAt(&'static str),
    /// F-04: SIGTERM.
    Terminated,
    /// F-10: Redis is killed and comes back empty.
    RedisKilled,
    /// F-11: Redis forgets everything, then single keys, its scripts, its connections.
    RedisEmptied,
    /// F-12: Redis stops and does not close its connections.
    RedisFrozen,
    /// F-13: one process is cut off from Redis, the others are not.
    OneCutOff,
    /// F-20: PostgreSQL is killed and comes back.
    PostgresKilled,
    /// F-21: PostgreSQL commits, and the answer is lost with its connection.
    CommitsUnanswered,
}

impl Fault {
    /// Its number in the catalogue.
    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::Killed => "F-01",
            Self::KilledAt(_) => "F-02",
            Self::Terminated => "F-04",
            Self::RedisKilled => "F-10",
            Self::RedisEmptied => "F-11",
            Self::RedisFrozen => "F-12",
            Self::OneCutOff => "F-13",
            Self::PostgresKilled => "F-20",
            Self::CommitsUnanswered => "F-21",
        }
    }

    /// What happens, in some words.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Killed => "`kill -9` of one process, restart".to_owned(),
            Self::KilledAt(place) => format!("`kill -9` at `{place}`, restart"),
            Self::Terminated => "SIGTERM of one process, restart".to_owned(),
            Self::RedisKilled => "Redis killed, back empty".to_owned(),
            Self::RedisEmptied => {
                "FLUSHALL, DEL of random keys, SCRIPT FLUSH, CLIENT KILL".to_owned()
            }
            Self::RedisFrozen => "SIGSTOP of Redis".to_owned(),
            Self::OneCutOff => "one process cut off from Redis".to_owned(),
            Self::PostgresKilled => "`kill -9` of PostgreSQL, back".to_owned(),
            Self::CommitsUnanswered => "answers to COMMIT lost".to_owned(),
        }
    }

    /// Whether clients that go to another process when one does not take their connection notice nothing.
    pub(crate) const fn is_unnoticed(self) -> bool {
        matches!(self, Self::Terminated)
    }

    /// Whether a process dies without a word: calls that were admitted and not yet on record leave their hold to its
    /// time to live.
    pub(crate) const fn leaves_holds(self) -> bool {
        matches!(self, Self::Killed | Self::KilledAt(_))
    }

    /// Before the load.
    pub(crate) async fn prepare(self, fleet: &mut Fleet, dice: &mut StdRng) {
        if let Self::KilledAt(place) = self {
            // Not at the first call that comes there: others are to be under way.
            let at = dice.random_range(8..24);
            let status = fleet.weirs[VICTIM].stop().await;
            assert_eq!(status.code(), Some(0), "SIGTERM ends it well");
            fleet.start_again(VICTIM, Some(&format!("{place}:{at}"))).await;
        }
    }

    /// In the middle of it: does it, lets it last, and undoes it. Gives a word on how it went.
    pub(crate) async fn strike(
        self,
        fleet: &mut Fleet,
        dice: &mut StdRng,
        lasts: Duration,
    ) -> String {
        match self {
            Self::Killed => {
                fleet.weirs[VICTIM].kill().await;
                fleet.start_again(VICTIM, None).await;
            }
            Self::KilledAt(place) => {
                let status = fleet.weirs[VICTIM].ended(ENDS).await;
                assert_eq!(status.code(), None, "it was to be killed at {place}: {status}");
                fleet.start_again(VICTIM, None).await;
            }
            Self::Terminated => {
                let began = std::time::Instant::now();
                let status = fleet.weirs[VICTIM].stop().await;
                assert_eq!(status.code(), Some(0), "SIGTERM ends it well");
                let drained = began.elapsed();
                fleet.start_again(VICTIM, None).await;
                return format!(
                    "exit code 0 after {}.{} s",
                    drained.as_secs(),
                    drained.subsec_millis() / 100
                );
            }
            Self::RedisKilled => {
                fleet.redis.kill();
                sleep(lasts).await;
                fleet.redis.start_again().await;
            }
            Self::RedisEmptied => empty(fleet).await,
            Self::RedisFrozen => {
                fleet.redis.freeze();
                sleep(lasts).await;
                fleet.redis.thaw();
            }
            Self::OneCutOff => {
                let way = if dice.random() { Way::Silent } else { Way::Cut };
                fleet.line.set(way);
                sleep(lasts).await;
                fleet.line.set(Way::Open);
                return format!("line {way:?}").to_lowercase();
            }
            Self::PostgresKilled => {
                fleet.postgres.kill();
                sleep(lasts).await;
                fleet.postgres.start_again();
                fleet.pool = fleet.postgres.pool();
            }
            Self::CommitsUnanswered => {
                let before = fleet.postgres.line.lost();
                fleet.postgres.line.lose_commits(LOST_ONE_IN);
                sleep(lasts).await;
                fleet.postgres.line.lose_commits(0);
                let lost = fleet.postgres.line.lost() - before;
                assert!(lost > 0, "no answer was lost: this shows nothing");
                return format!("{lost} answers lost");
            }
        }
        String::new()
    }
}

async fn empty(fleet: &Fleet) {
    fleet.redis.flush();
    sleep(PAUSE * 10).await;
    for _ in 0..KEYS {
        fleet.redis.delete_one();
        sleep(PAUSE / 2).await;
    }
    for _ in 0..TIMES {
        fleet.redis.command(&["SCRIPT", "FLUSH"]).unwrap();
        sleep(PAUSE).await;
    }
    for _ in 0..TIMES {
        fleet.redis.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
        sleep(PAUSE * 5).await;
    }
    fleet.redis.flush();
}
