//! Verdicts and latencies.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::codec::ResponseVerdict;

/// Longer latencies count as this long.
const LONGEST: Duration = Duration::from_secs(3_600);
/// Significant digits of a latency.
const DIGITS: u8 = 3;
/// Characters of an error that are kept.
const ERROR_MAX: usize = 300;

/// How often each verdict came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VerdictCounts {
    /// Now.
    pub allow: u64,
    /// Of those, without meeting any limit that is enforced.
    pub unlimited: u64,
    /// Later.
    pub delay: u64,
    /// Not.
    pub deny: u64,
}

/// Verdicts and latencies of one thread, or of all.
#[derive(Debug)]
pub(crate) struct Measurements {
    latencies: Histogram<u64>,
    pub(crate) verdicts: VerdictCounts,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    /// Connections that were closed before the end.
    pub(crate) lost: usize,
    /// Requests that were due and had no response at the end.
    pub(crate) unanswered: u64,
    /// The time measured.
    pub(crate) elapsed: Duration,
}

impl Measurements {
    pub(crate) fn new() -> Self {
        let latencies = Histogram::new_with_bounds(1, nanos(LONGEST), DIGITS);
        Self {
            latencies: latencies.expect("the bounds are right"),
            verdicts: VerdictCounts::default(),
            errors: 0,
            first_error: None,
            lost: 0,
            unanswered: 0,
            elapsed: Duration::ZERO,
        }
    }

    /// Counts a response.
    pub(crate) fn record(&mut self, verdict: &ResponseVerdict, latency: Duration) {
        self.latencies.saturating_record(nanos(latency).max(1));
        match verdict {
            ResponseVerdict::Allow => self.verdicts.allow += 1,
            ResponseVerdict::Unlimited => {
                self.verdicts.allow += 1;
                self.verdicts.unlimited += 1;
            }
            ResponseVerdict::Delay => self.verdicts.delay += 1,
            ResponseVerdict::Deny => self.verdicts.deny += 1,
            ResponseVerdict::Error(what) => self.error(1, what),
        }
    }

    /// Counts questions that went wrong.
    pub(crate) fn error(&mut self, count: u64, what: &str) {
        self.errors += count;
        if self.first_error.is_none() {
            self.first_error = Some(what.chars().take(ERROR_MAX).collect());
        }
    }

    /// Adds what another thread counted.
    pub(crate) fn merge(&mut self, other: Self) {
        self.latencies.add(other.latencies).expect("both have the same bounds");
        self.verdicts.allow += other.verdicts.allow;
        self.verdicts.unlimited += other.verdicts.unlimited;
        self.verdicts.delay += other.verdicts.delay;
        self.verdicts.deny += other.verdicts.deny;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        self.lost += other.lost;
        self.unanswered += other.unanswered;
        self.elapsed = self.elapsed.max(other.elapsed);
    }

    /// How many were answered.
    pub(crate) fn answered(&self) -> u64 {
        self.latencies.len()
    }

    pub(crate) fn latencies(&self) -> Latencies {
        let at = |percentile| Duration::from_nanos(self.latencies.value_at_percentile(percentile));
        Latencies {
            p50: at(50.0),
            p90: at(90.0),
            p99: at(99.0),
            p99_9: at(99.9),
            max: Duration::from_nanos(self.latencies.max()),
        }
    }
}

/// After which time so many percent were answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latencies {
    /// Half of them.
    pub p50: Duration,
    /// 90 percent.
    pub p90: Duration,
    /// 99 percent.
    pub p99: Duration,
    /// 99.9 percent.
    pub p99_9: Duration,
    /// All of them.
    pub max: Duration,
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_add_up() {
        let mut sum = Measurements::new();
        for thread in 1..=2 {
            let mut own = Measurements::new();
            for ms in 1..=100 {
                own.record(&ResponseVerdict::Allow, Duration::from_millis(ms * thread));
            }
            own.record(&ResponseVerdict::Unlimited, Duration::ZERO);
            own.record(&ResponseVerdict::Deny, Duration::ZERO);
            own.record(&ResponseVerdict::Error("first".to_owned()), Duration::ZERO);
            sum.merge(own);
        }
        let verdicts = VerdictCounts { allow: 202, unlimited: 2, delay: 0, deny: 2 };
        assert_eq!((sum.answered(), sum.verdicts), (206, verdicts));
        assert_eq!((sum.errors, sum.first_error.as_deref()), (2, Some("first")));
        let max = sum.latencies().max;
        assert!((199..=201).contains(&max.as_millis()), "{max:?}");
    }
}
