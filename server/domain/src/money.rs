//! Money in integers: nano-USD for amounts, pico-USD per token for prices.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How many nano-USD make one USD.
pub const NANOS_PER_USD: i64 = 1_000_000_000;
/// The largest limit an operator may set, in nano-USD: 9,000,000 USD.
///
/// Counters must stay below 2^53, where JSON numbers and Lua's numbers stop being exact.
pub const MAX_LIMIT: Nanos = Nanos(9_000_000 * NANOS_PER_USD);
/// One whole in basis points.
pub const ONE_IN_BPS: i64 = 10_000;

/// An amount cannot be expressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    /// The result does not fit into 64 bits, or a count was negative.
    #[error("amount out of range")]
    OutOfRange,
    /// The text is not a plain decimal number, or has more decimals than the unit can hold.
    #[error("not an amount: expected a plain decimal number with at most {0} decimals")]
    NotAnAmount(u32),
}

/// An amount of money in nano-USD (1e-9 USD).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub i64);

impl Nanos {
    /// No money.
    pub const ZERO: Self = Self(0);

    /// Adds; an overflow is an error, never a wrap.
    pub fn plus(self, other: Self) -> Result<Self, MoneyError> {
        self.0.checked_add(other.0).map(Self).ok_or(MoneyError::OutOfRange)
    }

    /// Subtracts; an overflow is an error, never a wrap.
    pub fn minus(self, other: Self) -> Result<Self, MoneyError> {
        self.0.checked_sub(other.0).map(Self).ok_or(MoneyError::OutOfRange)
    }

    /// This amount plus `bps` basis points of it, rounded half up: a markup, or an overage.
    pub fn raised_by_bps(self, bps: i64) -> Result<Self, MoneyError> {
        let raised = i128::from(self.0) * i128::from(ONE_IN_BPS + bps);
        divide_half_up(raised, i128::from(ONE_IN_BPS))
    }

    /// This amount plus `bps` basis points of it, rounded up: a hold must not be too small.
    pub fn raised_by_bps_ceil(self, bps: i64) -> Result<Self, MoneyError> {
        let raised = i128::from(self.0) * i128::from(ONE_IN_BPS + bps);
        divide_ceil(raised, i128::from(ONE_IN_BPS))
    }
}

impl fmt::Display for Nanos {
    /// USD with all nine decimals: `0.003080000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "{sign}{}.{:09}", size / 1_000_000_000, size % 1_000_000_000)
    }
}

impl FromStr for Nanos {
    type Err = MoneyError;

    /// Reads USD as a plain decimal with at most nine decimals.
    fn from_str(text: &str) -> Result<Self, MoneyError> {
        parse_scaled(text, 9).map(Self)
    }
}

/// A price in pico-USD (1e-12 USD) per token: USD per million tokens times 1e6.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct PicoPerToken(pub i64);

impl fmt::Display for PicoPerToken {
    /// USD per million tokens, without trailing zeros: `0.1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0 / 1_000_000;
        let rest = (self.0 % 1_000_000).abs();
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let decimals = format!("{rest:06}");
        write!(f, "{whole}.{}", decimals.trim_end_matches('0'))
    }
}

impl FromStr for PicoPerToken {
    type Err = MoneyError;

    /// Reads USD per million tokens as a plain decimal with at most six decimals; a price is not negative.
    fn from_str(text: &str) -> Result<Self, MoneyError> {
        let price = parse_scaled(text, 6)?;
        if price < 0 { Err(MoneyError::OutOfRange) } else { Ok(Self(price)) }
    }
}

/// A sum in pico-USD that is still exact: it is rounded once, at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PicoSum(i128);

impl PicoSum {
    /// Adds `tokens` at `price`.
    pub fn add(self, tokens: i64, price: PicoPerToken) -> Result<Self, MoneyError> {
        if tokens < 0 {
            return Err(MoneyError::OutOfRange);
        }
        // 63 bits times 63 bits fit into 127.
        let part = i128::from(tokens) * i128::from(price.0);
        self.0.checked_add(part).map(Self).ok_or(MoneyError::OutOfRange)
    }

    /// The sum in nano-USD, rounded half up: what a call costs.
    pub fn half_up(self) -> Result<Nanos, MoneyError> {
        divide_half_up(self.0, 1_000)
    }

    /// The sum in nano-USD, rounded up: what a call holds.
    pub fn ceil(self) -> Result<Nanos, MoneyError> {
        divide_ceil(self.0, 1_000)
    }
}

fn divide_half_up(amount: i128, by: i128) -> Result<Nanos, MoneyError> {
    let doubled = amount.checked_mul(2).ok_or(MoneyError::OutOfRange)?;
    let rounded = (doubled + by).div_euclid(2 * by);
    i64::try_from(rounded).map(Nanos).map_err(|_| MoneyError::OutOfRange)
}

fn divide_ceil(amount: i128, by: i128) -> Result<Nanos, MoneyError> {
    let rounded = (amount + (by - 1)).div_euclid(by);
    i64::try_from(rounded).map(Nanos).map_err(|_| MoneyError::OutOfRange)
}

/// Reads a plain decimal as an integer number of units of 10^-`decimals`; nothing is rounded away.
fn parse_scaled(text: &str, decimals: u32) -> Result<i64, MoneyError> {
    let wrong = MoneyError::NotAnAmount(decimals);
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
    let part = part.trim_end_matches('0');
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(part) || part.len() > decimals as usize
    {
        return Err(wrong);
    }
    if digits.ends_with('.') {
        return Err(wrong);
    }
    let mut value: i64 = 0;
    let filler = decimals as usize - part.len();
    for digit in whole.bytes().chain(part.bytes()).chain(std::iter::repeat_n(b'0', filler)) {
        value = value
            .checked_mul(10)
            .and_then(|v| v.checked_add(i64::from(digit - b'0')))
            .ok_or(MoneyError::OutOfRange)?;
    }
    Ok(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn usd_reads_and_prints_with_nine_decimals() {
        assert_eq!("0.00308".parse(), Ok(Nanos(3_080_000)));
        assert_eq!(Nanos(3_080_000).to_string(), "0.003080000");
        assert_eq!(Nanos(-1).to_string(), "-0.000000001");
        assert_eq!("-12.5".parse(), Ok(Nanos(-12_500_000_000)));
        assert_eq!("12.50000000000".parse(), Ok(Nanos(12_500_000_000)));
    }

    #[test]
    fn text_that_would_lose_money_is_refused() {
        for text in ["", ".", "1.", ".5", "1e3", "0.0000000001", "1,5", " 1", "+1", "--1", "1.-5"] {
            assert!(text.parse::<Nanos>().is_err(), "{text}");
        }
        assert_eq!("9300000000".parse::<Nanos>(), Err(MoneyError::OutOfRange));
        assert!("-0.1".parse::<PicoPerToken>().is_err());
    }

    #[test]
    fn a_price_is_usd_per_million_tokens() {
        assert_eq!("0.10".parse(), Ok(PicoPerToken(100_000)));
        assert_eq!("0.000001".parse(), Ok(PicoPerToken(1)));
        assert_eq!(PicoPerToken(12_500_000).to_string(), "12.5");
        assert_eq!(PicoPerToken(3_000_000).to_string(), "3");
    }

    #[test]
    fn half_a_nano_rounds_up_and_a_hold_always_does() {
        let half = PicoSum::default().add(1, PicoPerToken(500)).unwrap();
        let less = PicoSum::default().add(1, PicoPerToken(499)).unwrap();
        assert_eq!((half.half_up(), less.half_up()), (Ok(Nanos(1)), Ok(Nanos(0))));
        assert_eq!((half.ceil(), less.ceil()), (Ok(Nanos(1)), Ok(Nanos(1))));
        assert_eq!(PicoSum::default().ceil(), Ok(Nanos::ZERO));
    }

    #[test]
    fn an_overflow_is_an_error_and_never_a_wrap() {
        assert_eq!(Nanos(i64::MAX).plus(Nanos(1)), Err(MoneyError::OutOfRange));
        assert_eq!(Nanos(i64::MAX).raised_by_bps(1), Err(MoneyError::OutOfRange));
        let huge = PicoSum::default().add(i64::MAX, PicoPerToken(i64::MAX)).unwrap();
        assert_eq!(huge.half_up(), Err(MoneyError::OutOfRange));
        assert_eq!(PicoSum::default().add(-1, PicoPerToken(1)), Err(MoneyError::OutOfRange));
    }

    #[test]
    fn five_percent_overage_of_two_hundred_usd_is_two_hundred_and_ten() {
        assert_eq!("200".parse::<Nanos>().unwrap().raised_by_bps(500), "210".parse());
    }

    proptest! {
        #[test]
        fn any_amount_reads_back_as_itself(amount in any::<i32>()) {
            let nanos = Nanos(i64::from(amount) * 7);
            prop_assert_eq!(nanos.to_string().parse::<Nanos>(), Ok(nanos));
        }

        #[test]
        fn a_hold_is_never_below_the_cost(tokens in 0_i64..1 << 40, price in 0_i64..1 << 20) {
            let sum = PicoSum::default().add(tokens, PicoPerToken(price)).unwrap();
            prop_assert!(sum.ceil().unwrap() >= sum.half_up().unwrap());
        }
    }
}
