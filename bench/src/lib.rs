//! What the benchmarks have in common: limits that let everything through, and keys.
//!
//! Every check writes state, which is the dear path. Figures are compared
//! within one run only.

pub mod compare;
pub mod figures;
pub mod history;
pub mod report;
pub mod scale;
pub mod soak;

use tollgate_core::rule::{DescriptorSpec, DomainSpec, LimitsSpec, RuleSpec};
use tollgate_core::{Limit, Micros, Refill, RuleSet, Shape, Unit};

/// A rate that no benchmark reaches.
pub const PLENTY: u32 = 4_000_000_000;

/// `count` keys as users have them.
pub fn keys(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("user:{n:011}")).collect()
}

/// A limit of that shape which lets everything through.
pub fn limit(shape: Shape) -> Limit {
    Limit::new(PLENTY, Micros::SECOND, shape).expect("a limit that every shape takes")
}

/// The shape that most peers have too.
pub const TOKEN_BUCKET: Shape = Shape::TokenBucket { burst: PLENTY, refill: Refill::Smooth };

/// One domain `shop` with one rule on `user_id`.
pub fn one_rule(shape: Shape) -> RuleSet {
    rule_set(vec![descriptor("user_id", None, limit(shape))])
}

/// A node with one rule.
pub fn descriptor(key: &str, value: Option<String>, limit: Limit) -> DescriptorSpec {
    let rule = RuleSpec::new(limit, Unit::Second);
    DescriptorSpec { key: key.into(), value, limits: LimitsSpec::Limits(vec![rule]), ..Default::default() }
}

/// A set of one domain `shop`.
pub fn rule_set(descriptors: Vec<DescriptorSpec>) -> RuleSet {
    RuleSet::new(vec![DomainSpec { name: "shop".into(), descriptors, ..Default::default() }])
        .expect("rules that go together")
}
