//! Failed sign-ins: each further one has to wait, per account and address, and per address.
//!
//! Never per account alone: that would let anybody lock anybody out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use domain::window::UnixMs;
use sha2::{Digest, Sha256};

/// How many failures an account may have from one address before it has to wait.
const FREE_PER_ACCOUNT: u32 = 5;
/// How many failures an address may have before it has to wait: an office of people behind one.
const FREE_PER_ADDRESS: u32 = 50;
/// The first wait; it doubles with each failure after it.
const FIRST_WAIT_MS: i64 = 15_000;
/// The longest wait: nobody is kept out of their own account for longer.
const WAIT_MS_MAX: i64 = 15 * 60 * 1_000;
/// Failures are forgotten after this time without another.
const FORGET_AFTER_MS: i64 = 60 * 60 * 1_000;
/// How many accounts and addresses are remembered: some 2 MB. Beyond it the oldest are forgotten.
const REMEMBERED_MAX: usize = 20_000;

/// What is counted: never an address of mail in clear, for memory may be dumped.
type Subject = [u8; 16];

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last: UnixMs,
    wait_until: UnixMs,
}

/// Counts failures. Bounded in memory.
#[derive(Debug, Default)]
pub struct Throttle(Mutex<HashMap<Subject, Failures>>);

impl Throttle {
    /// How long this account has to wait at this address, in whole seconds rounded up; nothing
    /// when it may try.
    #[must_use]
    pub fn wait_s(&self, address: IpAddr, account: &str, now: UnixMs) -> Option<i64> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = subjects(address, account).into_iter().filter_map(|(subject, _)| {
            seen.get(&subject).map(|failures| failures.wait_until.since_ms(now))
        });
        waits.max().filter(|wait| *wait > 0).map(|wait_ms| (wait_ms + 999) / 1_000)
    }

    /// Counts a failure, before the password is looked at: many tries at once count as many.
    pub fn failed(&self, address: IpAddr, account: &str, now: UnixMs) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (subject, free) in subjects(address, account) {
            if seen.len() >= REMEMBERED_MAX && !seen.contains_key(&subject) {
                forget_some(&mut seen, now);
            }
            let fresh = Failures { count: 0, last: now, wait_until: UnixMs(0) };
            let failures = seen.entry(subject).or_insert(fresh);
            if now.since_ms(failures.last) > FORGET_AFTER_MS {
                *failures = fresh;
            }
            failures.count = failures.count.saturating_add(1);
            failures.last = now;
            if let Some(beyond) = failures.count.checked_sub(free) {
                let doubled = FIRST_WAIT_MS.checked_shl(beyond.min(16)).unwrap_or(WAIT_MS_MAX);
                failures.wait_until = now.plus_ms(doubled.min(WAIT_MS_MAX));
            }
        }
    }

    /// Forgets an account's failures at an address: its owner was there. The address keeps its own
    /// count, less the one that was no failure.
    pub fn succeeded(&self, address: IpAddr, account: &str) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let [(account, _), (address, _)] = subjects(address, account);
        seen.remove(&account);
        if let Some(failures) = seen.get_mut(&address) {
            failures.count = failures.count.saturating_sub(1);
        }
    }
}

/// The account at the address, and the address: each with how many failures are free.
fn subjects(address: IpAddr, account: &str) -> [(Subject, u32); 2] {
    // An IPv6 user has a whole /64.
    let address = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets()[..8].to_vec(),
    };
    let account = account.trim().to_lowercase();
    let both = subject(&[b"account", &address, account.as_bytes()]);
    [(both, FREE_PER_ACCOUNT), (subject(&[b"address", &address]), FREE_PER_ADDRESS)]
}

fn subject(parts: &[&[u8]]) -> Subject {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update([u8::try_from(part.len()).unwrap_or(u8::MAX)]);
        hash.update(part);
    }
    let digest: [u8; 32] = hash.finalize().into();
    let mut subject = [0; 16];
    subject.copy_from_slice(&digest[..16]);
    subject
}

/// Makes room: what is over, and when that is not enough, the older half.
fn forget_some(seen: &mut HashMap<Subject, Failures>, now: UnixMs) {
    seen.retain(|_, failures| now.since_ms(failures.last) <= FORGET_AFTER_MS);
    if seen.len() >= REMEMBERED_MAX {
        let mut times: Vec<UnixMs> = seen.values().map(|failures| failures.last).collect();
        times.sort_unstable();
        let middle = times[times.len() / 2];
        seen.retain(|_, failures| failures.last > middle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));
    const NOW: UnixMs = UnixMs(1_795_900_000_000);

    #[test]
    fn after_five_failures_the_sixth_try_waits_and_each_further_one_longer() {
        let throttle = Throttle::default();
        for _ in 0..4 {
            throttle.failed(HERE, "ana@acme.example", NOW);
            assert_eq!(throttle.wait_s(HERE, "ana@acme.example", NOW), None);
        }
        throttle.failed(HERE, "ana@acme.example", NOW);
        assert_eq!(throttle.wait_s(HERE, " ANA@acme.example", NOW), Some(15));
        assert_eq!(throttle.wait_s(HERE, "ana@acme.example", NOW.plus_ms(14_001)), Some(1));
        assert_eq!(throttle.wait_s(HERE, "ana@acme.example", NOW.plus_ms(15_000)), None);
        throttle.failed(HERE, "ana@acme.example", NOW.plus_ms(15_000));
        assert_eq!(throttle.wait_s(HERE, "ana@acme.example", NOW.plus_ms(15_000)), Some(30));
    }

    #[test]
    fn somebody_elses_failures_lock_nobody_out() {
        let throttle = Throttle::default();
        for _ in 0..20 {
            throttle.failed(HERE, "ana@acme.example", NOW);
        }
        assert!(throttle.wait_s(HERE, "ana@acme.example", NOW).is_some());
        assert_eq!(throttle.wait_s(THERE, "ana@acme.example", NOW), None, "her own address");
        assert_eq!(throttle.wait_s(HERE, "bob@acme.example", NOW), None, "her colleague");
    }

    #[test]
    fn an_address_that_tries_many_accounts_waits_for_all() {
        let throttle = Throttle::default();
        for number in 0..FREE_PER_ADDRESS {
            throttle.failed(HERE, &format!("user{number}@acme.example"), NOW);
        }
        assert!(throttle.wait_s(HERE, "new@acme.example", NOW).is_some());
    }

    #[test]
    fn a_wait_ends_within_a_quarter_of_an_hour_and_failures_are_forgotten() {
        let throttle = Throttle::default();
        for _ in 0..1_000 {
            throttle.failed(HERE, "a@b.example", NOW);
        }
        assert_eq!(throttle.wait_s(HERE, "a@b.example", NOW), Some(900));
        let later = NOW.plus_ms(FORGET_AFTER_MS + 1);
        throttle.failed(HERE, "a@b.example", later);
        assert_eq!(throttle.wait_s(HERE, "a@b.example", later), None);
    }

    #[test]
    fn the_owner_who_signs_in_starts_afresh() {
        let throttle = Throttle::default();
        for _ in 0..5 {
            throttle.failed(HERE, "a@b.example", NOW);
        }
        throttle.succeeded(HERE, "a@b.example");
        assert_eq!(throttle.wait_s(HERE, "a@b.example", NOW), None);
    }

    #[test]
    fn a_flood_of_accounts_stays_within_its_memory() {
        let throttle = Throttle::default();
        for number in 0..REMEMBERED_MAX + 100 {
            throttle.failed(HERE, &format!("{number}@b.example"), NOW);
        }
        assert!(throttle.0.lock().unwrap().len() <= REMEMBERED_MAX);
    }
}
