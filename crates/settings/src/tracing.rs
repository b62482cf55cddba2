//! Traces by OTLP.

use std::path::PathBuf;
use std::time::Duration;

use tollgate_core::Secret;

use crate::rows;
use crate::settings_reader::SettingsReader;
use crate::values::OtlpProtocol;

/// Traces by OTLP.
#[derive(Debug, Clone)]
pub struct TracingSettings {
    /// How they travel.
    pub protocol: OtlpProtocol,
    /// Where to; none for the protocol's default on localhost.
    pub endpoint: Option<String>,
    /// Whether the endpoint is for traces alone and taken as written; `/v1/traces` is added otherwise.
    pub endpoint_is_exact: bool,
    /// Headers of every export; they may hold credentials.
    pub headers: Vec<(String, Secret)>,
    /// How long an export may take.
    pub timeout: Duration,
    /// Certificates to accept, if set.
    pub ca: Option<PathBuf>,
    /// `service.name`.
    pub service_name: String,
    /// `service.namespace`; empty if none.
    pub service_namespace: String,
    /// `service.instance.id`; none for a random one.
    pub service_instance_id: Option<String>,
    /// Which part of requests is traced, from 0 to 1.
    pub sampling_rate: f64,
}

/// All is read, so that a mistake is told even while tracing is off.
pub(crate) fn read(reader: &mut SettingsReader<'_>) -> Option<TracingSettings> {
    let is_on = reader.get(&rows::TRACING_ENABLED);
    let general = reader.find(&rows::OTEL_EXPORTER_OTLP_ENDPOINT);
    let own = reader.find(&rows::OTEL_EXPORTER_OTLP_TRACES_ENDPOINT);
    let timeout_ms = reader.get(&rows::OTEL_EXPORTER_OTLP_TIMEOUT);
    let own_timeout_ms = reader.find(&rows::OTEL_EXPORTER_OTLP_TRACES_TIMEOUT);
    let ca = reader.find(&rows::OTEL_EXPORTER_OTLP_CERTIFICATE);
    let own_ca = reader.find(&rows::OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE);
    let headers =
        [reader.get(&rows::OTEL_EXPORTER_OTLP_TRACES_HEADERS), reader.get(&rows::OTEL_EXPORTER_OTLP_HEADERS)];
    let headers = headers.into_iter().find(|headers| !headers.is_empty()).unwrap_or_default();
    let settings = TracingSettings {
        protocol: reader.get(&rows::TRACING_EXPORTER_PROTOCOL),
        endpoint_is_exact: own.is_some(),
        endpoint: own.or(general),
        headers: headers.into_iter().map(|(name, value)| (name, Secret::new(value))).collect(),
        timeout: Duration::from_millis(own_timeout_ms.unwrap_or(timeout_ms)),
        ca: own_ca.or(ca),
        service_name: reader.get(&rows::TRACING_SERVICE_NAME),
        service_namespace: reader.get(&rows::TRACING_SERVICE_NAMESPACE),
        service_instance_id: reader.find(&rows::TRACING_SERVICE_INSTANCE_ID),
        sampling_rate: reader.get(&rows::TRACING_SAMPLING_RATE),
    };
    is_on.then_some(settings)
}
