//! Figures with two decimal places as whole numbers of hundredths, which need no floating point.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tollgate_testkit::RedisServer;

/// A hundred times one number by another, rounded.
pub fn ratio(one: u64, other: u64) -> u64 {
    let other = other.max(1);
    (one.saturating_mul(100) + other / 2) / other
}

/// Hundredths as people read them.
pub fn two_places(value: u64) -> String {
    format!("{}.{:02}", value / 100, value % 100)
}

/// Milliseconds as people read them.
pub fn millis(span: Duration) -> String {
    two_places(u64::try_from(span.as_micros() / 10).unwrap_or(u64::MAX))
}

/// A number of parts, such as hundredths, as a number for a plot.
#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::float_arithmetic,
    reason = "a place on a picture"
)]
pub fn plotted(value: u64, parts: u32) -> f64 {
    value as f64 / f64::from(parts)
}

/// CPU time of a Redis server so far, in microseconds.
///
/// # Errors
/// If it does not tell.
pub fn redis_cpu_us(server: &RedisServer) -> Result<u64> {
    let about = server.cli(&["info", "cpu"]);
    let mut sum = 0;
    for name in ["used_cpu_sys:", "used_cpu_user:"] {
        let field = about.lines().find_map(|line| line.strip_prefix(name)).context("no used_cpu")?;
        let (whole, part) = field.trim().split_once('.').context("no fraction")?;
        sum += whole.parse::<u64>()? * 1_000_000 + format!("{part:0<6}").parse::<u64>()?;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_rounded_and_shown_with_two_places() {
        assert_eq!([ratio(2, 3), ratio(1, 3), ratio(5, 0)].map(two_places), ["0.67", "0.33", "5.00"]);
    }
}
