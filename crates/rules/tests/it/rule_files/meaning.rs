//! What the valid files mean, and not only that they load.

use std::fs;

use tollgate_core::ruleset::Found;
use tollgate_core::{
    Algorithm, Descriptor, Entry, Limit, MetadataValue, Micros, Mode, OnStoreError, Operation, Refill,
    Request, Rule, RuleSet, Shape, Unit,
};
use tollgate_rules::{Options, SourceFile, load};

use super::{RuleFileCase, folder, load_text};

fn rules_of(name: &str) -> RuleSet {
    let case = RuleFileCase::of(&folder("valid").join(name)).expect("a case has a file or folder");
    case.load().expect("a valid case loads").rules
}

fn rule<'a>(rules: &'a RuleSet, path: &str) -> &'a Rule {
    rules.rules().iter().find(|rule| rule.path == path).expect("the file has a rule of that path")
}

fn limit(rules: &RuleSet, path: &str) -> Limit {
    rule(rules, path).limit
}

/// The paths of the rules that a request meets.
fn met(rules: &RuleSet, domain: &str, entries: &[(&str, &str)]) -> Vec<String> {
    let entries: Vec<Entry<'_>> = entries.iter().map(|(key, value)| Entry { key, value }).collect();
    let descriptors = [Descriptor::new(&entries)];
    let request = Request::new(domain, &descriptors);
    let mut paths = Vec::new();
    rules.charges(&request, Operation::Check, |found| {
        if let Found::Charge(charge) = found {
            paths.extend(charge.rule.and_then(|id| rules.rule(id)).map(|rule| rule.path.clone()));
        }
    });
    paths
}

#[test]
fn every_algorithm_gets_its_parameters_or_their_defaults() {
    let rules = rules_of("algorithms.yaml");
    let shapes = [
        ("absent", Shape::FixedWindow),
        ("fixed_window", Shape::FixedWindow),
        ("sliding_log", Shape::SlidingLog),
        ("sliding_counter", Shape::SlidingCounter),
        ("sliding_buckets", Shape::SlidingBuckets { buckets: 60 }),
        ("dozen", Shape::SlidingBuckets { buckets: 12 }),
        ("token_bucket", Shape::TokenBucket { burst: 7, refill: Refill::Smooth }),
        ("interval", Shape::TokenBucket { burst: 20, refill: Refill::Interval }),
        ("leaky_bucket", Shape::LeakyBucket { burst: 7, max_wait: None }),
        ("patient", Shape::LeakyBucket { burst: 0, max_wait: Some(Micros::from_secs(90)) }),
    ];
    for (key, shape) in shapes {
        assert_eq!(limit(&rules, &format!("algorithms.{key}")).shape(), shape, "{key}");
    }
    assert_eq!(limit(&rules, "algorithms.sliding_counter").window(), Micros::from_secs(30));
    assert_eq!(rule(&rules, "algorithms.sliding_counter").unit_multiplier, 30);
    assert_eq!(limit(&rules, "algorithms.hard").exceed_percent(), 0);
    assert_eq!(limit(&rules, "algorithms.soft").exceed_percent(), 10);
    assert_eq!(limit(&rules, "algorithms.soft").hard_capacity(), 110);
}

#[test]
fn each_limit_has_its_own_message_or_none() {
    let rules = rules_of("message.yaml");
    let messages: Vec<&str> = rules.rules().iter().map(|rule| rule.message.as_str()).collect();
    let folded = "Five hundred an hour is what the free plan has. Zahle für mehr: https://example.org/plans";
    assert_eq!(messages, ["Slow down, please: ten a minute.", folded, "42"]);
    assert_eq!(rule(&rules_of("modes.yaml"), "modes.daily").message, "");
}

#[test]
fn denied_requests_count_only_where_no_algorithm_is_written_or_it_is_asked_for() {
    let rules = rules_of("algorithms.yaml");
    let counting = [("absent", true), ("uncounted", false), ("fixed_window", false), ("sliding_log", true)];
    for (key, counts) in counting {
        assert_eq!(limit(&rules, &format!("algorithms.{key}")).counts_rejected(), counts, "{key}");
    }
}

#[test]
fn several_limits_of_one_descriptor_are_met_together() {
    let rules = rules_of("product.yaml");
    assert_eq!(met(&rules, "shop", &[("user_id", "42")]), ["shop.user_id[0]", "shop.user_id[1]"]);
    assert_eq!(rule(&rules, "shop.user_id[0]").label, "burst");
    assert_eq!(limit(&rules, "shop.user_id[1]").algorithm(), Algorithm::SlidingBuckets);
    assert_eq!(rule(&rules, "shop.reward").unit, Unit::Week);
}

#[test]
fn texts_keep_what_is_written_and_numbers_mean_what_yaml_1_1_says() {
    let rules = rules_of("yaml-1-1.yaml");
    let cases =
        [("200", 1_000), ("0x1F", 31), ("on", 15), ("1.5", 0), ("anything", u32::MAX), ("1.2.3.4", 5)];
    for (value, count) in cases {
        let met = met(&rules, "on", &[("status", value)]);
        assert_eq!(limit(&rules, &met[0]).count(), count, "{value}");
    }
    assert_eq!(met(&rules, "on", &[("42", "x")]), ["on.42"]);
}

#[test]
fn a_descriptor_without_a_limit_exempts_its_value() {
    let rules = rules_of("nested.yaml");
    assert_eq!(met(&rules, "nested", &[("route", "health")]), [""; 0]);
    assert_eq!(met(&rules, "nested", &[("route", "other")]), ["nested.route"]);
    let path = [("route", "draw"), ("method", "GET"), ("subject", "7")];
    assert_eq!(met(&rules, "nested", &path), ["nested.route_draw.method_GET.subject"]);
}

#[test]
fn merge_keys_give_what_the_map_itself_does_not_say() {
    let rules = rules_of("merge-keys.yaml");
    for (key, count) in [("a", 5), ("b", 5), ("c", 5), ("d", 50), ("e", 500), ("f", 6)] {
        let limit = limit(&rules, &format!("merged.{key}"));
        assert_eq!((limit.count(), limit.window()), (count, Micros::from_secs(3_600)), "{key}");
    }
}

#[test]
fn the_last_of_two_equal_keys_wins() {
    let rules = rules_of("warned-key-twice.yaml");
    assert!(rules.has_domain("e") && !rules.has_domain("d"));
    let limit = limit(&rules, "e.b");
    assert_eq!((limit.count(), limit.window()), (5, Micros::from_secs(60)));
    let rules = rules_of("warned-merge-after.yaml");
    assert_eq!(met(&rules, "d", &[("b", "c"), ("a", "y")]), ["d.b_c.a_y"]);
}

#[test]
fn modes_names_and_free_data_reach_the_rule() {
    let rules = rules_of("modes.yaml");
    assert_eq!(rule(&rules, "modes.tried_out").mode, Mode::Shadow);
    assert_eq!(rule(&rules, "modes.daily").mode, Mode::Quota);
    assert_eq!(rule(&rules, "modes.both[1]").mode, Mode::ShadowQuota);
    assert_eq!(rule(&rules, "modes.names").mode, Mode::Enforce);

    let rules = rules_of("replaces.yaml");
    assert_eq!(rule(&rules, "tiers.customer_big").replaces, ["everybody", "nobody"]);

    let rules = rules_of("metadata.yaml");
    let Some(MetadataValue::Map(fields)) = &rule(&rules, "free.a").metadata else { panic!("no metadata") };
    let get = |name: &str| fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
    let text = |text: &str| MetadataValue::Text(text.into());
    assert_eq!(get("escalate"), Some(MetadataValue::Bool(true)));
    assert_eq!(get("weight"), Some(MetadataValue::Int(16)));
    assert_eq!(get("nothing"), Some(MetadataValue::Null));
    assert_eq!(get("rate"), Some(text("1.5")));
    assert_eq!(get("1"), Some(text("a number as a name")));
    let three = MetadataValue::Map(vec![("three".into(), MetadataValue::Int(3))]);
    assert_eq!(get("list"), Some(MetadataValue::List(vec![text("one"), MetadataValue::Int(2), three])));
    assert_eq!(rule(&rules, "free.b").metadata, None);
}

#[test]
fn files_of_one_domain_are_put_together_where_that_is_allowed() {
    let case = RuleFileCase::of(&folder("valid").join("one-domain.merge")).unwrap();
    let loaded = case.load().unwrap();
    assert_eq!(loaded.files, 2);
    let paths: Vec<&str> = loaded.rules.rules().iter().map(|rule| rule.path.as_str()).collect();
    assert_eq!(paths, ["d.k_one", "d.k_two"]);
    assert!(load(case.sources, &Options::default()).is_err());
}

#[test]
fn a_folder_gives_its_rule_files_and_nothing_else() {
    let case = RuleFileCase::of(&folder("valid").join("two-domains")).unwrap();
    let loaded = case.load().unwrap();
    assert_eq!(loaded.rules.domains().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert!(fs::exists(folder("valid").join("two-domains/b.test.yaml")).unwrap());
}

#[test]
fn no_files_are_no_rules() {
    let loaded = load(Vec::new(), &Options::default()).unwrap();
    assert_eq!((loaded.files, loaded.rules.domains().count()), (0, 0));
}

#[test]
fn a_key_that_may_be_null_may_be_left_empty() {
    let text = "domain: d\ndescriptors:\n- key: a\n  value:\n  metadata:\n  shadow_mode:\n  rate_limits:\n\
                \x20 rate_limit:\n    unit: day\n    requests_per_unit: 3\n    name:\n    replaces:\n    burst:\n";
    let loaded = load_text(text).unwrap();
    assert_eq!(loaded.warnings, []);
    assert_eq!(limit(&loaded.rules, "d.a").count(), 3);
}

#[test]
fn syntax_that_parsers_disagree_about_means_what_it_says() {
    let case = RuleFileCase::of(&folder("valid").join("syntax.yaml")).unwrap();
    let rules = case.load().unwrap().rules;
    let levels = |entries: &[(&str, &str)]| {
        let entries: Vec<Entry<'_>> = entries.iter().map(|(key, value)| Entry { key, value }).collect();
        let trace = rules.trace("d", &entries).unwrap();
        trace.levels.iter().filter(|level| level.chosen.is_some()).count()
    };
    let found = [
        ("a", "b"),
        ("c", "d"),
        ("e", "x"),
        ("f#g", "http://host:80/path?q=1&r=2"),
        ("multi word", "folded text"),
        ("éA/", "x"),
        ("g", "-"),
        ("i", "x"),
    ];
    for entry in found {
        assert_eq!(levels(&[entry]), 1, "{entry:?}");
    }
    assert_eq!(levels(&[("g", "-"), ("h", "x")]), 2);
    assert_eq!(met(&rules, "d", &[("it's", "x")]), ["d.it's"]);
}

#[test]
fn rejected_requests_count_by_default_only_where_nothing_says_otherwise() {
    let text = "domain: d\ndescriptors:\n\
        - { key: plain, rate_limit: { unit: day, requests_per_unit: 1 } }\n\
        - { key: asked, rate_limit: { unit: day, requests_per_unit: 1, count_rejected: true } }\n\
        - { key: named, rate_limit: { unit: day, requests_per_unit: 1, algorithm: fixed_window } }\n";
    let counts = |stop_counting_rejected| {
        let source = SourceFile { name: "d.yaml".into(), text: text.into() };
        let options = Options { stop_counting_rejected, ..Options::default() };
        let loaded = load(vec![source], &options).unwrap();
        loaded.rules.rules().iter().map(|rule| rule.limit.counts_rejected()).collect::<Vec<_>>()
    };
    assert_eq!(counts(false), [true, true, false]);
    assert_eq!(counts(true), [false, true, false]);
}

#[test]
fn each_limit_says_what_it_does_without_its_store() {
    let rules = rules_of("on-store-error.yaml");
    for (key, expected) in [("a", OnStoreError::Local), ("b", OnStoreError::Allow), ("c", OnStoreError::Deny)]
    {
        assert_eq!(limit(&rules, &format!("d.{key}")).on_store_error(), expected, "{key}");
    }
    let silent = rules_of("algorithms.yaml");
    assert_eq!(limit(&silent, "algorithms.absent").on_store_error(), OnStoreError::Local);
}
