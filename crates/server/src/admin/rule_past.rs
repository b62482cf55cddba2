//! `/v1/rules/log` and `/v1/rules/usage` of the admin listener: how a rule came to be, and how close
//! keys come to its limit.
//!
//! The one comes from [`crate::rule_log`], the other from [`crate::rule_usage`].

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use serde::Serialize;
use tollgate_core::{RuleId, RuleSet};
use tollgate_history::time_text;
use utoipa::{IntoResponses, ToSchema};

use super::history::{HistoryParams, respond, run};
use crate::http::v1::error::V1Error;
use crate::http::v1::to_wire::{self, ProblemBody};
use crate::rule_log::{LimitChange, RuleLoad};
use crate::rule_usage::RuleUsage;
use crate::service::Service;

const LOG: &[&str] = &["path", "name"];
const USAGE: &[&str] = &["path", "name", "from", "to", "last"];

/// What changed in the rules, and when.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RuleLog)]
pub(super) struct RuleLogBody {
    /// All loads that are remembered, the newest first.
    loads: Vec<RuleLoad>,
    /// The limits of the rule that was asked for, the oldest first; empty if none was.
    changes: Vec<LimitChange>,
}

/// What comes back.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it is only described")]
enum UsageResponses {
    /// How close keys come to the limit.
    #[response(status = 200)]
    Fine(RuleUsage),
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
        let id = rule_in_force(&rules, &params)?;
        let range = params.range(time_text::now_s(service.now()))?;
        let usage = run(&service, move |reader| RuleUsage::read(reader, &rules, id, range)).await?;
        Ok(to_wire::respond(&usage.ok_or_else(no_such_rule)?))
    })
    .await
}

/// The rule that is asked for.
fn rule_in_force(rules: &RuleSet, params: &HistoryParams) -> Result<RuleId, V1Error> {
    let (path, name) = (params.text("path").unwrap_or_default(), params.text("name").unwrap_or_default());
    let found = rules.ids().zip(rules.rules()).find(|(_, rule)| rule.path == path && rule.name() == name);
    found.map(|(id, _)| id).ok_or_else(no_such_rule)
}

fn no_such_rule() -> V1Error {
    V1Error::Field {
        pointer: "/name".to_owned(),
        detail: "no rule of this path and name is in force".to_owned(),
        fix: "send path and name as /v1/rules has them".to_owned(),
    }
}
