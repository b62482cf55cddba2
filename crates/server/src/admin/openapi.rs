//! The document that describes `/v1` of the admin listener, made from its code.

use std::sync::LazyLock;

use axum::response::Response;
use hyper::body::Bytes;
use utoipa::OpenApi;

use super::explain::{ExplainSchema, RuleQuestion};
use super::history::{
    ForgottenSchema, LabelsSchema, SeriesSchema, StatusSchema, SummarySchema, TopSchema, ValuesSchema,
};
use super::keys::{KeyBody, ResetBody};
use super::load::LoadBody;
use super::overrides::{AuditBody, OverrideListBody, OverrideRequestBody};
use super::playground::PlaygroundBody;
use super::{
    blocked, explain, health, history, keys, load, overrides, playground, rule_past, rules, settings,
};
use crate::explain::Story;
use crate::http::v1::openapi::{respond, written};
use crate::http::v1::schemas::{DescriptorSchema, RequestSchema};
use crate::http::v1::to_wire::ProblemBody;
use crate::rule_usage::RuleUsage;

#[derive(OpenApi)]
#[openapi(
    info(title = "Tollgate: admin", description = "For operators and their tools.", license(name = "Apache-2.0", identifier = "Apache-2.0")),
    paths(
        keys::inspect, keys::inspect_body, keys::reset, keys::reset_body, blocked::list, rules::list, rule_past::log, rule_past::usage, explain::explain, health::show,
        settings::show, playground::play, load::show, load::report, load::forget,
        overrides::list, overrides::put, overrides::remove, overrides::audit,
        history::series, history::top, history::summary, history::labels, history::values, history::status,
        history::forget,
    ),
    components(schemas(
        RequestSchema, DescriptorSchema, KeyBody<'_>, ResetBody, ProblemBody<'_>,
        SeriesSchema, TopSchema, SummarySchema, LabelsSchema, ValuesSchema, StatusSchema, PlaygroundBody,
        ForgottenSchema, RuleUsage, ExplainSchema, RuleQuestion, Story, LoadBody,
        OverrideListBody, OverrideRequestBody, AuditBody,
    )),
    tags(
        (name = "history", description = "How many, of what, when."),
        (name = "health", description = "How it is."),
        (name = "load", description = "How much there is to do."),
        (name = "keys", description = "What counters hold."),
        (name = "overrides", description = "Exceptions, and who made them."),
        (name = "playground", description = "What would be."),
        (name = "rules", description = "What holds."),
    )
)]
struct ForOperators;

/// The document of the admin listener.
pub(super) async fn document() -> Response {
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| written(&ForOperators::openapi()));
    respond(&DOCUMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The types of the dashboard are made from it; see `dashboard/README.md`.
    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dashboard/openapi.json");

    #[test]
    fn the_document_that_the_dashboard_is_built_with_is_this_one() {
        let ours = written(&ForOperators::openapi());
        let beside = std::env::temp_dir().join("tollgate-openapi.json");
        let theirs = std::fs::read(FILE).unwrap_or_default();
        if theirs.trim_ascii_end() != &ours[..] {
            std::fs::write(&beside, [&ours[..], b"\n"].concat()).unwrap();
        }
        let beside = beside.display();
        assert!(theirs.trim_ascii_end() == &ours[..], "the API changed: cp {beside} dashboard/openapi.json");
    }
}
