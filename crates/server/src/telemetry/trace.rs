//! Spans for a collector, by OTLP over HTTP or gRPC.
//!
//! An adapter asks a [`Tracer`] for a [`CallSpan`] when a call comes in, and
//! drops it when the answer is there. Spans are kept in a bounded queue and
//! sent together by a thread of the SDK; what does not fit is dropped.
//!
//! Invariants: a [`Tracer`] that is off costs a comparison; no call waits for
//! a collector.
//!
//! Deliberately not here: spans for each step of a decision, which takes less
//! time than a span does.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry::KeyValue;
use opentelemetry::trace::{Span as _, SpanKind, Tracer as _, TracerProvider as _};
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_otlp::{WithExportConfig as _, WithHttpConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, Span, SpanData, SpanExporter};
use tokio::runtime::Handle;
use tokio_rustls::rustls;
use tollgate_core::Outcome;
use tollgate_settings::{OtlpProtocol, TracingSettings};
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

use super::propagation;

/// The name of the span around a call of Envoy's, as the reference has it.
pub const SHOULD_RATE_LIMIT: &str = "ShouldRateLimit Execution";
/// How long sending the last spans may take when the process ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Why traces cannot be sent as asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The endpoint, a header or the like is not what it should be.
    #[error(
        "traces cannot be sent to '{endpoint}': {problem}; check OTEL_EXPORTER_OTLP_ENDPOINT and its kind"
    )]
    Exporter {
        /// Where to.
        endpoint: String,
        /// What is wrong.
        problem: String,
    },
    /// The file of certificates cannot be used.
    #[error("cannot use the certificates in '{path}' for traces: {problem}")]
    Certificates {
        /// Which file.
        path: String,
        /// What is wrong.
        problem: String,
    },
}

/// Makes spans, or is off.
#[derive(Debug, Clone, Default)]
pub struct Tracer(Option<Arc<SpanPipeline>>);

#[derive(Debug)]
struct SpanPipeline {
    tracer: SdkTracer,
    provider: SdkTracerProvider,
}

/// A call that is going on; it ends when this is dropped. Most have no span, and
/// should not be larger for those that do.
#[derive(Debug, Default)]
pub struct CallSpan(Option<Box<Span>>);

impl Tracer {
    /// Makes no spans.
    pub fn off() -> Self {
        Self(None)
    }

    /// Sends spans where `tracing` says, by tasks of the runtime that this is
    /// called in; off if it is none.
    ///
    /// # Errors
    /// If the endpoint or the certificates are not what they should be. A
    /// collector that is away is no error.
    pub fn new(tracing: Option<&TracingSettings>) -> Result<Self, TraceError> {
        let Some(tracing) = tracing else { return Ok(Self::off()) };
        let exporter = match tracing.protocol {
            OtlpProtocol::Http => over_http(tracing)?,
            OtlpProtocol::Grpc => over_grpc(tracing)?,
        };
        let exporter = RuntimeExporter {
            exporter: Arc::new(exporter),
            handle: Handle::current(),
            endpoint: endpoint(tracing),
            is_outage_logged: AtomicBool::new(false),
        };
        let begun_here = Sampler::TraceIdRatioBased(tracing.sampling_rate);
        let provider = SdkTracerProvider::builder()
            .with_resource(resource(tracing))
            .with_sampler(Sampler::ParentBased(Box::new(begun_here)))
            .with_batch_exporter(exporter)
            .build();
        Ok(Self(Some(Arc::new(SpanPipeline { tracer: provider.tracer("tollgate"), provider }))))
    }

    /// Whether spans are made at all.
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// A call has come in with these headers, whose names are in lower case.
    pub fn call<'h>(&self, name: &'static str, header: impl Fn(&str) -> Option<&'h str>) -> CallSpan {
        let Some(pipeline) = &self.0 else { return CallSpan(None) };
        let parent = propagation::context(header);
        let builder = pipeline.tracer.span_builder(name).with_kind(SpanKind::Server);
        CallSpan(Some(Box::new(builder.start_with_context(&pipeline.tracer, &parent))))
    }

    /// Sends what is left, for a few seconds at most. No spans after this.
    pub async fn shutdown(&self) {
        let Some(pipeline) = self.0.clone() else { return };
        // The SDK waits for its thread, which waits for this runtime.
        let last =
            tokio::task::spawn_blocking(move || pipeline.provider.shutdown_with_timeout(SHUTDOWN_TIMEOUT));
        if let Ok(Err(error)) = last.await {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}

impl CallSpan {
    /// The call was decided; in no domain if its caller brought the limit.
    pub fn decided(&mut self, domain: Option<&str>, outcome: Outcome) {
        if let Some(span) = &mut self.0 {
            if let Some(domain) = domain {
                span.set_attribute(KeyValue::new("tollgate.domain", domain.to_owned()));
            }
            span.set_attribute(KeyValue::new("tollgate.outcome", outcome.name()));
        }
    }

    /// The call got an error and no answer.
    pub fn failed(&mut self, problem: &str) {
        if let Some(span) = &mut self.0 {
            span.set_status(opentelemetry::trace::Status::error(problem.to_owned()));
        }
    }
}

fn resource(tracing: &TracingSettings) -> Resource {
    let instance = tracing.service_instance_id.clone().unwrap_or_else(random_id);
    let mut resource = Resource::builder()
        .with_service_name(tracing.service_name.clone())
        .with_attribute(KeyValue::new("service.instance.id", instance));
    if !tracing.service_namespace.is_empty() {
        let namespace = KeyValue::new("service.namespace", tracing.service_namespace.clone());
        resource = resource.with_attribute(namespace);
    }
    resource.build()
}

/// A random UUID.
fn random_id() -> String {
    let (high, low) = (fastrand::u64(..), fastrand::u64(..));
    let (version, variant) = ((high & 0x0fff) | 0x4000, ((low >> 48) & 0x3fff) | 0x8000);
    let node = low & 0xffff_ffff_ffff;
    format!("{:08x}-{:04x}-{version:04x}-{variant:04x}-{node:012x}", high >> 32, (high >> 16) & 0xffff)
}

fn endpoint(tracing: &TracingSettings) -> String {
    let default = match tracing.protocol {
        OtlpProtocol::Http => "http://localhost:4318",
        OtlpProtocol::Grpc => "http://localhost:4317",
    };
    let written = tracing.endpoint.as_deref().unwrap_or(default);
    // `collector:4317` is usual for gRPC, and means no encryption.
    let with_scheme = if written.contains("://") { written.to_owned() } else { format!("http://{written}") };
    let is_exact = tracing.endpoint.is_some() && tracing.endpoint_is_exact;
    match tracing.protocol {
        OtlpProtocol::Http if !is_exact => format!("{}/v1/traces", with_scheme.trim_end_matches('/')),
        OtlpProtocol::Http | OtlpProtocol::Grpc => with_scheme,
    }
}

fn over_http(tracing: &TracingSettings) -> Result<opentelemetry_otlp::SpanExporter, TraceError> {
    let headers: HashMap<String, String> =
        tracing.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect();
    let client = HyperClient::new(connector(tracing)?, tracing.timeout, None);
    opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
        .with_endpoint(endpoint(tracing))
        .with_timeout(tracing.timeout)
        .with_headers(headers)
        .build()
        .map_err(|error| wrong(tracing, &error))
}

fn over_grpc(tracing: &TracingSettings) -> Result<opentelemetry_otlp::SpanExporter, TraceError> {
    let to = endpoint(tracing);
    let mut channel = Endpoint::from_shared(to.clone()).map_err(|error| wrong(tracing, &error))?;
    if to.starts_with("https://") {
        let tls = match certificates(tracing)? {
            Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        channel = channel.tls_config(tls).map_err(|error| wrong(tracing, &error))?;
    }
    let mut metadata = MetadataMap::new();
    for (name, value) in &tracing.headers {
        let name: AsciiMetadataKey =
            name.to_ascii_lowercase().parse().map_err(|error| wrong(tracing, &error))?;
        let value = AsciiMetadataValue::try_from(value.expose()).map_err(|error| wrong(tracing, &error))?;
        metadata.insert(name, value);
    }
    opentelemetry_otlp::SpanExporter::builder()
        .with_tonic()
        .with_channel(channel.timeout(tracing.timeout).connect_timeout(tracing.timeout).connect_lazy())
        .with_timeout(tracing.timeout)
        .with_metadata(metadata)
        .build()
        .map_err(|error| wrong(tracing, &error))
}

fn wrong(tracing: &TracingSettings, problem: &dyn std::fmt::Display) -> TraceError {
    TraceError::Exporter { endpoint: endpoint(tracing), problem: problem.to_string() }
}

/// Plain or encrypted, as the endpoint says.
fn connector(tracing: &TracingSettings) -> Result<HttpsConnector<HttpConnector>, TraceError> {
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let builder = HttpsConnectorBuilder::new();
    let builder = match certificates(tracing)? {
        Some(pem) => {
            let config = rustls::ClientConfig::builder_with_provider(ring)
                .with_safe_default_protocol_versions()
                .map_err(|error| wrong(tracing, &error))?
                .with_root_certificates(roots(tracing, &pem)?)
                .with_no_client_auth();
            builder.with_tls_config(config)
        }
        None => builder.with_provider_and_native_roots(ring).map_err(|error| wrong(tracing, &error))?,
    };
    Ok(builder.https_or_http().enable_http1().build())
}

/// The certificates to accept besides the machine's, as PEM.
fn certificates(tracing: &TracingSettings) -> Result<Option<Vec<u8>>, TraceError> {
    let Some(path) = &tracing.ca else { return Ok(None) };
    let unreadable = |error: std::io::Error| TraceError::Certificates {
        path: path.display().to_string(),
        problem: error.to_string(),
    };
    std::fs::read(path).map(Some).map_err(unreadable)
}

fn roots(tracing: &TracingSettings, pem: &[u8]) -> Result<rustls::RootCertStore, TraceError> {
    let path = tracing.ca.as_deref().map_or_else(String::new, |path| path.display().to_string());
    let unusable = |problem: String| TraceError::Certificates { path: path.clone(), problem };
    let mut roots = rustls::RootCertStore::empty();
    for certificate in tollgate_redis::certificates_from_pem(pem).map_err(unusable)? {
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    Ok(roots)
}

/// Sends on a runtime what a thread of the SDK hands over, which has none.
#[derive(Debug)]
struct RuntimeExporter<E> {
    exporter: Arc<E>,
    handle: Handle,
    endpoint: String,
    is_outage_logged: AtomicBool,
}

impl<E: SpanExporter + 'static> SpanExporter for RuntimeExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let exporter = Arc::clone(&self.exporter);
        let sent = self.handle.spawn(async move { exporter.export(batch).await }).await;
        let sent = sent.unwrap_or_else(|error| Err(OTelSdkError::InternalFailure(error.to_string())));
        match &sent {
            Ok(()) => {
                if self.is_outage_logged.swap(false, Ordering::Relaxed) {
                    tracing::info!(endpoint = self.endpoint, "the collector takes traces again");
                }
            }
            Err(error) => {
                if !self.is_outage_logged.swap(true, Ordering::Relaxed) {
                    tracing::warn!(endpoint = self.endpoint, %error, "the collector takes no traces; they are dropped");
                }
            }
        }
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        if let Some(exporter) = Arc::get_mut(&mut self.exporter) {
            exporter.set_resource(resource);
        }
    }
}

#[cfg(test)]
mod tests;
