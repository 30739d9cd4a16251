//! All faults of the catalogue on the real program, and a table of what came of them. `cargo xtask faults` starts it.
//!
//! `faults [--runs N] [--only F-xx]… [--seed N] [--lasts-s N] [--table FILE]`

#![expect(clippy::unwrap_used, reason = "a check that cannot go on fails, and says where")]
#![expect(clippy::print_stdout, reason = "a tool of the terminal: what it prints is its answer")]
#![expect(dead_code, reason = "the modules are the tests', which use the rest of them")]

#[path = "../it/admin.rs"]
mod admin;
#[path = "../it/environment.rs"]
mod environment;
mod figures;
#[path = "../it/fleet/mod.rs"]
mod fleet;
#[path = "../it/folder.rs"]
mod folder;
#[path = "../it/http.rs"]
mod http;
#[path = "../it/say.rs"]
mod say;
mod table;
#[path = "../it/wait.rs"]
mod wait;
#[path = "../it/weir_process.rs"]
mod weir_process;
#[path = "../it/world.rs"]
mod world;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use crate::fleet::fault::Fault;
use crate::fleet::report::Report;
use crate::fleet::run::{Times, run};
use crate::fleet::{Fleet, REDIS_DEADLINE_MS};
use crate::say::say;

/// The places at which a process can be told to kill itself, in the order in which a call comes to them.
const PLACES: [&str; 7] = [
    "after_admit",
    "after_open",
    "after_connect",
    "after_first_frame",
    "before_commit",
    "after_commit",
    "after_settle",
];
/// The catalogue says 20 or 30 for some.
const LASTS_S: u64 = 10;
/// The load around a fault.
const TIMES: Times = Times {
    before_ms: (2_500, 5_000),
    lasts: Duration::from_secs(LASTS_S),
    after: Duration::from_secs(5),
    calls_per_s: 40,
    capped_calls: 60,
};
/// What is not a fault and measured by the same command.
const FIGURES: &str = "figures";

/// What was asked for.
#[derive(Debug)]
struct Asked {
    runs: u64,
    only: Vec<String>,
    seed: u64,
    table: Option<String>,
    /// How many seconds a fault lasts where it lasts.
    lasts_s: u64,
}

impl Asked {
    fn read(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked = Self {
            runs: 1,
            only: Vec::new(),
            seed: environment::seed(),
            table: None,
            lasts_s: LASTS_S,
        };
        let mut arguments = arguments;
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            let number = || value.parse().map_err(|_| format!("{name}: {value} is not a number"));
            match name.as_str() {
                "--runs" => asked.runs = number()?,
                "--seed" => asked.seed = number()?,
                "--lasts-s" => asked.lasts_s = number()?,
                "--only" => asked.only.push(value),
                "--table" => asked.table = Some(value),
                _ => return Err(format!("{name} is not known")),
            }
        }
        Ok(asked)
    }

    fn wants(&self, id: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only.eq_ignore_ascii_case(id))
    }
}

fn all() -> Vec<Fault> {
    let mut all = vec![Fault::Killed];
    all.extend(PLACES.into_iter().map(Fault::KilledAt));
    all.extend([Fault::Terminated, Fault::RedisKilled, Fault::RedisEmptied, Fault::RedisFrozen]);
    all.extend([Fault::OneCutOff, Fault::PostgresKilled, Fault::CommitsUnanswered]);
    all
}

fn main() -> ExitCode {
    let asked = match Asked::read(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(wrong) => {
            say(&wrong);
            return ExitCode::FAILURE;
        }
    };
    let faults: Vec<Fault> = all().into_iter().filter(|fault| asked.wants(fault.id())).collect();
    if faults.is_empty() && !asked.wants(FIGURES) {
        say(&format!("no such fault: {:?}", asked.only));
        return ExitCode::FAILURE;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if runtime.block_on(every(&asked, faults)) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Does all that was asked for, and writes it down. Whether all went well.
async fn every(asked: &Asked, faults: Vec<Fault>) -> bool {
    let times = Times { lasts: Duration::from_secs(asked.lasts_s), ..TIMES };
    let mut page = Page::new(asked.lasts_s);
    for number in 0..asked.runs {
        let seed = asked.seed.wrapping_add(number);
        let mut fleet = None;
        for fault in &faults {
            // A fault that ends in a panic takes its fleet along: the next gets another.
            let one = AssertUnwindSafe(alone(fleet.take(), *fault, seed, times));
            match one.catch_unwind().await {
                Ok((lasting, report)) => {
                    fleet = Some(lasting);
                    page.add(&report);
                }
                Err(error) => page.broke(*fault, seed, why(error.as_ref())),
            }
        }
    }
    if asked.wants(FIGURES) {
        match AssertUnwindSafe(figures::measure()).catch_unwind().await {
            Ok((text, well)) => {
                page.figures = text;
                page.bad += usize::from(!well);
            }
            Err(error) => {
                say(&format!("figures: BROKE OFF: {}", why(error.as_ref())));
                page.bad += 1;
            }
        }
    }
    let text = page.text();
    println!("{text}");
    if let Some(file) = &asked.table {
        std::fs::write(file, text).unwrap();
    }
    page.bad == 0
}

/// What a panic said.
fn why(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it said nothing")
}

async fn alone(fleet: Option<Fleet>, fault: Fault, seed: u64, times: Times) -> (Fleet, Report) {
    let mut fleet = match fleet {
        Some(fleet) => fleet,
        None => Fleet::start().await,
    };
    let report = run(&mut fleet, fault, seed, times).await;
    (fleet, report)
}

/// What is written down.
#[derive(Debug)]
struct Page {
    began: Instant,
    lasts_s: u64,
    rows: Vec<String>,
    wrong: Vec<String>,
    figures: String,
    bad: usize,
}

impl Page {
    fn new(lasts_s: u64) -> Self {
        let (rows, wrong) = (Vec::new(), Vec::new());
        Self { began: Instant::now(), lasts_s, rows, wrong, figures: String::new(), bad: 0 }
    }

    fn add(&mut self, report: &Report) {
        self.rows.push(table::row(report));
        let id = report.fault.id();
        for wrong in &report.books.wrong {
            self.wrong.push(format!("- {id}, seed {}: {wrong}", report.seed));
        }
        self.bad += usize::from(!report.books.wrong.is_empty());
    }

    fn broke(&mut self, fault: Fault, seed: u64, why: &str) {
        say(&format!("{} {} seed {seed}: BROKE OFF: {why}", fault.id(), fault.words()));
        self.wrong.push(format!(
            "- {} {}, seed {seed}: broke off: {why}",
            fault.id(),
            fault.words()
        ));
        self.bad += 1;
    }

    fn text(&self) -> String {
        let conditions = format!(
            "Three processes on loopback over one PostgreSQL and one Redis, one simulated provider; built without \
             optimisation, {} processors shared by all of them and the clients; {} calls a second, 60 % streams, \
             10 % clients that leave; a fault lasts {} s where it lasts; deadline of Redis {REDIS_DEADLINE_MS} ms; all in {} s.",
            std::thread::available_parallelism().map_or(0, usize::from),
            TIMES.calls_per_s,
            self.lasts_s,
            self.began.elapsed().as_secs(),
        );
        let wrong = if self.wrong.is_empty() {
            "nothing".to_owned()
        } else {
            format!("\n\n{}", self.wrong.join("\n"))
        };
        let rows = self.rows.join("\n");
        let figures = &self.figures;
        format!("{INTRO}\n\n{conditions}\n\n{}\n{rows}\n\nWrong: {wrong}\n{figures}", table::HEAD)
    }
}

const INTRO: &str = "\
# Faults

Written by `cargo xtask faults`. One fault at a time strikes in the middle of a load, at a time drawn from the seed; the \
load goes on, ends, and when nothing is held any more all accounts are compared: J, the calls in the provider's own \
journal; E, usage events; L, events whose charge is posted in the ledger; slices, rollups and the counters of admission, \
by `weir books verify`. A capped tenant tries more calls than its money is for, a narrow one has three places: *over* is \
what they got beyond that. *Failed* are answers that are neither a success nor a limit's refusal, and connections that \
broke. *Away* is the longest time in which a tenant without limits was not served; while another \
engine takes over calls wait, which *slowest served* shows. *Left to TTL* are calls whose process \
was killed between their admission and their record: nothing was sent, and their hold ends by itself after 15 minutes. \
*E without J* are calls that were on record when their process was killed, and were never sent: charged as orphaned.";
