//! How logs and traces look and where they go, as the settings fill it in.
//!
//! Deliberately not here: names of environment variables, and their defaults
//! where the `OpenTelemetry` SDK reads them itself (`OTEL_EXPORTER_OTLP_…`).

/// How much is logged: from this level on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Level {
    /// Everything.
    Trace,
    /// What helps to find a mistake.
    Debug,
    /// What happens.
    Info,
    /// What should not happen; the reference's default.
    #[default]
    Warn,
    /// What went wrong. The reference's `fatal` and `panic` are this too.
    Error,
}

impl Level {
    /// The level of that name, in capital letters or not, as `LOG_LEVEL` has it.
    pub fn from_name(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "trace" => Some(Self::Trace),
            "debug" => Some(Self::Debug),
            "info" => Some(Self::Info),
            "warn" | "warning" => Some(Self::Warn),
            "error" | "fatal" | "panic" => Some(Self::Error),
            _ => None,
        }
    }
}

/// What a line of the log looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line, with `@timestamp`, `@message` and `level`.
    Json,
}

/// How logs look (`LOG_LEVEL`, `LOG_FORMAT`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogConfig {
    /// From this level on.
    pub level: Level,
    /// What a line looks like.
    pub format: Format,
}

/// How spans are sent (`TRACING_EXPORTER_PROTOCOL`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TraceProtocol {
    /// OTLP over HTTP, in protobuf; port 4318.
    #[default]
    Http,
    /// OTLP over gRPC; port 4317.
    Grpc,
}

/// Where traces go (`TRACING_…`).
#[derive(Debug, Clone, PartialEq)]
pub struct TraceConfig {
    /// How spans are sent.
    pub protocol: TraceProtocol,
    /// The collector, as `http://host:port`; none leaves it to
    /// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, `OTEL_EXPORTER_OTLP_ENDPOINT` or
    /// this machine.
    pub endpoint: Option<String>,
    /// `service.name` of the resource.
    pub service_name: String,
    /// `service.namespace` of the resource; left out if empty.
    pub service_namespace: String,
    /// `service.instance.id` of the resource; made up if empty.
    pub service_instance_id: String,
    /// Which share of the traces that begin here is kept, from 0 to 1. A trace
    /// that began elsewhere is kept if it was kept there.
    pub sampling_rate: f64,
}

impl Default for TraceConfig {
    fn default() -> Self {
        Self {
            protocol: TraceProtocol::Http,
            endpoint: None,
            service_name: "RateLimit".to_owned(),
            service_namespace: String::new(),
            service_instance_id: String::new(),
            sampling_rate: 1.0,
        }
    }
}
