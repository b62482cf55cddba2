//! `/v1/rules` of the admin listener: the rules in force, and how they came to be.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use tollgate_core::list::ExceptionLists;
use tollgate_core::rule::{Elastic, Unlimited};
use tollgate_core::{Penalty, Refill, RuleId, RuleSet};
use utoipa::ToSchema;

use crate::http::RuleStatusBody;
use crate::http::v1::to_wire;
use crate::rule_log::mode_name;
use crate::service::Service;

/// The rules in force.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Rules)]
pub(super) struct RulesBody<'a> {
    /// How they came to be.
    status: RuleStatusBody<'a>,
    /// All limits, in the order of the files.
    rules: Vec<RuleBody<'a>>,
    /// What rules let through without limit, in the order of the files.
    unlimited: Vec<UnlimitedBody<'a>>,
    /// Domains with lists of their own, in the order of the files.
    domain_lists: Vec<DomainListsBody<'a>>,
}

/// The lists of a domain.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DomainLists)]
struct DomainListsBody<'a> {
    /// The domain.
    domain: &'a str,
    /// How long they are.
    lists: ListSizes,
}

/// How many items lists have.
#[derive(Debug, Serialize, ToSchema)]
struct ListSizes {
    /// On the list of those who are let pass.
    allow: usize,
    /// On the list of those who get nothing.
    deny: usize,
}

impl ListSizes {
    fn new(lists: &ExceptionLists) -> Self {
        Self { allow: lists.allow.size(), deny: lists.deny.size() }
    }
}

/// A condition that is not limited.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Unlimited)]
struct UnlimitedBody<'a> {
    /// Its name, or its path if it has none.
    name: &'a str,
    /// Where it stands: the domain and the levels, joined by dots.
    path: &'a str,
}

/// One limit with its condition.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Rule)]
struct RuleBody<'a> {
    /// Its name, or its path if it has none.
    name: &'a str,
    /// Its domain.
    domain: &'a str,
    /// Where it stands: the domain and the levels, joined by dots.
    path: &'a str,
    /// The levels, the outermost first.
    levels: Vec<LevelBody<'a>>,
    /// The algorithm.
    algorithm: &'static str,
    /// How many in a window.
    requests_per_unit: u32,
    /// The unit of the window.
    unit: &'static str,
    /// How many units the window is long.
    unit_multiplier: u32,
    /// The window, in milliseconds.
    window_ms: u64,
    /// What it lets through at once.
    capacity: u64,
    /// The size of the bucket, or of the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    burst: Option<u32>,
    /// How tokens come back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    refill: Option<&'static str>,
    /// How many sub-windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    buckets: Option<u32>,
    /// The longest wait in the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    max_wait_ms: Option<u64>,
    /// By how many percent it may be exceeded; 0 for a hard limit.
    soft_percent: u32,
    /// What more it allows while the load is low.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    elastic: Option<ElasticBody>,
    /// Whether a denied request counts.
    count_rejected: bool,
    /// What becomes of whoever it denies too often.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    penalty: Option<PenaltyBody>,
    /// What becomes of a request that it has no room for: `deny`, or `defer` if it is sent later.
    over_limit: &'static str,
    /// Its own lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    lists: Option<ListSizes>,
    /// `enforce`, `shadow`, `quota` or `shadow_quota`.
    mode: &'static str,
    /// What whoever is refused is told.
    #[serde(skip_serializing_if = "str::is_empty")]
    #[schema(required = false)]
    message: &'a str,
}

/// An allowance while the load is low.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Elastic)]
struct ElasticBody {
    /// By how many percent the limit may be exceeded
    exceed_percent: u32,
    /// below this load.
    below_load_percent: u32,
}

impl ElasticBody {
    const fn new(elastic: &Elastic) -> Self {
        let below_load_percent = elastic.below_load_percent;
        Self { exceed_percent: elastic.limit.exceed_percent(), below_load_percent }
    }
}

/// A block for whoever is denied too often.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Penalty)]
struct PenaltyBody {
    /// So many denials
    after: u32,
    /// within this time
    within_ms: u64,
    /// block for this time.
    block_ms: u64,
    /// By what each further block is longer; 1 if it is not.
    factor: u32,
    /// The longest block.
    max_ms: u64,
}

impl PenaltyBody {
    const fn new(penalty: &Penalty) -> Self {
        Self {
            after: penalty.after(),
            within_ms: penalty.within().as_millis_ceil(),
            block_ms: penalty.block().as_millis_ceil(),
            factor: penalty.factor(),
            max_ms: penalty.max().as_millis_ceil(),
        }
    }
}

/// One level of a condition.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RuleLevel)]
struct LevelBody<'a> {
    /// The key of an entry.
    key: &'a str,
    /// The value as the rule file has it; absent if any will do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    value: Option<&'a str>,
}

/// The rules in force, and how they came to be.
#[utoipa::path(
    get, path = "/v1/rules", tag = "rules", operation_id = "rules",
    responses((status = 200, description = "The rules in force.", body = RulesBody<'_>))
)]
pub(super) async fn list(State(service): State<Arc<Service>>) -> Response {
    let rules = service.limiter().rules();
    let known = service.health().rules();
    let body = RulesBody {
        status: RuleStatusBody::from(&*known),
        rules: rules.ids().filter_map(|id| rule(&rules, id)).collect(),
        unlimited: rules.unlimited().iter().map(unlimited).collect(),
        domain_lists: rules.domains().filter_map(|domain| domain_lists(&rules, domain)).collect(),
    };
    to_wire::respond(&body)
}

fn domain_lists<'a>(rules: &RuleSet, domain: &'a str) -> Option<DomainListsBody<'a>> {
    rules.lists(domain).map(|lists| DomainListsBody { domain, lists: ListSizes::new(lists) })
}

fn unlimited(rule: &Unlimited) -> UnlimitedBody<'_> {
    UnlimitedBody { name: rule.name(), path: &rule.path }
}

fn rule(rules: &RuleSet, id: RuleId) -> Option<RuleBody<'_>> {
    let (rule, (domain, levels)) = (rules.rule(id)?, rules.levels(id)?);
    let limit = &rule.limit;
    let parameters = limit.shape().parameters();
    Some(RuleBody {
        name: rule.name(),
        domain,
        path: &rule.path,
        levels: levels.into_iter().map(|(key, value)| LevelBody { key, value }).collect(),
        algorithm: limit.algorithm().name(),
        requests_per_unit: limit.count(),
        unit: rule.unit.name(),
        unit_multiplier: rule.unit_multiplier,
        window_ms: limit.window().as_millis_ceil(),
        capacity: limit.capacity(),
        burst: parameters.burst,
        refill: parameters.refill.map(Refill::name),
        buckets: parameters.buckets,
        max_wait_ms: parameters.max_wait.flatten().map(|wait| wait.as_millis_ceil()),
        soft_percent: limit.exceed_percent(),
        elastic: rule.elastic.as_deref().map(ElasticBody::new),
        count_rejected: limit.counts_rejected(),
        penalty: limit.penalty().map(PenaltyBody::new),
        over_limit: rule.over_limit.name(),
        lists: rule.lists.as_deref().map(ListSizes::new),
        mode: mode_name(rule.mode),
        message: &rule.message,
    })
}
