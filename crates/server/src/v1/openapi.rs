//! The documents that describe `/v1`, made from its code.
//!
//! Each listener serves the one about its own paths at `/v1/openapi.json`.
//! What a request looks like is written by hand in `shapes`; everything else
//! comes from the types.

mod shapes;

use std::sync::LazyLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use hyper::body::Bytes;
use utoipa::{IntoResponses, OpenApi};

use super::history::{LabelsSchema, SeriesSchema, StatusSchema, SummarySchema, TopSchema, ValuesSchema};
use super::keys::{KeyBody, ResetBody};
use super::to_wire::{JSON, ProblemBody, RefusedBody};
use super::{decide, history, keys, rules};
use shapes::{AnswerSchema, DescriptorSchema};
pub(super) use shapes::{BodySchema, RequestSchema};

#[derive(OpenApi)]
#[openapi(
    info(title = "Tollgate", description = "Limits how many requests anyone may send.", license(name = "Apache-2.0", identifier = "Apache-2.0")),
    paths(decide::check, decide::peek, decide::report, decide::refund),
    components(schemas(
        RequestSchema, DescriptorSchema, BodySchema, AnswerSchema, RefusedBody<'_>, ProblemBody<'_>
    )),
    tags((name = "decide", description = "May this happen?"))
)]
struct ForCallers;

#[derive(OpenApi)]
#[openapi(
    info(title = "Tollgate: admin", description = "For operators and their tools.", license(name = "Apache-2.0", identifier = "Apache-2.0")),
    paths(
        keys::inspect, keys::inspect_body, keys::reset, keys::reset_body, rules::list,
        history::series, history::top, history::summary, history::labels, history::values, history::status,
    ),
    components(schemas(
        RequestSchema, DescriptorSchema, KeyBody<'_>, ResetBody, ProblemBody<'_>,
        SeriesSchema, TopSchema, SummarySchema, LabelsSchema, ValuesSchema, StatusSchema,
    )),
    tags(
        (name = "history", description = "How many, of what, when."),
        (name = "keys", description = "What counters hold."),
        (name = "rules", description = "What holds."),
    )
)]
struct ForOperators;

/// The document of the HTTP listener.
pub(super) async fn for_callers() -> Response {
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| written(&ForCallers::openapi()));
    respond(&DOCUMENT)
}

/// The document of the admin listener.
pub(super) async fn for_operators() -> Response {
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| written(&ForOperators::openapi()));
    respond(&DOCUMENT)
}

fn written(document: &utoipa::openapi::OpenApi) -> Bytes {
    serde_json::to_vec_pretty(document).expect("a document is always JSON").into()
}

fn respond(document: &Bytes) -> Response {
    ([(CONTENT_TYPE, JSON)], document.clone()).into_response()
}

/// What comes back for a check and its like.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it is only described")]
pub(super) enum DecidedSchema {
    /// Go ahead, now or after `wait_ms`; or the replies to a batch, one for each request.
    #[response(status = 200)]
    Fine(AnswerSchema),
    /// Not now.
    #[response(status = 429, content_type = "application/problem+json")]
    Refused(RefusedBody<'static>),
    /// The request is not as it must be.
    #[response(status = "4XX", content_type = "application/problem+json")]
    Bad(ProblemBody<'static>),
    /// No rules are loaded yet, or there is too much to do.
    #[response(status = 503, content_type = "application/problem+json")]
    Later(ProblemBody<'static>),
}

/// What comes back for a look at a key.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it is only described")]
pub(super) enum InspectedSchema {
    /// What its counters hold.
    #[response(status = 200)]
    Fine(KeyBody<'static>),
    /// The request is not as it must be.
    #[response(status = "4XX", content_type = "application/problem+json")]
    Bad(ProblemBody<'static>),
    /// No rules are loaded yet.
    #[response(status = 503, content_type = "application/problem+json")]
    Later(ProblemBody<'static>),
}

/// What comes back for a reset.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it is only described")]
pub(super) enum ForgottenSchema {
    /// The key is as good as new.
    #[response(status = 200)]
    Fine(ResetBody),
    /// The request is not as it must be.
    #[response(status = "4XX", content_type = "application/problem+json")]
    Bad(ProblemBody<'static>),
    /// No rules are loaded yet.
    #[response(status = 503, content_type = "application/problem+json")]
    Later(ProblemBody<'static>),
}
