use super::*;
use crate::views::Month;
use proptest::prelude::*;

#[test]
fn money_follows_its_tiers() {
    let said: Vec<String> = [
        0,
        1,
        99_999,
        100_000,
        3_080_000,
        999_949_999,
        999_950_000,
        1_000_000_000,
        1_005_000_000,
        1_043_834_000_000,
        -2_500_000_000,
        -50,
    ]
    .into_iter()
    .map(money)
    .collect();
    assert_eq!(
        said,
        [
            "$0.00",
            "<$0.0001",
            "<$0.0001",
            "$0.0001",
            "$0.0031",
            "$0.9999",
            "$1.00",
            "$1.00",
            "$1.01",
            "$1,043.83",
            "−$2.50",
            "−<$0.0001",
        ]
    );
}

#[test]
fn a_total_has_two_decimals_and_is_never_free_by_rounding() {
    let said: Vec<String> =
        [0, 1, 4_999_999, 5_000_000, 4_812_404_999_999, -1].into_iter().map(money_total).collect();
    assert_eq!(said, ["$0.00", "<$0.01", "<$0.01", "$0.01", "$4,812.40", "−<$0.01"]);
}

#[test]
fn the_exact_amount_keeps_all_nine_decimals() {
    assert_eq!(money_exact(3_080_000), "$0.003080000");
    assert_eq!(money_exact(i64::MIN), "−$9,223,372,036.854775808");
}

#[test]
fn an_axis_has_the_decimals_of_its_step() {
    let usd = 1_000_000_000;
    assert_eq!(axis_money(40 * usd, 20 * usd), "$40");
    assert_eq!(axis_money(usd / 2, usd / 2), "$0.50");
    assert_eq!(axis_money(usd / 50, usd / 50), "$0.02");
    assert_eq!(axis_money(2_000, 1_000), "$0.000002");
    assert_eq!(axis_money(4_500 * usd, 1_500 * usd), "$4.5k");
    assert_eq!(axis_money(0, 0), "$0.000000000");
}

#[test]
fn counts_are_grouped_and_shortened_downwards() {
    assert_eq!([count(7), count(1_000), count(-182_440)], ["7", "1,000", "−182,440"]);
    let short: Vec<String> =
        [940, 1_000, 12_499, 999_999, 1_249_999, 3_100_000_000].into_iter().map(compact).collect();
    assert_eq!(short, ["940", "1.00 k", "12.4 k", "999 k", "1.24 M", "3.10 G"].map(nbsp));
}

#[test]
fn a_share_never_reaches_its_cap_early() {
    assert_eq!(part_percent(1_999, 2_000), nbsp("99 %"));
    assert_eq!(part_percent(2_000, 2_000), nbsp("100 %"));
    assert_eq!(part_percent(1, 2_000), nbsp("<1 %"));
    assert_eq!([part_percent(0, 5), part_percent(5, 0)], [nbsp("0 %"), nbsp("0 %")]);
    assert_eq!(permille(5, 4, 1_100), 1_100);
    assert_eq!(permille(i64::MAX, 1, 1_100), 1_100);
}

#[test]
fn one_is_singular() {
    assert_eq!(plural(1, "tenant", "tenants"), nbsp("1 tenant"));
    assert_eq!(plural(0, "tenant", "tenants"), nbsp("0 tenants"));
}

#[test]
fn times_are_said_in_their_zone() {
    // 2026-11-30 23:30 UTC is already December in Kathmandu (+05:45).
    let late = 1_796_081_400_000;
    assert_eq!(rfc3339(late), "2026-11-30T23:30:00Z");
    assert_eq!(date_time(late, "UTC", late), "30 Nov 23:30");
    assert_eq!(date_time(late, "Asia/Kathmandu", late), "1 Dec 05:15");
    assert_eq!(date_time(late, "Nowhere/AtAll", late), "30 Nov 23:30");
    assert_eq!(date(late, "UTC"), "30 Nov 2026");
    assert_eq!(date_time(late, "UTC", late + 40 * 86_400_000), "30 Nov 2026 23:30");
}

#[test]
fn lengths_are_said_shortly() {
    let minute = 60_000;
    assert_eq!(ago(0, 59_999), "just now");
    assert_eq!(ago(0, 3 * minute), nbsp("3 min").to_string() + " ago");
    assert_eq!(ago(0, 50 * 60 * minute), nbsp("2 d") + " ago");
    assert_eq!(until(33 * 60 * minute, 0), format!("in {} {}", nbsp("1 d"), nbsp("9 h")));
    assert_eq!(until(5, 10), "now");
    let said = [410, 2_940, 72_000, -3].map(length_ms);
    let minutes = format!("{} {}", nbsp("1 min"), nbsp("12 s"));
    assert_eq!(said, [nbsp("410 ms"), nbsp("2.9 s"), minutes, nbsp("0 ms")]);
}

#[test]
fn months_have_names() {
    let month = Month::parse("2026-11").unwrap();
    assert_eq!(month_name(month), "November 2026");
    assert_eq!(day_of_month(month, 3), nbsp("3 Nov"));
}

fn nbsp(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

proptest! {
    #[test]
    fn money_never_has_three_decimals_and_never_hides_a_cost(nanos in any::<i64>()) {
        for text in [money(nanos), money_total(nanos)] {
            let places = text.split_once('.').map_or(0, |(_, places)| places.len());
            prop_assert!(places == 2 || places == 4, "{}", text);
            prop_assert_eq!(text == "$0.00", nanos == 0);
        }
    }

    #[test]
    fn no_instant_panics(at_ms in any::<i64>(), now_ms in any::<i64>()) {
        let _ = (date_time(at_ms, "America/St_Johns", now_ms), date(at_ms, "UTC"), rfc3339(at_ms));
        let _ = (ago(at_ms, now_ms), until(at_ms, now_ms), length_ms(at_ms));
    }
}
