//! Traces by OTLP.

use std::path::PathBuf;
use std::time::Duration;

use crate::reader::Reader;
use crate::{OtlpProtocol, Secret, Tracing, go};

pub(super) fn read(reader: &mut Reader<'_>) -> Option<Tracing> {
    let is_on = reader.is_on("TRACING_ENABLED");
    let protocol =
        reader.parsed("TRACING_EXPORTER_PROTOCOL", |text| match text.to_ascii_lowercase().as_str() {
            "http" => Ok(OtlpProtocol::Http),
            "grpc" => Ok(OtlpProtocol::Grpc),
            _ => Err(format!("'{text}' is not a protocol for traces; write http or grpc")),
        });
    let general = reader.text("OTEL_EXPORTER_OTLP_ENDPOINT");
    let own = reader.text("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    let headers = [
        reader.pairs("OTEL_EXPORTER_OTLP_TRACES_HEADERS", &['=']),
        reader.pairs("OTEL_EXPORTER_OTLP_HEADERS", &['=']),
    ];
    let headers = headers.into_iter().find(|headers| !headers.is_empty()).unwrap_or_default();
    let tracing = Tracing {
        protocol: protocol.unwrap_or(OtlpProtocol::Http),
        endpoint_is_exact: own.is_some(),
        endpoint: own.or(general),
        headers: headers.into_iter().map(|(name, value)| (name, Secret::new(value))).collect(),
        timeout: timeout(reader),
        ca: certificate(reader),
        service_name: reader.text("TRACING_SERVICE_NAME").unwrap_or_else(|| "RateLimit".to_owned()),
        service_namespace: reader.text("TRACING_SERVICE_NAMESPACE").unwrap_or_default(),
        service_instance_id: reader.text("TRACING_SERVICE_INSTANCE_ID"),
        sampling_rate: reader.parsed("TRACING_SAMPLING_RATE", go::ratio).unwrap_or(1.0),
    };
    is_on.then_some(tracing)
}

fn timeout(reader: &mut Reader<'_>) -> Duration {
    let general = reader.parsed("OTEL_EXPORTER_OTLP_TIMEOUT", go::number);
    let own = reader.parsed("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", go::number);
    Duration::from_millis(own.or(general).unwrap_or(10_000))
}

fn certificate(reader: &mut Reader<'_>) -> Option<PathBuf> {
    let general = reader.path("OTEL_EXPORTER_OTLP_CERTIFICATE");
    reader.path("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE").or(general)
}
