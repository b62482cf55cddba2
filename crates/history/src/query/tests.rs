//! What questions are answered with.

use tollgate_core::{Outcome, Time};

use super::*;
use crate::flush::{Flush, FlushId, InstanceId, TrafficCounts};
use crate::tables::MemoryTables;
use crate::{Bounds, History, Label, LocalHistory, SeriesKind};

/// Midnight.
const DAY_S: u64 = 20_000 * 86_400;

fn history(minutes: &[(u64, &str, Outcome, u64)]) -> LocalHistory<MemoryTables> {
    let mut history =
        LocalHistory::open(MemoryTables::default(), Bounds { hours_since: 0, ..Bounds::default() }).unwrap();
    let mut counts = TrafficCounts::default();
    for (minute, route, outcome, count) in minutes {
        let minute = u32::try_from(DAY_S / 60 + minute).unwrap();
        counts.add(minute, Label::Requests, *outcome, *count);
        counts.add(minute, Label::Route((*route).into()), *outcome, *count);
    }
    history.append(&Flush { id: FlushId { instance: InstanceId([1; 16]), seq: 1 }, counts }).unwrap();
    history
}

fn sample() -> LocalHistory<MemoryTables> {
    use Outcome::{Allowed, Denied};
    history(&[
        (0, "/cart", Allowed, 5),
        (1, "/cart", Allowed, 7),
        (1, "/cart", Denied, 2),
        (2, "/pay", Allowed, 1),
        // Nobody counted from here on until minute 10.
        (10, "/cart", Allowed, 3),
        (11, "/pay/card", Denied, 9),
    ])
}

const fn range(from_min: u64, to_min: u64) -> TimeRange {
    TimeRange { from_s: DAY_S + from_min * 60, to_s: DAY_S + to_min * 60 }
}

fn cart(range: TimeRange) -> SeriesQuery {
    SeriesQuery { name: Some("/cart".into()), ..SeriesQuery::new(SeriesKind::Route, range) }
}

fn minutes(curve: &Curve) -> Vec<(u64, u64)> {
    curve.points.iter().map(|(second, count)| ((second - DAY_S) / 60, *count)).collect()
}

#[test]
fn a_curve_has_zeros_where_nothing_came_and_gaps_where_nobody_was() {
    let answer = sample().reader().unwrap().series(&cart(range(0, 20))).unwrap();
    assert_eq!((answer.step_s, answer.total), (60, 17));
    let [allowed, denied] = answer.series.as_slice() else { panic!("{answer:?}") };
    assert_eq!((&*allowed.outcome, &*denied.outcome), ("allowed", "denied"));
    assert_eq!(minutes(allowed), [(0, 5), (1, 7), (2, 0), (10, 3), (11, 0)]);
    assert_eq!(minutes(denied), [(0, 0), (1, 2), (2, 0), (10, 0), (11, 0)]);
}

#[test]
fn the_json_of_a_curve_is_the_contract() {
    let answer = sample().reader().unwrap().series(&cart(range(0, 2))).unwrap();
    let json = serde_json::to_value(&answer).unwrap();
    let expected = serde_json::json!({
        "from": DAY_S, "to": DAY_S + 120, "step_s": 60, "total": 14, "partial_last": false,
        "series": [
            {"name": "/cart", "outcome": "allowed", "total": 12, "points": [[DAY_S, 5], [DAY_S + 60, 7]]},
            {"name": "/cart", "outcome": "denied", "total": 2, "points": [[DAY_S, 0], [DAY_S + 60, 2]]},
        ],
    });
    assert_eq!(json, expected);
}

#[test]
fn no_name_means_everything_and_a_star_every_name_that_begins_so() {
    let history = sample();
    let everything =
        history.reader().unwrap().series(&SeriesQuery::new(SeriesKind::Route, range(0, 20))).unwrap();
    assert_eq!((everything.total, everything.series[0].name.as_str()), (27, "*"));
    let pay = SeriesQuery { name: Some("/pay*".into()), ..cart(range(0, 20)) };
    assert_eq!(history.reader().unwrap().series(&pay).unwrap().total, 10);
    let unknown = SeriesQuery { name: Some("/nope".into()), ..cart(range(0, 20)) };
    assert_eq!(history.reader().unwrap().series(&unknown).unwrap().series, []);
    assert_eq!(history.reader().unwrap().names(SeriesKind::Route, "/p", 10), ["/pay", "/pay/card"]);
}

#[test]
fn several_names_have_the_curves_that_each_has_alone() {
    let history = sample();
    let reader = history.reader().unwrap();
    let alone = |name: &str| SeriesQuery { name: Some(name.into()), ..cart(range(0, 20)) };
    let more_names = ["/pay", "/nope", "/cart", "/pay*"].map(str::to_owned).into();
    let told = reader.series(&SeriesQuery { more_names, ..alone("/cart") }).unwrap();
    let each = ["/cart", "/pay"].map(|name| reader.series(&alone(name)).unwrap().series);
    assert_eq!(told.series, each.concat());
    assert!(told.series.len() > 2, "{told:?}");
}

#[test]
fn steps_suit_the_span_and_are_never_finer_than_what_is_kept() {
    let history = sample();
    let step = |length_s: u64, step_s, points| {
        let range = TimeRange { from_s: DAY_S, to_s: DAY_S + length_s };
        let query = SeriesQuery { step_s, points, ..SeriesQuery::new(SeriesKind::Route, range) };
        history.reader().unwrap().series(&query).unwrap().step_s
    };
    let cases = [
        (3_600, None, 300, 60),
        (86_400, None, 300, 300),
        (86_400, None, 1_440, 60),
        (7 * 86_400, None, 300, 3_600),
        (365 * 86_400, None, 300, 172_800),
        (100 * 365 * 86_400, None, 300, 5 * 2_592_000),
        (3_600, Some(90), 300, 120),
        (3_600, Some(0), 300, 60),
        (365 * 86_400, Some(60), 300, 2_880),
    ];
    for (length_s, wanted, points, expected) in cases {
        assert_eq!(step(length_s, wanted, points), expected, "{length_s} s, {wanted:?}, {points} points");
    }
}

#[test]
fn a_span_of_minutes_long_gone_is_told_in_the_steps_that_are_left() {
    let mut history = sample();
    let mut counts = TrafficCounts::default();
    counts.add_request(u32::try_from(DAY_S / 60 + 60 * 1_440).unwrap(), None, Outcome::Allowed);
    history.append(&Flush { id: FlushId { instance: InstanceId([2; 16]), seq: 1 }, counts }).unwrap();
    history.maintain(Time::from_secs(DAY_S + 61 * 86_400)).unwrap();
    let answer = history.reader().unwrap().series(&cart(range(0, 20))).unwrap();
    assert_eq!((answer.step_s, answer.total), (86_400, 17));
    assert_eq!(minutes(&answer.series[0]), [(0, 15)]);
}

#[test]
fn the_last_bucket_is_marked_while_it_is_not_over() {
    let history = sample();
    let is_partial = |to_min, step_s| {
        let query = SeriesQuery { step_s: Some(step_s), ..cart(range(0, to_min)) };
        history.reader().unwrap().series(&query).unwrap().partial_last
    };
    assert!(!is_partial(2, 60));
    assert!(!is_partial(5, 300));
    assert!(is_partial(11, 300), "eleven minutes are not three buckets of five");
    assert!(is_partial(60, 300), "counting has stopped within a bucket");
}

#[test]
fn the_period_before_is_set_beside() {
    let query = SeriesQuery { compare: Some(Comparison::PreviousPeriod), ..cart(range(10, 20)) };
    let answer = sample().reader().unwrap().series(&query).unwrap();
    let before = answer.compare.unwrap();
    assert_eq!((answer.total, before.total), (3, 14));
    assert_eq!((before.from, before.to), (DAY_S, DAY_S + 600));
    assert!("last_month".parse::<Comparison>().is_err());
}

#[test]
fn a_top_list_adds_up() {
    let top = sample().reader().unwrap().top(&TopQuery::new(SeriesKind::Route, range(0, 20), 1)).unwrap();
    let expected = serde_json::json!({
        "from": DAY_S, "to": DAY_S + 1_200,
        "rows": [{"name": "/cart", "total": 17, "denied": 2}],
        "other": {"total": 10, "denied": 9},
        "row_count": 3,
    });
    assert_eq!(serde_json::to_value(&top).unwrap(), expected);
}

#[test]
fn a_summary_has_every_outcome_and_the_busiest_minute() {
    let summary = sample().reader().unwrap().summary(range(0, 20)).unwrap();
    let expected = serde_json::json!({
        "from": DAY_S, "to": DAY_S + 1_200, "total": 27, "allowed": 16, "soft": 0, "delayed": 0,
        "denied": 11, "shadow_denied": 0, "degraded": 0, "peak_minute": 9,
    });
    assert_eq!(serde_json::to_value(summary).unwrap(), expected);
}

/// One key under two rules of one domain, and under a rule of the same name in another.
fn one_key_under_three_rules() -> LocalHistory<MemoryTables> {
    let mut history = LocalHistory::open(MemoryTables::default(), Bounds::default()).unwrap();
    let mut counts = TrafficCounts::default();
    for (domain, rule, count) in [("shop", "a", 4), ("shop", "b", 5), ("api", "a", 6)] {
        counts.add(5, Label::Decisions, Outcome::Denied, count + 1);
        counts.add(5, Label::Rule { domain: domain.into(), name: rule.into() }, Outcome::Denied, count + 1);
        let key = Label::Key { domain: domain.into(), rule: rule.into(), name: "k".into() };
        counts.add(5, key, Outcome::Denied, count);
    }
    history.append(&Flush { id: FlushId { instance: InstanceId([1; 16]), seq: 1 }, counts }).unwrap();
    history
}

const HOUR: TimeRange = TimeRange { from_s: 0, to_s: 3_600 };

fn filter(domain: Option<&str>, rule: Option<&str>) -> RuleFilter {
    RuleFilter { domain: domain.map(str::to_owned), rule: rule.map(str::to_owned) }
}

#[test]
fn a_key_belongs_to_its_rule_and_domain_in_a_top_list() {
    let history = one_key_under_three_rules();
    let top = |kind, filter| {
        let query = TopQuery { filter, ..TopQuery::new(kind, HOUR, 9) };
        let top = history.reader().unwrap().top(&query).unwrap();
        let row = |row: &TopRow| format!("{:?} {:?} {} {}", row.domain, row.rule, row.name, row.total);
        let text = top.rows.iter().map(row).collect::<Vec<_>>().join(", ").replace("Some", "");
        (text.replace(['(', ')', '"'], ""), top.other.total)
    };
    let all = filter(None, None);
    let (shop, rule_a) = (filter(Some("shop"), None), filter(None, Some("a")));
    assert_eq!(top(SeriesKind::Key, all.clone()), ("api a k 6, shop b k 5, shop a k 4".into(), 3));
    assert_eq!(top(SeriesKind::Key, shop.clone()), ("shop b k 5, shop a k 4".into(), 2));
    assert_eq!(top(SeriesKind::Key, rule_a), ("api a k 6, shop a k 4".into(), 2));
    assert_eq!(top(SeriesKind::Key, filter(Some("shop"), Some("a"))), ("shop a k 4".into(), 1));
    assert_eq!(top(SeriesKind::Key, filter(Some("nope"), None)), (String::new(), 0));
    let rules = "api None a 7, shop None b 6, shop None a 5";
    assert_eq!(top(SeriesKind::Rule, all), (rules.into(), 0));
    assert_eq!(top(SeriesKind::Rule, shop.clone()), ("shop None b 6, shop None a 5".into(), 0));
    let routes = TopQuery { filter: shop, ..TopQuery::new(SeriesKind::Route, HOUR, 9) };
    assert!(history.reader().unwrap().top(&routes).is_err(), "a request has no rule");
}

#[test]
fn no_curve_is_a_sum_over_rules() {
    let history = one_key_under_three_rules();
    let curves = |kind, name: Option<&str>, filter| {
        let query = SeriesQuery { name: name.map(str::to_owned), filter, ..SeriesQuery::new(kind, HOUR) };
        let result = history.reader().unwrap().series(&query).unwrap();
        let curve = |curve: &Curve| {
            let part = |part: &Option<String>| part.clone().unwrap_or_default();
            format!("{}/{}/{} {}", part(&curve.domain), part(&curve.rule), curve.name, curve.total)
        };
        result.series.iter().map(curve).collect::<Vec<_>>().join(", ")
    };
    let all = || filter(None, None);
    let shop = || filter(Some("shop"), None);
    for name in ["k", "k*"] {
        let each = format!("api/a/{name} 6, shop/a/{name} 4, shop/b/{name} 5");
        assert_eq!(curves(SeriesKind::Key, Some(name), all()), each);
    }
    assert_eq!(curves(SeriesKind::Key, Some("k"), filter(None, Some("b"))), "shop/b/k 5");
    assert_eq!(curves(SeriesKind::Key, None, shop()), "shop/a/* 5, shop/b/* 6", "all keys, named or not");
    assert_eq!(curves(SeriesKind::Rule, Some("a"), all()), "api//a 7, shop//a 5");
    assert_eq!(curves(SeriesKind::Rule, None, shop()), "shop//a 5, shop//b 6");
    assert_eq!(curves(SeriesKind::Key, None, all()), "//* 18");
}

#[test]
fn what_begins_with_the_epoch_begins_with_the_first_count() {
    let history = sample();
    let reader = history.reader().unwrap();
    let ever = TimeRange { from_s: 0, to_s: DAY_S + 1_200 };
    let curve = reader.series(&SeriesQuery::new(SeriesKind::Route, ever)).unwrap();
    assert_eq!((curve.from, curve.step_s, curve.total), (DAY_S, 60, 27));
    assert_eq!(reader.top(&TopQuery::new(SeriesKind::Route, ever, 9)).unwrap().from, DAY_S);
    assert_eq!(reader.summary(ever).unwrap().from, DAY_S);
    let empty = LocalHistory::open(MemoryTables::default(), Bounds::default()).unwrap();
    assert_eq!(empty.reader().unwrap().summary(ever).unwrap().from, 0);
}

#[test]
fn the_status_has_what_is_not_written_yet_and_steps_do_not_change_when_it_is() {
    let mut history = sample();
    let mut counts = TrafficCounts::default();
    counts.add_request(u32::try_from(DAY_S / 60 + 90).unwrap(), Some("/new"), Outcome::Allowed);
    let flush = Flush { id: FlushId { instance: InstanceId([2; 16]), seq: 1 }, counts };
    let told = |reader: &HistoryReader<'_>| {
        let status = reader.status().unwrap();
        let years = TimeRange { from_s: DAY_S - 3_000 * 86_400, to_s: DAY_S + 86_400 };
        let step_s = reader.series(&SeriesQuery::new(SeriesKind::Route, years)).unwrap().step_s;
        (status.newest, status.series, status.open_hours, step_s)
    };
    let before = {
        let mut reader = history.reader().unwrap();
        reader.add_unwritten(&flush);
        told(&reader)
    };
    assert_eq!((before.0, before.1, before.2), (Some(DAY_S + 5_400), 4, 2));
    history.append(&flush).unwrap();
    history.maintain(Time::from_secs(DAY_S + 5_460)).unwrap();
    let after = told(&history.reader().unwrap());
    assert_eq!((after.0, after.1, after.3), (before.0, before.1, before.3));
}

#[test]
fn a_minute_is_part_of_a_range_until_now_from_its_first_moment() {
    let history = history(&[(0, "/cart", Outcome::Allowed, 5)]);
    let now_s = crate::time_text::now_s(Time::new(DAY_S * 1_000_000 + 1));
    let last = TimeRange::parse(None, None, Some("5m"), now_s).unwrap();
    assert_eq!((last.length_s(), history.reader().unwrap().summary(last).unwrap().total), (300, 5));
}

#[test]
fn spans_are_read_and_wrong_ones_named() {
    let now = 1_800_000_000;
    assert_eq!(TimeRange::parse(None, None, None, now).unwrap().length_s(), 86_400);
    assert_eq!(TimeRange::parse(Some("now-2h"), Some("now-1h"), None, now).unwrap().length_s(), 3_600);
    assert_eq!(TimeRange::parse(Some(""), Some(""), Some("15m"), now).unwrap().length_s(), 900);
    assert!(TimeRange::parse(Some("now-2h"), None, Some("1h"), now).is_err());
    assert!(TimeRange::parse(Some("now"), Some("now-1h"), None, now).is_err());
}
