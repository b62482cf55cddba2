//! `/v1/load` of the admin listener: how loaded the system is, and reporting it.
//!
//! Elastic limits go by it. Whoever knows the load better than this process does, an autoscaler or
//! the service itself, reports it here; the host and the gateway's upstreams report by themselves.
//!
//! Deliberately not here: what follows from a load, which is `tollgate_limiter::load`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use tollgate_core::{Micros, Time};
use tollgate_limiter::{Load, LoadReading, LoadSource};
use utoipa::{IntoResponses, ToSchema};

use crate::bounds::{KEY_MAX, LOAD_INTERVAL_MAX_S};
use crate::http::v1::error::V1Error;
use crate::http::v1::from_wire::WholeNumber;
use crate::http::v1::to_wire::{self, ProblemBody};
use crate::service::Service;

use super::keys::receive_json;

/// The name of whoever gives none.
const PUSH: &str = "push";
/// How often such a source reports, unless it says so.
const INTERVAL_DEFAULT_S: u64 = 10;

/// A report.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LoadReport)]
pub(super) struct ReportRequest {
    /// From 0, idle, to 1, full.
    #[schema(minimum = 0, maximum = 1)]
    load: f64,
    /// The domain that it is about; absent for all of them.
    #[serde(default)]
    #[schema(max_length = 4_096)]
    domain: Option<String>,
    /// Who reports; `push` if absent.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 4_096)]
    source: Option<String>,
    /// A report is to come that often, in seconds; after three without any the load counts as full.
    #[serde(default)]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 86_400)]
    interval_s: Option<WholeNumber>,
}

/// The source to forget.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourceQuery {
    source: Option<String>,
    domain: Option<String>,
}

/// How loaded the system is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Load)]
pub(super) struct LoadBody {
    /// By domain of the rules in force.
    domains: Vec<DomainLoad>,
    /// Who says so.
    sources: Vec<SourceBody>,
}

/// The load of one domain.
#[derive(Debug, Serialize, ToSchema)]
struct DomainLoad {
    /// The domain.
    domain: String,
    /// The largest of its sources, from 0 to 1; 1 if there are none.
    load: f64,
}

/// What one source says.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LoadSource)]
struct SourceBody {
    /// Its name.
    source: String,
    /// The domain that it is about; absent for all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    domain: Option<String>,
    /// What it last reported.
    reported: f64,
    /// What it counts as now: it rises at once and falls by half in ten seconds.
    load: f64,
    /// How long ago it reported.
    age_ms: u64,
    /// It was not heard of for three of its intervals, and counts as full.
    silent: bool,
}

/// What comes back.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it is only described")]
enum LoadSchema {
    /// How loaded the system is.
    #[response(status = 200)]
    Fine(LoadBody),
    /// The request is not as it must be.
    #[response(status = "4XX", content_type = "application/problem+json")]
    Bad(ProblemBody<'static>),
}

/// How loaded the system is, and who says so.
#[utoipa::path(get, path = "/v1/load", tag = "load", operation_id = "load", responses(LoadSchema))]
pub(super) async fn show(State(service): State<Arc<Service>>) -> Response {
    to_wire::respond(&LoadBody::new(&service, service.now()))
}

/// Reports a load.
#[utoipa::path(
    post, path = "/v1/load", tag = "load", operation_id = "report_load",
    request_body = ReportRequest,
    responses(LoadSchema)
)]
pub(super) async fn report(State(service): State<Arc<Service>>, request: Request<Body>) -> Response {
    let now = service.now();
    let noted = async { note(&service, &from_body(&receive_json(request).await?)?, now) }.await;
    respond(&service, noted, now)
}

/// Forgets a source.
#[utoipa::path(
    delete, path = "/v1/load", tag = "load", operation_id = "forget_load",
    params(
        ("source" = Option<String>, Query, description = "Who reported; `push` if absent."),
        ("domain" = Option<String>, Query, description = "The domain that it is about; absent for all of them."),
    ),
    responses(LoadSchema)
)]
pub(super) async fn forget(
    State(service): State<Arc<Service>>,
    query: Result<Query<SourceQuery>, QueryRejection>,
) -> Response {
    let now = service.now();
    let forgotten = match &query {
        Ok(Query(SourceQuery { source, domain })) => {
            let source = LoadSource { name: source.as_deref().unwrap_or(PUSH), domain: domain.as_deref() };
            if service.limiter().load().forget(source, now) {
                Ok(())
            } else {
                Err(not_found("there is no such source".to_owned(), "send one that GET /v1/load lists"))
            }
        }
        Err(error) => Err(wrong("", error.body_text(), "send ?source=NAME&domain=NAME, or less")),
    };
    respond(&service, forgotten, now)
}

fn respond(service: &Service, done: Result<(), V1Error>, now: Time) -> Response {
    match done {
        Ok(()) => to_wire::respond(&LoadBody::new(service, now)),
        Err(error) => to_wire::error(&error).into(),
    }
}

fn wrong(pointer: &str, detail: String, fix: &str) -> V1Error {
    V1Error::Field { pointer: pointer.to_owned(), detail, fix: fix.to_owned() }
}

const fn not_found(detail: String, fix: &'static str) -> V1Error {
    V1Error::NoAnswer { status: StatusCode::NOT_FOUND, detail, fix }
}

fn from_body(bytes: &[u8]) -> Result<ReportRequest, V1Error> {
    serde_json::from_slice(bytes).map_err(|error| {
        wrong(
            "",
            error.to_string(),
            r#"send {"load":0.4}, or {"load":0.4,"domain":"shop","source":"autoscaler","interval_s":10}"#,
        )
    })
}

fn note(service: &Service, request: &ReportRequest, now: Time) -> Result<(), V1Error> {
    let Some(load) = Load::new(request.load) else {
        return Err(wrong("/load", format!("{} is no load", request.load), "send a number from 0 to 1"));
    };
    let interval_s = request.interval_s.map_or(INTERVAL_DEFAULT_S, |seconds| seconds.0);
    if !(1..=LOAD_INTERVAL_MAX_S).contains(&interval_s) {
        return Err(wrong("/interval_s", "it is out of bounds".to_owned(), "send 1 to 86400 seconds"));
    }
    let name = request.source.as_deref().unwrap_or(PUSH);
    let domain = request.domain.as_deref();
    if name.is_empty() || name.len() > KEY_MAX || domain.is_some_and(|domain| domain.len() > KEY_MAX) {
        return Err(wrong(
            "/source",
            "a name is empty or too long".to_owned(),
            "send a shorter one, or leave it out",
        ));
    }
    if let Some(domain) = domain.filter(|domain| !service.limiter().rules().has_domain(domain)) {
        return Err(not_found(format!("no rules have the domain '{domain}'"), "send one of GET /v1/rules"));
    }
    let source = LoadSource { name, domain };
    let noted = service.limiter().load().report(source, load, Micros::from_secs(interval_s), now);
    noted.map_err(|error| wrong("/source", error.to_string(), "use fewer names"))
}

impl LoadBody {
    fn new(service: &Service, now: Time) -> Self {
        let (rules, gauge) = (service.limiter().rules(), service.limiter().load());
        let domain = |name: &str| DomainLoad { domain: name.to_owned(), load: gauge.load(name, now).get() };
        Self {
            domains: rules.domains().map(domain).collect(),
            sources: gauge.readings(now).into_iter().map(SourceBody::new).collect(),
        }
    }
}

impl SourceBody {
    fn new(reading: LoadReading) -> Self {
        let LoadReading { source, domain, reported, load, age, is_silent } = reading;
        let (reported, load) = (reported.get(), load.get());
        Self { source, domain, reported, load, age_ms: age.as_millis_ceil(), silent: is_silent }
    }
}
