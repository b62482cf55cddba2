//! The document that describes `/v1` of the HTTP listener, made from its code.
//!
//! `admin` has the one about its own paths.
//! What a request looks like is written by hand in `schemas`; everything else
//! comes from the types.

use std::sync::LazyLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use hyper::body::Bytes;
use utoipa::OpenApi;

use super::deferred_schemas::{DeferBodySchema, DeferredStatusSchema, DeniedOrFull, TakenSchema};
use super::schemas::{AnswerSchema, BodySchema, DescriptorSchema, RequestSchema};
use super::to_wire::{DeniedBody, JSON, ProblemBody};
use super::{decide, defer};

#[derive(OpenApi)]
#[openapi(
    info(title = "Tollgate", description = "Limits how many requests anyone may send.", license(name = "Apache-2.0", identifier = "Apache-2.0")),
    paths(decide::receive_and_answer, defer::take, defer::status),
    components(schemas(
        RequestSchema, DescriptorSchema, BodySchema, AnswerSchema, DeniedBody<'_>, ProblemBody<'_>,
        DeferBodySchema, TakenSchema, DeniedOrFull, DeferredStatusSchema
    )),
    tags(
        (name = "decide", description = "May this happen?"),
        (name = "defer", description = "Do this once there is room.")
    )
)]
struct ForCallers;

/// The document of the HTTP listener.
pub(super) async fn document() -> Response {
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| written(&described()));
    respond(&DOCUMENT)
}

/// The paths take and answer the same; they differ in what is done.
fn described() -> utoipa::openapi::OpenApi {
    let mut document = ForCallers::openapi();
    let paths = &mut document.paths.paths;
    let Some(item) = paths.get("/v1/check").cloned() else { return document };
    for (path, _, summary) in decide::PATHS {
        let mut item = item.clone();
        if let Some(post) = &mut item.post {
            post.operation_id = path.strip_prefix("/v1/").map(str::to_owned);
            post.summary = Some(summary.to_owned());
        }
        paths.insert(path.to_owned(), item);
    }
    document
}

pub(crate) fn written(document: &utoipa::openapi::OpenApi) -> Bytes {
    serde_json::to_vec_pretty(document).expect("a document is always JSON").into()
}

pub(crate) fn respond(document: &Bytes) -> Response {
    ([(CONTENT_TYPE, JSON)], document.clone()).into_response()
}
