//! The settings of traces.

use std::path::PathBuf;

use crate::go_syntax::{number, ratio, truth};
use crate::raw_value::{equals_pairs, path, text};
use crate::row::SettingParser::{Value, Word};
use crate::row::{OptionalSetting, Setting, SettingSection, variable};
use crate::values::{self, OtlpProtocol};

section! {
    TRACES, "Traces", "";

    /// Send traces by OTLP.
    TRACING_ENABLED: Setting<bool> = variable("TRACING_ENABLED")
        .key("tracing.enabled").default("false", Word(truth));
    /// `http` or `grpc`.
    TRACING_EXPORTER_PROTOCOL: Setting<OtlpProtocol> = variable("TRACING_EXPORTER_PROTOCOL")
        .key("tracing.protocol").default("http", Word(values::otlp_protocol));
    /// `service.name`.
    TRACING_SERVICE_NAME: Setting<String> =
        variable("TRACING_SERVICE_NAME").key("tracing.service_name").default("RateLimit", Value(text));
    /// `service.namespace`.
    TRACING_SERVICE_NAMESPACE: Setting<String> =
        variable("TRACING_SERVICE_NAMESPACE").key("tracing.service_namespace").default("", Value(text));
    /// `service.instance.id`; random if not set.
    TRACING_SERVICE_INSTANCE_ID: OptionalSetting<String> =
        variable("TRACING_SERVICE_INSTANCE_ID").key("tracing.service_instance_id").optional(Value(text));
    /// Which part of requests is traced.
    TRACING_SAMPLING_RATE: Setting<f64> =
        variable("TRACING_SAMPLING_RATE").key("tracing.sampling_rate").default("1", Word(ratio));
    /// The collector; `/v1/traces` is added for `http`.
    OTEL_EXPORTER_OTLP_ENDPOINT: OptionalSetting<String> =
        variable("OTEL_EXPORTER_OTLP_ENDPOINT").key("tracing.endpoint").optional(Value(text));
    /// The collector for traces, taken as written.
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: OptionalSetting<String> =
        variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").optional(Value(text));
    /// Headers of exports, as `k=v,k=v`.
    OTEL_EXPORTER_OTLP_HEADERS: Setting<Vec<(String, String)>> =
        variable("OTEL_EXPORTER_OTLP_HEADERS").secret().default("", Value(equals_pairs));
    /// The same for traces, instead of those.
    OTEL_EXPORTER_OTLP_TRACES_HEADERS: Setting<Vec<(String, String)>> =
        variable("OTEL_EXPORTER_OTLP_TRACES_HEADERS").secret().default("", Value(equals_pairs));
    /// How long an export may take, in milliseconds.
    OTEL_EXPORTER_OTLP_TIMEOUT: Setting<u64> =
        variable("OTEL_EXPORTER_OTLP_TIMEOUT").key("tracing.timeout_ms").default("10000", Word(number));
    /// The same for traces, instead of that.
    OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: OptionalSetting<u64> =
        variable("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT").optional(Word(number));
    /// Certificates to accept.
    OTEL_EXPORTER_OTLP_CERTIFICATE: OptionalSetting<PathBuf> =
        variable("OTEL_EXPORTER_OTLP_CERTIFICATE").key("tracing.ca").optional(Value(path));
    /// The same for traces, instead of those.
    OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE: OptionalSetting<PathBuf> =
        variable("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE").optional(Value(path));
}
