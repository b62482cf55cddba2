//! The document that describes `/v1` of the admin listener, made from its code.

use std::sync::LazyLock;

use axum::response::Response;
use hyper::body::Bytes;
use utoipa::OpenApi;

use super::history::{LabelsSchema, SeriesSchema, StatusSchema, SummarySchema, TopSchema, ValuesSchema};
use super::keys::{KeyBody, ResetBody};
use super::{history, keys, rules};
use crate::http::v1::openapi::{respond, written};
use crate::http::v1::schemas::{DescriptorSchema, RequestSchema};
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
