//! `/v1/explain` of the admin listener: which rules a request meets, which one decides, and why.
//!
//! It says what `tollgate explain` says, on the counters of this server. Instead of a request it takes
//! the name of a rule, as `violated-policies` of a denial has it; the request is then one that meets
//! that rule.
//!
//! Invariant: it only looks; nothing is counted.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use serde::Deserialize;
use tollgate_core::{Operation, RuleSet};
use utoipa::openapi::{OneOfBuilder, Ref, RefOr, Schema};
use utoipa::{IntoResponses, ToSchema};

use super::keys::{receive_json, respond};
use crate::explain::Story;
use crate::http::v1::error::{FieldError, V1Error};
use crate::http::v1::from_wire::{self, V1Request};
use crate::http::v1::to_wire::{self, ProblemBody};
use crate::service::Service;

/// What stands for any value in a request that is made for a rule.
const ANY_VALUE: &str = "any";

/// A rule to explain.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ExplainRule)]
pub(super) struct RuleQuestion {
    /// Its name, or its path, as `violated-policies` of a denial and `/v1/rules` have it.
    #[schema(example = "burst")]
    rule: String,
    /// Its domain, where rules of several domains have that name.
    #[serde(default)]
    domain: Option<String>,
}

/// What is to be explained: a request, or one that meets a rule.
pub(super) struct ExplainSchema;

impl ToSchema for ExplainSchema {
    fn name() -> Cow<'static, str> {
        "ExplainRequest".into()
    }
}

impl utoipa::PartialSchema for ExplainSchema {
    fn schema() -> RefOr<Schema> {
        let [request, rule] = ["Request", "ExplainRule"].map(Ref::from_schema_name);
        OneOfBuilder::new().item(request).item(rule).into()
    }
}

/// What comes back.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it is only described")]
enum ExplainResponses {
    /// What the request meets.
    #[response(status = 200)]
    Fine(Story),
    /// The request is not as it must be, or there is no such rule.
    #[response(status = "4XX", content_type = "application/problem+json")]
    Bad(ProblemBody<'static>),
    /// No rules are loaded yet.
    #[response(status = 503, content_type = "application/problem+json")]
    Later(ProblemBody<'static>),
}

/// Explains what a request would meet now.
#[utoipa::path(
    post, path = "/v1/explain", tag = "rules", operation_id = "explain",
    request_body = ExplainSchema,
    responses(ExplainResponses)
)]
pub(super) async fn explain(State(service): State<Arc<Service>>, request: Request<Body>) -> Response {
    respond(async { told(&service, &receive_json(request).await?).await }.await)
}

async fn told(service: &Service, bytes: &[u8]) -> Result<Response, V1Error> {
    if from_wire::is_batch(bytes) {
        return Err(FieldError::OneKey.at(""));
    }
    let wire = match serde_json::from_slice::<RuleQuestion>(bytes) {
        Ok(question) => meeting(&service.limiter().rules(), &question)?,
        Err(_) => from_wire::request(bytes)?,
    };
    let entries = wire.entries();
    let descriptors = wire.descriptors(&entries, false);
    let request = wire.request(&descriptors);
    let reply = service.operate(&request, Operation::Peek, service.now()).await?;
    Ok(to_wire::respond(&Story::new(&request, &reply)))
}

/// A request that meets the rule.
fn meeting<'a>(rules: &RuleSet, question: &RuleQuestion) -> Result<V1Request<'a>, V1Error> {
    let is_it = |name: &str, path: &str, domain: &str| {
        [name, path].contains(&question.rule.as_str())
            && question.domain.as_deref().is_none_or(|wanted| wanted == domain)
    };
    let found = rules.ids().find_map(|id| {
        let (rule, (domain, levels)) = (rules.rule(id)?, rules.levels(id)?);
        is_it(rule.name(), &rule.path, domain).then_some((domain, levels))
    });
    let (domain, levels) = found.ok_or_else(|| V1Error::Field {
        pointer: "/rule".to_owned(),
        detail: "no rule of this name is in force".to_owned(),
        fix: "send a name or a path as /v1/rules has them".to_owned(),
    })?;
    let entry = |(key, value): (&str, Option<&str>)| (key.to_owned(), value.unwrap_or(ANY_VALUE).to_owned());
    Ok(V1Request::from_entries(domain.to_owned(), levels.into_iter().map(entry).collect()))
}
