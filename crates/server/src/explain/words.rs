//! Limits, entries and decisions as people read them.
//!
//! `explain`, `/v1/explain` and the failures of `test` speak with the same words.
//!
//! Deliberately not here: what a limit does; layout and colours.

use tollgate_core::{Limit, Mode, OnStoreError, OverLimit, Refill, Rule, Shape, Verdict};
use tollgate_limiter::RuleDecision;

/// `10 per minute`, `5 per 30 seconds`.
pub fn rate(count: u32, unit: &str, multiplier: u32) -> String {
    match multiplier {
        1 => format!("{count} per {unit}"),
        several => format!("{count} per {several} {unit}s"),
    }
}

/// The numbers of a rule: `token_bucket, 100 per second, bucket of 200`.
pub fn limit(rule: &Rule) -> String {
    let mut parts = vec![
        rule.limit.algorithm().name().to_owned(),
        rate(rule.limit.count(), rule.unit.name(), rule.unit_multiplier),
    ];
    match rule.limit.shape() {
        Shape::FixedWindow | Shape::SlidingLog | Shape::SlidingCounter => {}
        Shape::SlidingBuckets { buckets } => parts.push(format!("{buckets} sub-windows")),
        Shape::TokenBucket { burst, refill } => {
            parts.push(format!("bucket of {burst}"));
            if refill == Refill::Interval {
                parts.push("refilled all at once".to_owned());
            }
        }
        Shape::LeakyBucket { burst, max_wait } => {
            parts.push(format!("{burst} may wait"));
            parts.extend(max_wait.map(|wait| format!("no longer than {wait}")));
        }
    }
    if let Some(elastic) = &rule.elastic {
        let (percent, load) = (elastic.limit.exceed_percent(), elastic.below_load_percent);
        parts.push(format!(
            "elastic: up to {percent}% more pass and are marked while the load is below {load}%"
        ));
    }
    parts.extend(extras(&rule.limit));
    if rule.over_limit == OverLimit::Defer {
        parts.push("over the limit: taken and sent later".to_owned());
    }
    parts.join(", ")
}

fn extras(limit: &Limit) -> Vec<String> {
    let mut parts = Vec::new();
    if limit.exceed_percent() > 0 {
        parts.push(format!("soft: up to {}% more pass and are marked", limit.exceed_percent()));
    }
    if limit.counts_rejected() {
        parts.push("denied requests count".to_owned());
    }
    if limit.is_postpaid() {
        parts.push("paid afterwards".to_owned());
    }
    if limit.on_store_error() != OnStoreError::default() {
        parts.push(format!("without its store: {}", limit.on_store_error().name()));
    }
    parts.extend(limit.penalty().map(|penalty| format!("penalty: {penalty}")));
    parts
}

/// What a mode means; none where a denial simply counts.
pub const fn mode(mode: Mode) -> Option<&'static str> {
    match mode {
        Mode::Enforce => None,
        Mode::Shadow => Some("shadow: counts, and denies nothing"),
        Mode::Quota => Some("quota: denies only if every quota denies"),
        Mode::ShadowQuota => Some("shadow quota: never denies, and keeps the other quotas from denying"),
    }
}

/// `allow`, `delay, wait 500ms`, `deny, retry after 20s`, `deny, never passes`.
pub fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Allow => "allow".to_owned(),
        Verdict::Delay { wait } => format!("delay, wait {wait}"),
        Verdict::Deny { retry_after: Some(wait) } => format!("deny, retry after {wait}"),
        Verdict::Deny { retry_after: None } => "deny, never passes".to_owned(),
    }
}

/// One decision: `allow, 9 of 10 remaining, 1 used, reset after 1m`.
pub fn decision(decision: &RuleDecision, rule: &Rule) -> String {
    if decision.exception.is_some() {
        return "deny, its deny list has this: nothing is counted, and waiting does not help".to_owned();
    }
    let mut text = verdict(decision.verdict);
    if decision.is_blocked {
        text.push_str(": blocked by the penalty");
    }
    if decision.verdict == (Verdict::Deny { retry_after: None }) {
        let most = rule.limit.hard_capacity();
        text.push_str(&format!(": a cost of {} is more than the {most} that fit", decision.cost));
    } else {
        text.push_str(&format!(", {} of {} remaining", decision.remaining, decision.limit));
    }
    text.push_str(&format!(", {} used, reset after {}", decision.used, decision.reset_after));
    match rule.elastic {
        Some(_) if decision.soft => text.push_str(", only because the load is low"),
        None if decision.soft => text.push_str(", only because the limit is soft"),
        Some(_) if decision.exceed_percent > 0 => text.push_str(", the load is low"),
        Some(_) => text.push_str(", the load is not low"),
        None => {}
    }
    if decision.degraded {
        text.push_str(", decided without the store");
    }
    text
}

/// One descriptor as `explain` takes it: `user_id=42,plan=free`.
pub fn descriptor<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let escaped = |text: &str| text.replace(',', "\\,");
    let entry = |(key, value)| format!("{}={}", escaped(key), escaped(value));
    entries.into_iter().map(entry).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use tollgate_core::{Micros, Unit};

    use super::*;

    fn rule(count: u32, multiplier: u32, shape: Shape) -> Rule {
        Rule {
            label: String::new(),
            path: "d.k".into(),
            elastic: None,
            limit: Limit::new(count, Micros::from_secs(u64::from(multiplier)), shape).unwrap(),
            unit: Unit::Second,
            unit_multiplier: multiplier,
            mode: Mode::Enforce,
            over_limit: OverLimit::Deny,
            replaces: Vec::new(),
            metadata: None,
            message: String::new(),
            lists: None,
            ordinal: 0,
        }
    }

    #[test]
    fn a_limit_tells_all_of_its_numbers() {
        let wait = Some(Micros::from_secs(2));
        let cases = [
            (rule(5, 1, Shape::FixedWindow), "fixed_window, 5 per second"),
            (rule(5, 30, Shape::SlidingLog), "sliding_log, 5 per 30 seconds"),
            (
                rule(5, 1, Shape::SlidingBuckets { buckets: 60 }),
                "sliding_buckets, 5 per second, 60 sub-windows",
            ),
            (
                rule(5, 1, Shape::TokenBucket { burst: 9, refill: Refill::Interval }),
                "token_bucket, 5 per second, bucket of 9, refilled all at once",
            ),
            (
                rule(2, 1, Shape::LeakyBucket { burst: 3, max_wait: wait }),
                "leaky_bucket, 2 per second, 3 may wait, no longer than 2s",
            ),
        ];
        for (rule, text) in cases {
            assert_eq!(limit(&rule), text);
        }
        let mut soft = rule(10, 1, Shape::SlidingCounter);
        soft.limit = soft.limit.soft(10).unwrap().counting_rejected(true);
        let text =
            "sliding_counter, 10 per second, soft: up to 10% more pass and are marked, denied requests count";
        assert_eq!(limit(&soft), text);
        let mut rest = rule(10, 1, Shape::FixedWindow);
        rest.limit = rest.limit.with_postpaid(true).with_on_store_error(OnStoreError::Deny);
        assert_eq!(limit(&rest), "fixed_window, 10 per second, paid afterwards, without its store: deny");
    }

    #[test]
    fn a_descriptor_reads_as_it_is_typed() {
        assert_eq!(descriptor([("a", "1"), ("path", "/x,y")]), r"a=1,path=/x\,y");
    }
}
