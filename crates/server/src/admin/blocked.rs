//! `/v1/keys/blocked` of the admin listener: whom penalties block.
//!
//! [`crate::service`] keeps a bounded list of the blocks that this server began or met. Here the store is
//! asked about each key of an answer, by a peek: what has ended meanwhile, was reset on any node, or
//! has no penalty any more is left out, and forgotten.
//!
//! Deliberately not here: a search of the store, in memory or on Redis. Blocks that this server has
//! not met are not listed, and the answer says since when it has been watching.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use serde::Serialize;
use tollgate_core::{Descriptor, Entry, Operation, Request, Rule, Verdict};
use utoipa::ToSchema;

use super::history::{HistoryParams, respond};
use crate::http::v1::error::V1Error;
use crate::http::v1::to_wire::{self, ProblemBody};
use crate::service::{BlockedKey, Service};

const TAKEN: &[&str] = &["domain", "rule", "limit"];
/// Keys of an answer; the store is asked about each.
const LIMIT_DEFAULT: u64 = 100;
const LIMIT_MAX: u64 = 200;

/// The keys that penalties block.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BlockedKeys)]
pub(super) struct BlockedBody {
    /// The longest blocks first.
    keys: Vec<BlockedKeyBody>,
    /// Further keys that are known and were not asked about.
    more: usize,
    /// Requests since the start that met a block for which the list had no room.
    unlisted: u64,
    /// How keys are named, as in the history: `clear`, `hashed`, or `off` for not at all.
    names: &'static str,
}

/// A key that a penalty blocks.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BlockedKey)]
struct BlockedKeyBody {
    domain: String,
    /// The rule that has the penalty.
    rule: String,
    /// Where it stands: the domain and the levels, joined by dots.
    path: String,
    /// The key, named as the history names it; absent if it names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    key: Option<String>,
    /// When this server first met the block, in seconds since 1970.
    since_unix_s: u64,
    /// How long it lasts from now on.
    blocked_for_ms: u64,
    /// How often it was denied here since then.
    denied: u64,
    /// The rule is in shadow mode, and denies nobody.
    shadow: bool,
    /// The store could not be asked whether it still is.
    degraded: bool,
}

/// The keys that penalties block now, as far as this server has begun or met a block of theirs.
#[utoipa::path(
    get, path = "/v1/keys/blocked", tag = "keys", operation_id = "blocked_keys",
    params(
        ("domain" = Option<String>, Query, description = "Only under rules of this domain.", example = "shop"),
        ("rule" = Option<String>, Query, description = "Only under this rule.", example = "login"),
        ("limit" = Option<u64>, Query, description = "Keys at most; 100 if absent.", minimum = 1, maximum = 200, example = 10),
    ),
    responses(
        (status = 200, description = "The keys.", body = BlockedBody),
        (
            status = "4XX", description = "The request is not as it must be.", body = ProblemBody<'static>,
            content_type = "application/problem+json"
        )
    )
)]
pub(super) async fn list(State(service): State<Arc<Service>>, query: RawQuery) -> Response {
    respond(async {
        let params = HistoryParams::read(query, TAKEN)?;
        let limit = params.number("limit", LIMIT_DEFAULT, LIMIT_MAX)?;
        Ok(to_wire::respond(&answer(&service, &params, usize::try_from(limit).unwrap_or(0)).await?))
    })
    .await
}

async fn answer(service: &Service, params: &HistoryParams, limit: usize) -> Result<BlockedBody, V1Error> {
    let is_wanted = |name: &str, own: &str| params.text(name).is_none_or(|wanted| wanted == own);
    let mut known = service.blocked_keys().list(service.now());
    known.retain(|key| is_wanted("domain", &key.domain) && is_wanted("rule", &key.rule));
    let more = known.len().saturating_sub(limit);
    known.truncate(limit);
    let mut keys = Vec::new();
    for key in known {
        match asked(service, &key).await? {
            Some(body) => keys.push(body),
            None => service.blocked_keys().forget(key.id),
        }
    }
    keys.sort_by_key(|key| std::cmp::Reverse(key.blocked_for_ms));
    let names = service.history().map_or("off", |history| history.counter().key_names().name());
    Ok(BlockedBody { keys, more, unlisted: service.blocked_keys().unlisted(), names })
}

/// What the store says of a key; nothing if it is not blocked.
async fn asked(service: &Service, key: &BlockedKey) -> Result<Option<BlockedKeyBody>, V1Error> {
    let entries: Vec<Entry<'_>> =
        key.entries.iter().map(|(key, value)| Entry::from((key.as_str(), value.as_str()))).collect();
    let descriptors = [Descriptor::new(&entries)];
    let request = Request::new(&key.domain, &descriptors).with_cost(0);
    let reply = service.operate(&request, Operation::Peek, service.now()).await?;
    let is_same = |rule: &Rule| rule.path == key.path && rule.name() == key.rule;
    let own = reply.decisions.iter().find(|decision| reply.rule(decision).is_some_and(is_same));
    let Some(decision) = own else { return Ok(None) };
    let wait = match decision.verdict {
        Verdict::Deny { retry_after: Some(wait) } if decision.is_blocked => wait,
        // Without the store nobody can say that it has ended.
        _ if decision.degraded => key.until.since(reply.now),
        Verdict::Allow | Verdict::Delay { .. } | Verdict::Deny { .. } => return Ok(None),
    };
    let counter = service.history().map(|history| history.counter());
    Ok(Some(BlockedKeyBody {
        domain: key.domain.clone(),
        rule: key.rule.clone(),
        path: key.path.clone(),
        key: counter.and_then(|counter| counter.shown_key(&key.domain, &entries)),
        since_unix_s: key.since.get() / 1_000_000,
        blocked_for_ms: wait.as_millis_ceil(),
        denied: key.denied,
        shadow: reply.is_shadow(decision),
        degraded: decision.degraded,
    }))
}
