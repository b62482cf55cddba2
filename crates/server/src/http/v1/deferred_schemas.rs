//! What `/v1/defer` takes, and what is told about requests that are sent later: for the document alone.

use std::borrow::Cow;
use std::collections::BTreeMap;

use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::{ObjectBuilder, Ref, RefOr, Schema};
use utoipa::{IntoResponses, PartialSchema, ToSchema};

use super::schemas::RequestSchema;
use super::to_wire::{DeniedBody, ProblemBody};

/// What comes back for a request that is to be sent later.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it is only described")]
pub(super) enum DeferredSchema {
    /// It is kept, and will be sent; `Location` is where to ask what became of it.
    #[response(status = 202)]
    Taken(TakenSchema),
    /// A limit that does not defer denies it, or too many wait already.
    #[response(status = 429, content_type = "application/problem+json")]
    Denied(DeniedOrFull),
    /// The call is not as it must be, or nothing here is sent later.
    #[response(status = "4XX", content_type = "application/problem+json")]
    Bad(ProblemBody<'static>),
    /// No rules are loaded yet, or the queue cannot be written.
    #[response(status = 503, content_type = "application/problem+json")]
    Later(ProblemBody<'static>),
}

/// A limit denies it, or there is no room.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = DeniedOrFull)]
#[expect(dead_code, reason = "it is only described")]
pub(super) enum DeniedOrFull {
    /// A limit that does not defer denies it.
    Denied(DeniedBody<'static>),
    /// Too many wait already.
    Full(ProblemBody<'static>),
}

/// What comes back for whoever asks.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it is only described")]
pub(super) enum StatusSchema {
    /// Where it is.
    #[response(status = 200)]
    Known(DeferredStatusSchema),
    /// No request with this id is known, or its result is no longer kept.
    #[response(status = "4XX", content_type = "application/problem+json")]
    Unknown(ProblemBody<'static>),
    /// The queue cannot be read.
    #[response(status = 503, content_type = "application/problem+json")]
    Later(ProblemBody<'static>),
}

/// A request that was taken.
#[derive(ToSchema)]
#[schema(as = Taken)]
#[expect(dead_code, reason = "it is only described")]
pub(super) struct TakenSchema {
    /// Whoever has it may ask what became of the request.
    id: String,
    /// `waiting`
    status: String,
    /// Where to ask.
    location: String,
    /// The name of the limit that puts it off.
    rule: String,
    /// There is no room before that; 0 if there is.
    retry_after_ms: u64,
    /// It is not sent after that.
    expires_at_unix_s: u64,
}

/// What became of a request.
#[derive(ToSchema)]
#[schema(as = DeferredStatus)]
#[expect(dead_code, reason = "it is only described")]
pub(super) struct DeferredStatusSchema {
    /// Its id.
    id: String,
    /// `waiting`, `sending`, `done`, `failed` or `expired`.
    status: String,
    /// Attempts that failed.
    attempts: u32,
    /// Why it failed or expired.
    #[schema(nullable = false)]
    reason: Option<String>,
    /// What the upstream said last.
    #[schema(nullable = false)]
    response: Option<UpstreamResponseSchema>,
}

/// What an upstream said.
#[derive(ToSchema)]
#[schema(as = UpstreamResponse)]
#[expect(dead_code, reason = "it is only described")]
pub(super) struct UpstreamResponseSchema {
    /// The status.
    status: u16,
    /// Names and values, without credentials.
    headers: Vec<[String; 2]>,
    /// The body, if it is text.
    #[schema(nullable = false)]
    body: Option<String>,
    /// The body, if it is not.
    #[schema(nullable = false)]
    body_base64: Option<String>,
    /// The body was longer than is kept.
    truncated: bool,
}

/// A request for the upstream.
#[derive(ToSchema)]
#[schema(as = UpstreamRequest)]
#[expect(dead_code, reason = "it is only described")]
pub(super) struct UpstreamRequestSchema {
    /// Such as `POST`; `GET` if it is left out.
    method: Option<String>,
    /// Path and query.
    path: String,
    /// The host that it is for.
    host: Option<String>,
    /// Without credentials, unless a setting keeps them.
    #[schema(required = false)]
    headers: BTreeMap<String, String>,
    /// A body that is text.
    body: Option<String>,
    /// A body that is not; not both.
    body_base64: Option<String>,
}

/// What `/v1/defer` takes: what `/v1/check` does, and the request for the upstream.
pub(crate) struct DeferBodySchema;

impl ToSchema for DeferBodySchema {
    fn name() -> Cow<'static, str> {
        "DeferBody".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        let mut call = UpstreamRequestSchema::schema();
        if let RefOr::T(Schema::Object(call)) = &mut call {
            call.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
        }
        schemas.push((UpstreamRequestSchema::name().into(), call));
    }
}

impl PartialSchema for DeferBodySchema {
    fn schema() -> RefOr<Schema> {
        let RefOr::T(Schema::Object(check)) = RequestSchema::schema() else { return RequestSchema::schema() };
        let example = serde_json::json!({
            "domain": "shop", "descriptors": [{ "user_id": "42" }],
            "request": { "method": "POST", "path": "/orders", "body": "{}" },
        });
        ObjectBuilder::from(check)
            .description(Some("Do this once there is room."))
            .property("request", Ref::from_schema_name(UpstreamRequestSchema::name()))
            .required("request")
            .examples([example])
            .into()
    }
}
