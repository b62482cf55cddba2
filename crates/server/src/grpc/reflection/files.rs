//! Envoy's messages as far as `ShouldRateLimit` reaches, as tables.
//!
//! From the `.proto` files that `envoy-types` is generated from; comments,
//! options and what cannot be reached are left out.
//!
//! Invariant: every field of the generated messages is here under the same
//! number and kind; a test reads full messages by these tables.

use prost_types::field_descriptor_proto::Type;

use super::build::{Enum, Field, File, Kind, Message, Service};

const fn scalar(name: &'static str, number: i32, kind: Type) -> Field {
    Field { name, number, kind: Kind::Scalar(kind), is_repeated: false, in_oneof: false }
}

const fn message(name: &'static str, number: i32, of: &'static str) -> Field {
    Field { name, number, kind: Kind::Message(of), is_repeated: false, in_oneof: false }
}

const fn enumeration(name: &'static str, number: i32, of: &'static str) -> Field {
    Field { name, number, kind: Kind::Enum(of), is_repeated: false, in_oneof: false }
}

const fn repeated(field: Field) -> Field {
    Field { is_repeated: true, ..field }
}

const fn one_of(field: Field) -> Field {
    Field { in_oneof: true, ..field }
}

const fn plain(name: &'static str, fields: &'static [Field]) -> Message {
    Message { name, fields, messages: &[], enums: &[], oneof: None, is_map_entry: false }
}

const fn google(name: &'static str, messages: &'static [Message], enums: &'static [Enum]) -> File {
    File { name, package: "google.protobuf", imports: &[], messages, enums, services: &[] }
}

const DURATION: &str = "google/protobuf/duration.proto";
const STRUCT: &str = "google/protobuf/struct.proto";
const TIMESTAMP: &str = "google/protobuf/timestamp.proto";
const WRAPPERS: &str = "google/protobuf/wrappers.proto";
const UNIT: &str = "envoy/type/v3/ratelimit_unit.proto";
const BASE: &str = "envoy/config/core/v3/base.proto";
const DESCRIPTOR: &str = "envoy/extensions/common/ratelimit/v3/ratelimit.proto";

const SECONDS_AND_NANOS: &[Field] = &[scalar("seconds", 1, Type::Int64), scalar("nanos", 2, Type::Int32)];

pub(super) const FILES: &[File] = &[
    google(DURATION, &[plain("Duration", SECONDS_AND_NANOS)], &[]),
    google(TIMESTAMP, &[plain("Timestamp", SECONDS_AND_NANOS)], &[]),
    google(WRAPPERS, &[plain("UInt64Value", &[scalar("value", 1, Type::Uint64)])], &[]),
    google(STRUCT, STRUCT_MESSAGES, &[Enum { name: "NullValue", values: &[("NULL_VALUE", 0)] }]),
    File {
        name: UNIT,
        package: "envoy.type.v3",
        imports: &[],
        messages: &[],
        enums: &[Enum {
            name: "RateLimitUnit",
            values: &[
                ("UNKNOWN", 0),
                ("SECOND", 1),
                ("MINUTE", 2),
                ("HOUR", 3),
                ("DAY", 4),
                ("MONTH", 5),
                ("YEAR", 6),
            ],
        }],
        services: &[],
    },
    File {
        name: BASE,
        package: "envoy.config.core.v3",
        imports: &[],
        messages: &[plain(
            "HeaderValue",
            &[
                scalar("key", 1, Type::String),
                scalar("value", 2, Type::String),
                scalar("raw_value", 3, Type::Bytes),
            ],
        )],
        enums: &[],
        services: &[],
    },
    File {
        name: DESCRIPTOR,
        package: "envoy.extensions.common.ratelimit.v3",
        imports: &[UNIT, WRAPPERS],
        messages: &[RATE_LIMIT_DESCRIPTOR],
        enums: &[],
        services: &[],
    },
    File {
        name: "envoy/service/ratelimit/v3/rls.proto",
        package: "envoy.service.ratelimit.v3",
        imports: &[BASE, DESCRIPTOR, DURATION, STRUCT, TIMESTAMP],
        messages: &[RATE_LIMIT_REQUEST, RATE_LIMIT_RESPONSE],
        enums: &[],
        services: &[Service {
            name: "RateLimitService",
            methods: &[(
                "ShouldRateLimit",
                ".envoy.service.ratelimit.v3.RateLimitRequest",
                ".envoy.service.ratelimit.v3.RateLimitResponse",
            )],
        }],
    },
];

const STRUCT_MESSAGES: &[Message] = &[
    Message {
        name: "Struct",
        fields: &[repeated(message("fields", 1, ".google.protobuf.Struct.FieldsEntry"))],
        messages: &[Message {
            is_map_entry: true,
            ..plain(
                "FieldsEntry",
                &[scalar("key", 1, Type::String), message("value", 2, ".google.protobuf.Value")],
            )
        }],
        enums: &[],
        oneof: None,
        is_map_entry: false,
    },
    Message {
        oneof: Some("kind"),
        ..plain(
            "Value",
            &[
                one_of(enumeration("null_value", 1, ".google.protobuf.NullValue")),
                one_of(scalar("number_value", 2, Type::Double)),
                one_of(scalar("string_value", 3, Type::String)),
                one_of(scalar("bool_value", 4, Type::Bool)),
                one_of(message("struct_value", 5, ".google.protobuf.Struct")),
                one_of(message("list_value", 6, ".google.protobuf.ListValue")),
            ],
        )
    },
    plain("ListValue", &[repeated(message("values", 1, ".google.protobuf.Value"))]),
];

const RATE_LIMIT_DESCRIPTOR: Message = Message {
    name: "RateLimitDescriptor",
    fields: &[
        repeated(message("entries", 1, ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry")),
        message("limit", 2, ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.RateLimitOverride"),
        message("hits_addend", 3, ".google.protobuf.UInt64Value"),
        scalar("is_negative_hits", 4, Type::Bool),
    ],
    messages: &[
        plain("Entry", &[scalar("key", 1, Type::String), scalar("value", 2, Type::String)]),
        plain(
            "RateLimitOverride",
            &[
                scalar("requests_per_unit", 1, Type::Uint32),
                enumeration("unit", 2, ".envoy.type.v3.RateLimitUnit"),
            ],
        ),
    ],
    enums: &[],
    oneof: None,
    is_map_entry: false,
};

const RATE_LIMIT_REQUEST: Message = plain(
    "RateLimitRequest",
    &[
        scalar("domain", 1, Type::String),
        repeated(message("descriptors", 2, ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor")),
        scalar("hits_addend", 3, Type::Uint32),
    ],
);

const RATE_LIMIT_RESPONSE: Message = Message {
    name: "RateLimitResponse",
    fields: &[
        enumeration("overall_code", 1, ".envoy.service.ratelimit.v3.RateLimitResponse.Code"),
        repeated(message("statuses", 2, ".envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus")),
        repeated(message("response_headers_to_add", 3, ".envoy.config.core.v3.HeaderValue")),
        repeated(message("request_headers_to_add", 4, ".envoy.config.core.v3.HeaderValue")),
        scalar("raw_body", 5, Type::Bytes),
        message("dynamic_metadata", 6, ".google.protobuf.Struct"),
        message("quota", 7, ".envoy.service.ratelimit.v3.RateLimitResponse.Quota"),
    ],
    messages: &[
        Message {
            enums: &[Enum {
                name: "Unit",
                values: &[
                    ("UNKNOWN", 0),
                    ("SECOND", 1),
                    ("MINUTE", 2),
                    ("HOUR", 3),
                    ("DAY", 4),
                    ("WEEK", 7),
                    ("MONTH", 5),
                    ("YEAR", 6),
                ],
            }],
            ..plain(
                "RateLimit",
                &[
                    scalar("name", 3, Type::String),
                    scalar("requests_per_unit", 1, Type::Uint32),
                    enumeration("unit", 2, ".envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit"),
                ],
            )
        },
        Message {
            oneof: Some("expiration_specifier"),
            ..plain(
                "Quota",
                &[
                    scalar("requests", 1, Type::Uint32),
                    one_of(message("valid_until", 2, ".google.protobuf.Timestamp")),
                    scalar("id", 3, Type::String),
                ],
            )
        },
        plain(
            "DescriptorStatus",
            &[
                enumeration("code", 1, ".envoy.service.ratelimit.v3.RateLimitResponse.Code"),
                message("current_limit", 2, ".envoy.service.ratelimit.v3.RateLimitResponse.RateLimit"),
                scalar("limit_remaining", 3, Type::Uint32),
                message("duration_until_reset", 4, ".google.protobuf.Duration"),
                message("quota", 5, ".envoy.service.ratelimit.v3.RateLimitResponse.Quota"),
            ],
        ),
    ],
    enums: &[Enum { name: "Code", values: &[("UNKNOWN", 0), ("OK", 1), ("OVER_LIMIT", 2)] }],
    oneof: None,
    is_map_entry: false,
};
