//! What dead processes left on record goes into the books.

use std::io;
use std::time::Duration;

use domain::usage::Outcome;
use ledger::spool::{Adopted, OnRecord, Ticket};
use limiter::Hold;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Gateway;
use crate::booking::{Booked, Ended};

/// How many events are appended at the same time: some batches of the writer.
const AT_ONCE: usize = 512;
/// How often the folders of dead processes are looked for, after the start.
const EVERY: Duration = Duration::from_secs(30);
/// How often a long recovery says how far it is.
const PROGRESS: Duration = Duration::from_secs(5);

/// What a recovery wrote into the books.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Calls that were over: with their own numbers.
    pub over: usize,
    /// Calls that were not: with an estimate, for a person to look at.
    pub orphaned: usize,
    /// Events that the books refuse.
    pub set_aside: usize,
    /// Segments with a part that could not be read.
    pub damaged_segments: usize,
}

impl Recovered {
    const fn all(&self) -> usize {
        self.over + self.orphaned + self.set_aside
    }

    const fn add(&mut self, outcome: Outcome, booked: Booked) {
        match (booked, outcome) {
            (Booked::Written, Outcome::Orphaned) => self.orphaned += 1,
            (Booked::Written, _) => self.over += 1,
            (Booked::SetAside, _) => self.set_aside += 1,
            (Booked::Left, _) => {}
        }
    }
}

impl Gateway {
    /// Recovers at once, and again and again: a process beside this one may die as well.
    pub async fn keep_recovering(&self, cancel: CancellationToken) {
        loop {
            match self.recover().await {
                Ok(recovered) if recovered == Recovered::default() => {}
                Ok(recovered) => {
                    let Recovered { over, orphaned, set_aside, damaged_segments } = recovered;
                    tracing::warn!(
                        over,
                        orphaned,
                        set_aside,
                        damaged_segments,
                        "calls were recovered"
                    );
                }
                Err(error) => tracing::error!(%error, "the spool cannot be recovered"),
            }
            self.count_spool();
            if cancel.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_none() {
                return;
            }
        }
    }

    /// Writes what dead processes left on record into the books, and settles it. A call that is in the books already
    /// moves nothing.
    ///
    /// # Errors
    /// When the folders cannot be read.
    pub async fn recover(&self) -> io::Result<Recovered> {
        let mut recovered = Recovered::default();
        let dropped = self.spool.dropped();
        let of_this_process = dropped.into_iter().map(|(ticket, call)| (call, Some(ticket)));
        self.book_all(of_this_process.collect(), &mut recovered).await;
        let spool = self.spool.clone();
        for folder in blocking(move || spool.adopt()).await? {
            recovered.damaged_segments += folder.skipped().segments;
            self.recover_folder(folder, &mut recovered).await?;
        }
        let count = |kind, calls: usize| {
            let calls = u64::try_from(calls).unwrap_or(u64::MAX);
            metrics::counter!("weir_calls_recovered_total", "kind" => kind).increment(calls);
        };
        count("over", recovered.over);
        count("orphaned", recovered.orphaned);
        Ok(recovered)
    }

    async fn recover_folder(&self, folder: Adopted, recovered: &mut Recovered) -> io::Result<()> {
        let (path, calls) = (folder.path().display().to_string(), folder.calls());
        tracing::info!(path, calls, "a dead process left calls on record");
        let mut progress = Instant::now() + PROGRESS;
        let mut folder = folder;
        loop {
            let (read, portion) = blocking(move || {
                let portion = folder.next_portion();
                Ok((folder, portion))
            })
            .await?;
            folder = read;
            let Some(portion) = portion? else { break };
            let portion = portion.into_iter().map(|call| (call, None)).collect();
            if !self.book_all(portion, recovered).await {
                // Left as it is for the next process: what is in the books by then moves nothing.
                return Ok(());
            }
            if Instant::now() > progress {
                tracing::info!(path, calls, done = recovered.all(), "recovering");
                progress = Instant::now() + PROGRESS;
            }
        }
        blocking(move || folder.discard()).await
    }

    /// Books calls, many at the same time; says whether all are done.
    async fn book_all(
        &self,
        calls: Vec<(OnRecord, Option<Ticket>)>,
        recovered: &mut Recovered,
    ) -> bool {
        let mut all_done = true;
        let mut calls = calls.into_iter();
        loop {
            let batch: Vec<_> =
                calls.by_ref().take(AT_ONCE).map(|call| self.book_one(call)).collect();
            if batch.is_empty() {
                return all_done;
            }
            for (outcome, booking) in batch {
                // A task that was torn down has left its call on record.
                let booked = booking.await.unwrap_or(Booked::Left);
                all_done &= booked != Booked::Left;
                recovered.add(outcome, booked);
            }
        }
    }

    fn book_one(
        &self,
        (call, ticket): (OnRecord, Option<Ticket>),
    ) -> (Outcome, tokio::sync::oneshot::Receiver<Booked>) {
        let OnRecord { event, hold } = call;
        let hold = serde_json::from_str::<Hold>(hold.get());
        if let Err(error) = &hold {
            let request_id = event.request_id;
            tracing::error!(%request_id, %error, "a hold on record cannot be read and will expire");
        }
        (event.outcome, self.hand_over(Ended { event, hold: hold.ok(), ticket }))
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
