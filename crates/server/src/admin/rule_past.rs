//! `/v1/rules/log` and `/v1/rules/usage` of the admin listener: how a rule came to be, and how close
//! keys come to its limit.
//!
//! The one comes from [`crate::rule_log`], the other from the history and the limit in force.
//!
//! Invariant: usage is what keys ask for, denied or not, so that a limit that is hit shows more
//! than 100 %.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use serde::Serialize;
use tollgate_core::RuleSet;
use tollgate_history::query::{RuleFilter, UsageQuery, UsageResult};
use utoipa::{IntoResponses, ToSchema};

use super::history::{HistoryParams, respond, run};
use crate::http::v1::error::V1Error;
use crate::http::v1::to_wire::{self, ProblemBody};
use crate::rule_log::{LimitChange, RuleLoad};
use crate::service::Service;

const LOG: &[&str] = &["path", "name"];
const USAGE: &[&str] = &["path", "name", "from", "to", "last"];
/// Bins of ten percent, and one for all that is more than the limit.
const BINS: usize = 11;

/// What changed in the rules, and when.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RuleLog)]
pub(super) struct RuleLogBody {
    /// All loads that are remembered, the newest first.
    loads: Vec<RuleLoad>,
    /// The limits of the rule that was asked for, the oldest first; empty if none was.
    changes: Vec<LimitChange>,
}

/// How close keys come to a limit.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RuleUsage)]
pub(super) struct RuleUsageBody {
    /// The first second; later than asked for where there are too many keys to look at all of it.
    from: u64,
    /// The second after the last.
    to: u64,
    /// How long a window is that was looked at; not shorter than what the history keeps.
    window_s: u64,
    /// What the limit that is in force now lets through in such a window, bursts aside.
    limit: u64,
    /// Keys that were looked at: those with a series of their own.
    keys: usize,
    /// How many of them were denied at least once.
    denied_keys: usize,
    /// Half of the keys ask for no more than this, in percent of the limit, in their busiest window.
    p50_percent: u64,
    /// Nine of ten keys.
    p90_percent: u64,
    /// 99 of a hundred keys.
    p99_percent: u64,
    /// How many keys ask in their busiest window for up to 10 % of the limit, up to 20 %, …,
    /// up to 100 %, and for more.
    #[schema(min_items = 11, max_items = 11)]
    bins: Vec<usize>,
}

/// What comes back.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it is only described")]
enum UsageResponses {
    /// How close keys come to the limit.
    #[response(status = 200)]
    Fine(RuleUsageBody),
    /// The request is not as it must be, or there is no such rule.
    #[response(status = "4XX", content_type = "application/problem+json")]
    Bad(ProblemBody<'static>),
    /// There is no history at the moment.
    #[response(status = 503, content_type = "application/problem+json")]
    Later(ProblemBody<'static>),
}

/// What changed in the rules, and when.
#[utoipa::path(
    get, path = "/v1/rules/log", tag = "rules", operation_id = "rule_log",
    params(
        ("path" = Option<String>, Query, description = "Where a rule stands: the domain and the levels, joined by dots.", example = "shop.user_id"),
        ("name" = Option<String>, Query, description = "Its name.", example = "burst"),
    ),
    responses(
        (status = 200, description = "What changed.", body = RuleLogBody),
        (
            status = "4XX", description = "The request is not as it must be.", body = ProblemBody<'static>,
            content_type = "application/problem+json"
        )
    )
)]
pub(super) async fn log(State(service): State<Arc<Service>>, query: RawQuery) -> Response {
    respond(async {
        let params = HistoryParams::read(query, LOG)?;
        let (path, name) = (params.text("path").unwrap_or_default(), params.text("name").unwrap_or_default());
        let log = service.rule_log();
        Ok(to_wire::respond(&RuleLogBody { loads: log.loads(), changes: log.changes(path, name) }))
    })
    .await
}

/// How close keys come to the limit of a rule.
#[utoipa::path(
    get, path = "/v1/rules/usage", tag = "rules", operation_id = "rule_usage",
    params(
        ("path" = String, Query, description = "Where the rule stands: the domain and the levels, joined by dots.", example = "shop.user_id"),
        ("name" = String, Query, description = "Its name.", example = "burst"),
        ("from" = Option<String>, Query, description = "RFC 3339, unix seconds, or `now-6h`.", example = "now-6h"),
        ("to" = Option<String>, Query, description = "The same; now if absent.", example = "now"),
        ("last" = Option<String>, Query, description = "A span before `to`, in place of `from`; a day if both are absent.", example = "24h"),
    ),
    responses(UsageResponses)
)]
pub(super) async fn usage(State(service): State<Arc<Service>>, query: RawQuery) -> Response {
    respond(async {
        let params = HistoryParams::read(query, USAGE)?;
        let rules = service.limiter().rules();
        let (filter, rate) = rule_in_force(&rules, &params)?;
        let range = params.range(service.now().get() / 1_000_000)?;
        let query = UsageQuery { filter, range, window_s: rate.window_ms.div_ceil(1_000) };
        let result = run(&service, move |reader| reader.usage(&query)).await?;
        Ok(to_wire::respond(&RuleUsageBody::new(&result, rate)))
    })
    .await
}

/// How many requests in how long.
#[derive(Debug, Clone, Copy)]
struct LimitRate {
    count: u64,
    window_ms: u64,
}

/// The rule that is asked for, as the history knows it, and its limit.
fn rule_in_force(rules: &RuleSet, params: &HistoryParams) -> Result<(RuleFilter, LimitRate), V1Error> {
    let (path, name) = (params.text("path").unwrap_or_default(), params.text("name").unwrap_or_default());
    let found = rules.ids().zip(rules.rules()).find(|(_, rule)| rule.path == path && rule.name() == name);
    let missing = || V1Error::Field {
        pointer: "/name".to_owned(),
        detail: "no rule of this path and name is in force".to_owned(),
        fix: "send path and name as /v1/rules has them".to_owned(),
    };
    let (id, rule) = found.ok_or_else(missing)?;
    let (domain, _) = rules.levels(id).ok_or_else(missing)?;
    let filter = RuleFilter { domain: Some(domain.to_owned()), rule: Some(name.to_owned()) };
    let rate =
        LimitRate { count: u64::from(rule.limit.count()), window_ms: rule.limit.window().as_millis_ceil() };
    Ok((filter, rate))
}

impl RuleUsageBody {
    fn new(result: &UsageResult, rate: LimitRate) -> Self {
        let windows_ms = result.window_s.saturating_mul(1_000);
        let limit = rate.count.saturating_mul(windows_ms).checked_div(rate.window_ms).unwrap_or(0);
        let percent = |peak: u64| peak.saturating_mul(100).div_ceil(limit.max(1));
        let mut bins = vec![0; BINS];
        for peak in &result.peaks {
            let bin = usize::try_from(percent(*peak).max(1).saturating_sub(1) / 10).unwrap_or(BINS);
            if let Some(keys) = bins.get_mut(bin.min(BINS - 1)) {
                *keys += 1;
            }
        }
        let rank = |percentile: usize| {
            let place = (result.peaks.len() * percentile).div_ceil(100).saturating_sub(1);
            result.peaks.get(place).map_or(0, |peak| percent(*peak))
        };
        Self {
            from: result.from_s,
            to: result.to_s,
            window_s: result.window_s,
            limit,
            keys: result.peaks.len(),
            denied_keys: result.denied_keys,
            p50_percent: rank(50),
            p90_percent: rank(90),
            p99_percent: rank(99),
            bins,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_into_bins_by_what_they_ask_for_of_the_limit() {
        let peaks = (1..=100).chain([101, 500]).collect();
        let result = UsageResult { from_s: 0, to_s: 600, window_s: 60, peaks, denied_keys: 2 };
        let body = RuleUsageBody::new(&result, LimitRate { count: 100, window_ms: 60_000 });
        assert_eq!(body.bins, [10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 2]);
        assert_eq!((body.p50_percent, body.p90_percent, body.p99_percent), (51, 92, 101));
        let seconds = RuleUsageBody::new(&result, LimitRate { count: 10, window_ms: 1_000 });
        assert_eq!((seconds.limit, seconds.bins[0], seconds.bins[8]), (600, 60, 1));
    }

    #[test]
    fn a_rule_without_keys_has_empty_bins() {
        let result = UsageResult { from_s: 0, to_s: 600, window_s: 60, peaks: Vec::new(), denied_keys: 0 };
        let body = RuleUsageBody::new(&result, LimitRate { count: 5, window_ms: 60_000 });
        assert_eq!((body.p99_percent, body.bins), (0, vec![0; BINS]));
    }
}
