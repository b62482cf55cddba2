//! What is shown: the last sample, and the rates between samples.
#![expect(clippy::float_arithmetic, reason = "rates are shown, and nothing is decided by them")]

use std::collections::VecDeque;

use super::sample::ServerSample;
use crate::remote::Error;

/// Rates that are kept for the curve: more than the columns of any terminal.
const RATES_MAX: usize = 500;

/// Requests and denials a second between two samples.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct RequestRates {
    pub(super) requests: f64,
    pub(super) denied: f64,
}

/// What is shown.
#[derive(Debug, Default)]
pub(super) struct TopState {
    pub(super) sample: Option<ServerSample>,
    /// The newest last; empty until there are two samples.
    pub(super) rates: VecDeque<RequestRates>,
    /// Why the last attempt failed, and what to do.
    pub(super) trouble: Option<String>,
}

impl TopState {
    /// Takes what came from the server.
    pub(super) fn take(&mut self, came: Result<ServerSample, Error>) {
        let sample = match came {
            Ok(sample) => sample,
            Err(error) => {
                self.trouble = Some(format!("{error}; {}", error.fix()));
                return;
            }
        };
        self.trouble = None;
        if let Some(rates) = self.sample.as_ref().and_then(|before| between(before, &sample)) {
            self.rates.push_back(rates);
            if self.rates.len() > RATES_MAX {
                self.rates.pop_front();
            }
        }
        self.sample = Some(sample);
    }
}

/// The rates between two samples; none across a restart of the server.
fn between(before: &ServerSample, after: &ServerSample) -> Option<RequestRates> {
    let seconds = std::time::Duration::from(after.at.since(before.at)).as_secs_f64();
    let rate = |label: &str| {
        let name = "tollgate_requests_total";
        let more = after.page.sum(name, label)? - before.page.sum(name, label)?;
        (more >= 0.0 && seconds > 0.0).then(|| more / seconds)
    };
    Some(RequestRates { requests: rate("")?, denied: rate("\"denied\"")? })
}

/// A rate as people read it.
pub(super) fn shown(rate: f64) -> String {
    if rate < 10.0 {
        return format!("{rate:.1}");
    }
    let whole = format!("{rate:.0}");
    whole.parse().map_or(whole, crate::history::grouped)
}

#[cfg(test)]
mod tests {
    use tollgate_core::Time;

    use super::super::sample::MetricsPage;
    use super::*;

    fn sample(second: u64, allowed: u64, denied: u64) -> ServerSample {
        let page = MetricsPage::read(&format!(
            "tollgate_requests_total{{outcome=\"allowed\"}} {allowed}\ntollgate_requests_total{{outcome=\"denied\"}} {denied}\n"
        ));
        ServerSample { url: String::new(), at: Time::from_secs(second), page, lists: Err(String::new()) }
    }

    #[test]
    fn rates_are_between_samples_and_none_across_a_restart() {
        let mut state = TopState::default();
        for next in [sample(10, 100, 0), sample(12, 300, 20), sample(14, 0, 0), sample(16, 4, 0)] {
            state.take(Ok(next));
        }
        let expected =
            [RequestRates { requests: 110.0, denied: 10.0 }, RequestRates { requests: 2.0, denied: 0.0 }];
        assert_eq!(state.rates, expected);
        state.take(Err(Error::Slow { url: "http://x".into() }));
        assert!(state.trouble.is_some() && state.sample.is_some(), "the last sample stays");
    }

    #[test]
    fn rates_are_short() {
        assert_eq!([0.0, 9.94, 12.4, 12_345.6].map(shown), ["0.0", "9.9", "12", "12,346"]);
    }
}
