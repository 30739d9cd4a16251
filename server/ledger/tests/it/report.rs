//! The figures of the pages.

use domain::id::{KeyId, TenantId};
use domain::money::Nanos;
use domain::usage::{Outcome, Usage, UsageSource};
use domain::window::{UnixMs, Zone};
use ledger::LedgerError;
use ledger::report::{
    TenantPeriod, activity, key_spend, model_mix, recent_events, spend_by_tenant, tenant_days,
    totals,
};

use crate::fixture::{Books, HOUR, MONTH, NOON, books, event_at};

const DAY: i64 = 24 * HOUR;
const UNTIL: UnixMs = UnixMs(NOON.0 + DAY);

/// Three tenants' calls around noon.
async fn busy_books() -> Books {
    let books = books().await;
    let mut audio = event_at(1, 100, NOON);
    audio.model = "pro".to_owned();
    audio.usage = Usage {
        input: 1,
        cached_input: 2,
        cache_write_short: 4,
        cache_write_long: 8,
        input_audio: 16,
        output: 32,
        reasoning: 64,
        output_audio: 128,
        output_image: 256,
    };
    let mut failed = event_at(1, 0, NOON.plus_ms(HOUR));
    failed.outcome = Outcome::ProviderError;
    failed.usage_source = UsageSource::Estimated;
    failed.key_id = KeyId(11);
    let flash = event_at(2, 4_000, NOON.plus_ms(20 * 60_000));
    let early = event_at(3, 7, NOON.plus_ms(-2 * DAY));
    books.append_all([audio, failed, flash, early]).await;
    books
}

#[tokio::test]
async fn the_model_mix_keeps_the_token_classes_apart_and_the_largest_charge_first() {
    let books = busy_books().await;
    let mix = model_mix(books.pool(), None, NOON, UNTIL).await.unwrap();
    let models: Vec<_> = mix.iter().map(|m| (&*m.model, m.requests, m.charge.0)).collect();
    assert_eq!(models, [("flash", 2, 4_000), ("pro", 1, 100)]);
    let pro = &mix[1];
    assert_eq!(
        (pro.input, pro.cached_input, pro.cache_write, pro.output, pro.reasoning, pro.cost.0),
        (17, 2, 12, 416, 64, 50)
    );
    let of_one = model_mix(books.pool(), Some(TenantId(1)), NOON, UNTIL).await.unwrap();
    let models: Vec<_> = of_one.iter().map(|m| (&*m.model, m.charge.0)).collect();
    assert_eq!(models, [("pro", 100), ("flash", 0)]);
}

#[tokio::test]
async fn totals_activity_and_keys_add_up_the_same_calls() {
    let books = busy_books().await;
    let sums = totals(books.pool(), NOON, UNTIL).await.unwrap();
    assert_eq!((sums.requests, sums.failed, sums.estimated), (3, 1, 1));
    assert_eq!((sums.charge, sums.cost), (Nanos(4_100), Nanos(2_050)));
    assert_eq!((sums.input_tokens, sums.output_tokens), (31 + 2 * 1_000, 480 + 2 * 3_200));
    let busy = activity(books.pool(), NOON, UNTIL).await.unwrap();
    let figures: Vec<_> = busy
        .iter()
        .map(|a| (a.tenant_id.0, a.requests, a.failed, a.charge.0, a.last_slot))
        .collect();
    let slot = NOON.plus_ms(15 * 60_000);
    assert_eq!(figures, [(1, 2, 1, 100, NOON.plus_ms(HOUR)), (2, 1, 0, 4_000, slot)]);
    let keys = key_spend(books.pool(), TenantId(1), NOON, UNTIL).await.unwrap();
    let keys: Vec<_> = keys.iter().map(|k| (k.key_id.0, k.requests, k.charge.0)).collect();
    assert_eq!(keys, [(10, 1, 100), (11, 1, 0)]);
    let none = totals(books.pool(), UNTIL, UNTIL.plus_ms(DAY)).await.unwrap();
    assert_eq!(none, ledger::report::Totals::default());
}

#[tokio::test]
async fn a_day_is_the_tenants_own() {
    let books = books().await;
    let zone = Zone::named("Asia/Kathmandu").unwrap();
    // Midnight there is 18:15 UTC.
    let midnight = UnixMs(NOON.0 + 6 * HOUR + 15 * 60_000);
    books
        .append_all([
            event_at(1, 5, midnight.plus_ms(-1)),
            event_at(1, 7, midnight),
            event_at(1, 11, midnight.plus_ms(DAY)),
            event_at(2, 13, midnight),
        ])
        .await;
    let from = midnight.plus_ms(-3 * DAY);
    let to = midnight.plus_ms(5 * DAY);
    let days = tenant_days(books.pool(), Some(TenantId(1)), from, to, &zone).await.unwrap();
    let figures: Vec<_> = days.iter().map(|d| (d.day_start, &*d.model, d.charge.0)).collect();
    let day = |n: i64| midnight.plus_ms(n * DAY);
    assert_eq!(figures, [(day(-1), "flash", 5), (day(0), "flash", 7), (day(1), "flash", 11)]);
    let all = tenant_days(books.pool(), None, day(0), day(1), &zone).await.unwrap();
    assert_eq!(all.iter().map(|d| (d.charge.0, d.requests)).collect::<Vec<_>>(), [(20, 2)]);
    let too_long = tenant_days(books.pool(), None, day(0), day(400), &zone).await;
    assert!(matches!(too_long, Err(LedgerError::Rejected(_))));
}

#[tokio::test]
async fn a_day_of_25_hours_is_one_day() {
    let books = books().await;
    let zone = Zone::named("America/Los_Angeles").unwrap();
    // The clocks go back on 1 November 2026: the day lasts from 07:00 to 08:00 UTC of the next.
    let begins = UnixMs(MONTH.0 + 7 * HOUR);
    let ends = begins.plus_ms(25 * HOUR);
    books
        .append_all([
            event_at(1, 1, begins),
            event_at(1, 2, ends.plus_ms(-1)),
            event_at(1, 4, ends),
        ])
        .await;
    let days = tenant_days(books.pool(), Some(TenantId(1)), begins, begins.plus_ms(3 * DAY), &zone)
        .await
        .unwrap();
    let figures: Vec<_> = days.iter().map(|d| (d.day_start, d.charge.0)).collect();
    assert_eq!(figures, [(begins, 3), (ends, 4)]);
}

#[tokio::test]
async fn spend_comes_from_the_month_slice_or_from_the_rollups_where_there_is_none() {
    let books = books().await;
    let booked = event_at(1, 40, NOON);
    let mut unbooked = event_at(2, 50, NOON);
    unbooked.bookings.clear();
    let mut before = event_at(2, 60, MONTH.plus_ms(-1));
    before.bookings.clear();
    books.append_all([booked, unbooked, before]).await;
    let period = |tenant| TenantPeriod { tenant_id: TenantId(tenant), from: MONTH, to: UNTIL };
    let mut spend =
        spend_by_tenant(books.pool(), &[period(1), period(2), period(3)]).await.unwrap();
    spend.sort_by_key(|row| row.tenant_id);
    assert_eq!(spend.iter().map(|row| row.settled.0).collect::<Vec<_>>(), [40, 50, 0]);
}

#[tokio::test]
async fn pages_of_events_follow_each_other_without_gap_or_overlap() {
    let books = books().await;
    let events: Vec<_> =
        (0..25).map(|n| event_at(1, n, NOON.plus_ms(-(n / 5) * 40 * DAY))).collect();
    let mut expected: Vec<_> =
        events.iter().map(|event| (event.admitted_at, event.request_id)).collect();
    expected.sort_by(|a, b| b.cmp(a));
    books.append_all(events).await;
    books.append_all([event_at(2, 1, NOON)]).await;
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = recent_events(books.pool(), TenantId(1), before, 4).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.cursor());
        seen.extend(page.iter().map(|row| (row.admitted_at, row.request_id)));
    }
    assert_eq!(seen, expected);
}
