//! What a request and an answer look like, by hand, because a descriptor has
//! two forms that no derive knows, and so have bodies: one, or a batch.

use std::borrow::Cow;

use utoipa::openapi::schema::{AdditionalProperties, SchemaType, Type};
use utoipa::openapi::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Ref, RefOr, Schema};
use utoipa::{IntoResponses, PartialSchema, ToSchema};

use super::to_wire::{DeniedBody, ProblemBody, ReplyBody};
use crate::bounds::{BATCH_MAX, DESCRIPTORS_MAX, ENTRIES_MAX};

/// What comes back for a check and its like.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it is only described")]
pub(super) enum DecidedSchema {
    /// Go ahead, now or after `wait_ms`; or the replies to a batch, one for each request.
    #[response(status = 200)]
    Fine(AnswerSchema),
    /// Not now.
    #[response(status = 429, content_type = "application/problem+json")]
    Denied(DeniedBody<'static>),
    /// The request is not as it must be.
    #[response(status = "4XX", content_type = "application/problem+json")]
    Bad(ProblemBody<'static>),
    /// No rules are loaded yet, or there is too much to do.
    #[response(status = 503, content_type = "application/problem+json")]
    Later(ProblemBody<'static>),
}

/// One request.
pub(crate) struct RequestSchema;

impl ToSchema for RequestSchema {
    fn name() -> Cow<'static, str> {
        "Request".into()
    }
}

impl PartialSchema for RequestSchema {
    fn schema() -> RefOr<Schema> {
        let descriptors = ArrayBuilder::new()
            .items(Ref::from_schema_name("Descriptor"))
            .min_items(Some(1))
            .max_items(Some(DESCRIPTORS_MAX))
            .description(Some("Each may meet limits of its own; all are decided together, all or nothing."));
        let cost = whole()
            .description(Some("What it takes from every limit it meets; 0 changes nothing."))
            .default(Some(1.into()));
        ObjectBuilder::new()
            .description(Some("May this happen?"))
            .property("domain", text().min_length(Some(1)).description(Some("The domain of a rule file.")))
            .property("descriptors", descriptors)
            .property("cost", cost)
            .required("domain")
            .required("descriptors")
            .additional_properties(Some(AdditionalProperties::FreeForm(false)))
            .examples([
                serde_json::json!({ "domain": "shop", "descriptors": [{ "user_id": "42" }], "cost": 1 }),
            ])
            .into()
    }
}

/// One descriptor, in either form.
pub(crate) struct DescriptorSchema;

impl ToSchema for DescriptorSchema {
    fn name() -> Cow<'static, str> {
        "Descriptor".into()
    }
}

impl PartialSchema for DescriptorSchema {
    fn schema() -> RefOr<Schema> {
        let value = || {
            OneOfBuilder::new()
                .item(text())
                .item(
                    ObjectBuilder::new()
                        .schema_type(Type::Integer)
                        .minimum(Some(i64::MIN))
                        .maximum(Some(u64::MAX)),
                )
                .item(ObjectBuilder::new().schema_type(Type::Boolean))
        };
        let short = ObjectBuilder::new()
            .description(Some("Its entries, in order."))
            .additional_properties(Some(RefOr::T(value().into())))
            .max_properties(Some(ENTRIES_MAX));
        let entry = ObjectBuilder::new()
            .property("key", text())
            .property("value", value())
            .required("key")
            .additional_properties(Some(AdditionalProperties::FreeForm(false)));
        let long = ObjectBuilder::new()
            .description(Some("Its entries as a list, and perhaps a cost of its own."))
            .property("entries", ArrayBuilder::new().items(entry).max_items(Some(ENTRIES_MAX)))
            .property("cost", whole())
            .required("entries")
            .additional_properties(Some(AdditionalProperties::FreeForm(false)));
        OneOfBuilder::new().item(short).item(long).into()
    }
}

/// One request, or a batch.
pub(crate) struct BodySchema;

impl ToSchema for BodySchema {
    fn name() -> Cow<'static, str> {
        "Body".into()
    }
}

impl PartialSchema for BodySchema {
    fn schema() -> RefOr<Schema> {
        let batch = ArrayBuilder::new().items(Ref::from_schema_name("Request")).max_items(Some(BATCH_MAX));
        OneOfBuilder::new().item(Ref::from_schema_name("Request")).item(batch).into()
    }
}

/// The answer to one request, or to each of a batch.
pub(crate) struct AnswerSchema;

impl ToSchema for AnswerSchema {
    fn name() -> Cow<'static, str> {
        "Answer".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((ReplyBody::name().into(), ReplyBody::schema()));
        ReplyBody::schemas(schemas);
    }
}

impl PartialSchema for AnswerSchema {
    fn schema() -> RefOr<Schema> {
        let one = Ref::from_schema_name(ReplyBody::name());
        let batch = ArrayBuilder::new().items(one.clone()).max_items(Some(BATCH_MAX));
        OneOfBuilder::new().item(one).item(batch).into()
    }
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::Type(Type::String))
}

fn whole() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::Type(Type::Integer)).minimum(Some(0)).maximum(Some(u64::MAX))
}
