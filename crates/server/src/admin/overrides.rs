//! `/v1/overrides` and `/v1/audit` of the admin listener: exceptions for one descriptor, and who
//! made which of them.
//!
//! Invariant: what is put can be enforced by the rules in force: a number makes a limit of the rule
//! that it is for.

use std::fmt;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use tollgate_core::ruleset::Found;
use tollgate_core::{Descriptor, Entry, Operation, Rule, RuleSet};
use utoipa::{IntoResponses, ToSchema};

use super::keys::receive_json;
use crate::bounds::{AUDIT_MAX, ENTRIES_MAX, KEY_MAX, OVERRIDE_LIFE_MAX, OVERRIDE_TEXT_MAX, VALUE_MAX};
use crate::http::v1::error::V1Error;
use crate::http::v1::from_wire::WholeNumber;
use crate::http::v1::to_wire::{self, ProblemBody};
use crate::overrides::{
    AuditEntry, OverrideError, OverrideLimit, OverridePair, OverrideRecord, OverrideRemoval,
};
use crate::service::Service;
use tollgate_limiter::overrides::OverrideEffect;

const SHAPE: &str = r#"send {"domain":"shop","descriptor":{"user_id":"42"},"limit":500,"expires_in_s":3600,"reason":"a sale","who":"ada"}"#;

/// An override to make.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = OverrideRequest)]
pub(super) struct OverrideRequestBody {
    /// The domain of a rule file.
    #[schema(min_length = 1)]
    domain: String,
    /// The entries in order, as an object or as a list of `key` and `value`.
    #[schema(value_type = Object)]
    descriptor: DescriptorPairs,
    /// The name of the rule that it is about; needed for a number if the descriptor meets several.
    #[serde(default)]
    #[schema(nullable = false)]
    rule: Option<String>,
    /// What holds instead of the rule.
    limit: OverrideLimit,
    /// In how many seconds it ends.
    #[schema(value_type = u64, minimum = 1, maximum = 31_622_400)]
    expires_in_s: WholeNumber,
    /// Why it is made.
    #[schema(min_length = 1)]
    reason: String,
    /// Who makes it.
    #[schema(min_length = 1)]
    who: String,
}

/// Entries of a descriptor in their order.
#[derive(Debug)]
struct DescriptorPairs(Vec<OverridePair>);

impl<'de> Deserialize<'de> for DescriptorPairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;

        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Vec<OverridePair>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(r#"a descriptor such as {"user_id":"42"}"#)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some((key, value)) = map.next_entry()? {
                    if pairs.len() == ENTRIES_MAX {
                        return Err(A::Error::custom(format!("more than {ENTRIES_MAX} entries")));
                    }
                    pairs.push(OverridePair { key, value });
                }
                Ok(pairs)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = list.next_element()? {
                    if pairs.len() == ENTRIES_MAX {
                        return Err(A::Error::custom(format!("more than {ENTRIES_MAX} entries")));
                    }
                    pairs.push(pair);
                }
                Ok(pairs)
            }
        }

        deserializer.deserialize_any(PairsVisitor).map(Self)
    }
}

/// The overrides in force.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Overrides)]
pub(super) struct OverrideListBody {
    /// Where they are kept: `redis` for all nodes, `folder` for this one, `memory` until it ends.
    kept_in: &'static str,
    /// The first to end first.
    overrides: Vec<OverrideRecord>,
}

/// What changed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Audit)]
pub(super) struct AuditBody {
    /// The newest first.
    entries: Vec<AuditEntry>,
}

/// What comes back for an override that was made or removed.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it is only described")]
enum ChangedSchema {
    /// The override.
    #[response(status = 200)]
    Fine(OverrideRecord),
    /// The request is not as it must be.
    #[response(status = "4XX", content_type = "application/problem+json")]
    Bad(ProblemBody<'static>),
    /// It cannot be kept at the moment, and nothing has changed.
    #[response(status = 503, content_type = "application/problem+json")]
    Later(ProblemBody<'static>),
}

/// Makes an override, in the place of one for the same descriptor and rule.
#[utoipa::path(
    put, path = "/v1/overrides", tag = "overrides", operation_id = "put_override",
    request_body = OverrideRequestBody,
    responses(ChangedSchema)
)]
pub(super) async fn put(State(service): State<Arc<Service>>, request: Request<Body>) -> Response {
    respond(async { put_one(&service, request).await }.await)
}

/// The overrides in force.
#[utoipa::path(
    get, path = "/v1/overrides", tag = "overrides", operation_id = "list_overrides",
    responses((status = 200, description = "The overrides in force.", body = OverrideListBody))
)]
pub(super) async fn list(State(service): State<Arc<Service>>) -> Response {
    let own = service.overrides();
    to_wire::respond(&OverrideListBody { kept_in: own.place(), overrides: own.list(service.now()) })
}

/// Removes an override before its end.
#[utoipa::path(
    delete, path = "/v1/overrides", tag = "overrides", operation_id = "remove_override",
    params(
        ("id" = String, Query, description = "The id of the override.", min_length = 1, example = "1f0c5a7be2d94c33"),
        ("who" = String, Query, description = "Who removes it.", min_length = 1, example = "ada"),
        ("reason" = String, Query, description = "Why.", min_length = 1, example = "the sale is over"),
    ),
    responses(ChangedSchema)
)]
pub(super) async fn remove(State(service): State<Arc<Service>>, query: RemovalQuery) -> Response {
    respond(async { remove_one(&service, query).await }.await)
}

/// What changed in the overrides, and who did it.
#[utoipa::path(
    get, path = "/v1/audit", tag = "overrides", operation_id = "audit",
    responses(
        (status = 200, description = "What changed.", body = AuditBody),
        (
            status = 503, description = "The log cannot be read at the moment.", body = ProblemBody<'static>,
            content_type = "application/problem+json"
        )
    )
)]
pub(super) async fn audit(State(service): State<Arc<Service>>) -> Response {
    let entries = service.overrides().audit(AUDIT_MAX).await.map_err(V1Error::from);
    respond(entries.map(|entries| to_wire::respond(&AuditBody { entries })))
}

fn respond(answered: Result<Response, V1Error>) -> Response {
    answered.unwrap_or_else(|error| to_wire::error(&error).into())
}

/// What names the override to remove.
#[derive(Debug, Deserialize)]
pub(super) struct RemovalParams {
    #[serde(default)]
    id: String,
    #[serde(default)]
    who: String,
    #[serde(default)]
    reason: String,
}

type RemovalQuery = Result<Query<RemovalParams>, axum::extract::rejection::QueryRejection>;

async fn put_one(service: &Service, request: Request<Body>) -> Result<Response, V1Error> {
    let bytes = receive_json(request).await?;
    let body: OverrideRequestBody =
        serde_json::from_slice(&bytes).map_err(|error| wrong("", error.to_string(), SHAPE))?;
    let record = body.checked(service)?;
    service.put_override(record.clone()).await?;
    // What operators change by hand is told; the names are a stranger's, so they are quoted.
    tracing::info!(id = record.id, domain = ?record.domain, who = ?record.who, "an override was made");
    Ok(to_wire::respond(&record))
}

async fn remove_one(service: &Service, query: RemovalQuery) -> Result<Response, V1Error> {
    let fix = "send ?id=ID&who=NAME&reason=TEXT, with the id as GET /v1/overrides has it";
    let Query(RemovalParams { id, who, reason }) =
        query.map_err(|_| wrong("", "the query is not understood".to_owned(), fix))?;
    for (name, text) in [("id", &id), ("who", &who), ("reason", &reason)] {
        check_text(name, text, fix)?;
    }
    let by = who.clone();
    let removed = service.remove_override(OverrideRemoval { id, who, reason }).await?;
    tracing::info!(id = removed.id, domain = ?removed.domain, who = ?by, "an override was removed");
    Ok(to_wire::respond(&removed))
}

impl OverrideRequestBody {
    /// The override, if the rules in force can do what it says.
    fn checked(self, service: &Service) -> Result<OverrideRecord, V1Error> {
        let Self { domain, descriptor: DescriptorPairs(descriptor), rule, limit, .. } = self;
        if domain.is_empty() || domain.len() > KEY_MAX {
            return Err(wrong("/domain", "the domain is empty or too long".to_owned(), SHAPE));
        }
        let is_long = |pair: &OverridePair| pair.key.len() > KEY_MAX || pair.value.len() > VALUE_MAX;
        if descriptor.is_empty() || descriptor.iter().any(is_long) {
            return Err(wrong("/descriptor", "the descriptor is empty or too long".to_owned(), SHAPE));
        }
        check_text("reason", &self.reason, SHAPE)?;
        check_text("who", &self.who, SHAPE)?;
        let life_max = OVERRIDE_LIFE_MAX.as_secs();
        let expires_in_s = self.expires_in_s.0;
        if expires_in_s == 0 || expires_in_s > life_max {
            let fix = format!("send 1 to {life_max} seconds; what is to stay belongs into the rules");
            return Err(wrong("/expires_in_s", "an override ends".to_owned(), &fix));
        }
        let entries: Vec<Entry<'_>> =
            descriptor.iter().map(|pair| Entry { key: &pair.key, value: &pair.value }).collect();
        check_limit(&service.limiter().rules(), &domain, &entries, rule.as_deref(), limit)?;
        let since_unix_s = service.now().get() / 1_000_000;
        Ok(OverrideRecord {
            id: format!("{:016x}", fastrand::u64(..)),
            domain,
            descriptor,
            rule,
            limit,
            expires_at_unix_s: since_unix_s.saturating_add(expires_in_s),
            reason: self.reason,
            who: self.who,
            since_unix_s,
        })
    }
}

/// Whether the rules that the descriptor meets can do that.
fn check_limit(
    rules: &RuleSet,
    domain: &str,
    entries: &[Entry<'_>],
    name: Option<&str>,
    limit: OverrideLimit,
) -> Result<(), V1Error> {
    let met = rules_met(rules, domain, entries);
    let names = met.iter().map(|rule| rule.name()).collect::<Vec<_>>().join(", ");
    let chosen: Vec<&Rule> =
        met.into_iter().filter(|rule| name.is_none_or(|name| rule.name() == name)).collect();
    if let Some(name) = name.filter(|_| chosen.is_empty()) {
        let fix = match names.as_str() {
            "" => "leave rule out; no rule is about this descriptor".to_owned(),
            names => format!("send one of these: {names}"),
        };
        return Err(wrong("/rule", format!("the descriptor does not meet the rule '{name}'"), &fix));
    }
    match (limit.effect(), chosen.as_slice()) {
        (OverrideEffect::Deny, _) if name.is_some() => {
            let detail = "deny is about the whole request and not about one rule".to_owned();
            Err(wrong("/rule", detail, "leave rule out"))
        }
        (OverrideEffect::Deny | OverrideEffect::Unlimited, _) => Ok(()),
        (OverrideEffect::Limit(_), []) => {
            let detail = "no rule is about this descriptor, so that there is no limit to change".to_owned();
            Err(wrong("/descriptor", detail, "send a descriptor that meets a rule; /v1/rules has them"))
        }
        (OverrideEffect::Limit(count), [rule]) => match rule.limit.with_count(count) {
            Ok(_) => Ok(()),
            Err(error) => Err(wrong("/limit", error.to_string(), "send another number")),
        },
        (OverrideEffect::Limit(_), _) => {
            let detail = "the descriptor meets several limits".to_owned();
            Err(wrong("/rule", detail, &format!("send the rule that is meant: {names}")))
        }
    }
}

fn rules_met<'r>(rules: &'r RuleSet, domain: &str, entries: &[Entry<'_>]) -> Vec<&'r Rule> {
    let descriptors = [Descriptor::new(entries)];
    let request = tollgate_core::Request::new(domain, &descriptors);
    let mut ids = Vec::new();
    // A report meets its rules whatever a deny list says.
    rules.charges(&request, Operation::Report, |found| {
        if let Found::Charge(charge) = found
            && !charge.is_penalty()
        {
            ids.extend(charge.rule);
        }
    });
    ids.into_iter().filter_map(|id| rules.rule(id)).collect()
}

fn check_text(name: &str, text: &str, fix: &str) -> Result<(), V1Error> {
    if text.trim().is_empty() || text.len() > OVERRIDE_TEXT_MAX {
        let detail = format!("{name} is missing or longer than {OVERRIDE_TEXT_MAX} bytes");
        return Err(wrong(&format!("/{name}"), detail, fix));
    }
    Ok(())
}

fn wrong(pointer: &str, detail: String, fix: &str) -> V1Error {
    V1Error::Field { pointer: pointer.to_owned(), detail, fix: fix.to_owned() }
}

impl From<OverrideError> for V1Error {
    fn from(error: OverrideError) -> Self {
        let detail = error.to_string();
        let (status, fix) = match error {
            OverrideError::Full => (StatusCode::CONFLICT, "remove some, or write a rule instead"),
            OverrideError::Missing => (StatusCode::NOT_FOUND, "GET /v1/overrides has those in force"),
            OverrideError::Redis(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "look whether it changed, and send it again when Redis is back",
            ),
            OverrideError::File(_) => (StatusCode::SERVICE_UNAVAILABLE, "make room or the folder writable"),
        };
        Self::NoAnswer { status, detail, fix }
    }
}
