//! The document that describes `/v1` of the admin listener, made from its code.

use std::sync::LazyLock;

use axum::response::Response;
use hyper::body::Bytes;
use utoipa::{IntoResponses, OpenApi};

use super::history::{LabelsSchema, SeriesSchema, StatusSchema, SummarySchema, TopSchema, ValuesSchema};
use super::keys::{KeyBody, ResetBody};
use super::{history, keys, rules};
use crate::http::v1::openapi::{DescriptorSchema, RequestSchema, respond, written};
use crate::http::v1::to_wire::ProblemBody;

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

/// The document of the admin listener.
pub(super) async fn document() -> Response {
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| written(&ForOperators::openapi()));
    respond(&DOCUMENT)
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
