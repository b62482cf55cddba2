//! Tests with a collector of our own at the other end of a real connection.

use std::convert::Infallible;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::trace::v1::Span as SentSpan;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tollgate_settings::Secret;

use super::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// What a collector got: the path or method, a header, and the spans.
struct Got {
    path: String,
    token: String,
    request: ExportTraceServiceRequest,
}

impl Got {
    fn span(&self) -> &SentSpan {
        &self.request.resource_spans[0].scope_spans[0].spans[0]
    }

    fn resource(&self, key: &str) -> Option<String> {
        let resource = self.request.resource_spans[0].resource.as_ref()?;
        let found = resource.attributes.iter().find(|attribute| attribute.key == key)?;
        Some(format!("{:?}", found.value.as_ref()?.value.as_ref()?))
    }
}

fn tracing_to(protocol: OtlpProtocol, endpoint: String) -> TracingSettings {
    TracingSettings {
        protocol,
        endpoint: Some(endpoint),
        endpoint_is_exact: false,
        headers: vec![("x-token".to_owned(), Secret::new("hunter2"))],
        timeout: Duration::from_secs(10),
        ca: None,
        service_name: "RateLimit".to_owned(),
        service_namespace: "edge".to_owned(),
        service_instance_id: None,
        sampling_rate: 1.0,
    }
}

async fn over_http_collector() -> (String, UnboundedReceiver<Got>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (tell, got) = unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let tell = tell.clone();
            let service = service_fn(move |request| take(request, tell.clone()));
            let http = hyper::server::conn::http1::Builder::new();
            tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
        }
    });
    (endpoint, got)
}

async fn take(
    request: hyper::Request<Incoming>,
    tell: UnboundedSender<Got>,
) -> Result<hyper::Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let token = request.headers()["x-token"].to_str().unwrap().to_owned();
    assert_eq!(request.headers()["content-type"], "application/x-protobuf");
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    tell.send(Got { path, token, request }).unwrap();
    Ok(hyper::Response::new(Full::default()))
}

struct Collector(UnboundedSender<Got>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        let token = request.metadata().get("x-token").unwrap().to_str().unwrap().to_owned();
        self.0.send(Got { path: String::new(), token, request: request.into_inner() }).unwrap();
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

async fn over_grpc_collector() -> (String, UnboundedReceiver<Got>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (tell, got) = unbounded_channel();
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    let server = tonic::transport::Server::builder().add_service(TraceServiceServer::new(Collector(tell)));
    tokio::spawn(server.serve_with_incoming(incoming));
    (endpoint, got)
}

async fn one_call(tracing: &TracingSettings) {
    let tracer = Tracer::new(Some(tracing)).unwrap();
    assert!(tracer.is_on());
    let parent = format!("00-{TRACE}-{SPAN}-01");
    let mut call = tracer.call(SHOULD_RATE_LIMIT, |name| (name == "traceparent").then_some(parent.as_str()));
    call.decided(Some("shop"), Outcome::Denied);
    drop(call);
    tracer.shutdown().await;
}

fn check(got: &Got) {
    let span = got.span();
    assert_eq!(span.name, "ShouldRateLimit Execution");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.to_owned(), SPAN.to_owned()));
    let attributes: Vec<&str> = span.attributes.iter().map(|attribute| attribute.key.as_str()).collect();
    assert_eq!(attributes, ["tollgate.domain", "tollgate.outcome"]);
    assert_eq!(got.token, "hunter2");
    assert_eq!(got.resource("service.name").as_deref(), Some(r#"StringValue("RateLimit")"#));
    assert_eq!(got.resource("service.namespace").as_deref(), Some(r#"StringValue("edge")"#));
    assert!(got.resource("service.instance.id").is_some());
}

#[tokio::test]
async fn a_span_with_its_parent_arrives_over_http() {
    let (endpoint, mut got) = over_http_collector().await;
    one_call(&tracing_to(OtlpProtocol::Http, endpoint.clone())).await;
    let first = got.recv().await.unwrap();
    check(&first);
    assert_eq!(first.path, "/v1/traces");
    let exact = TracingSettings {
        endpoint_is_exact: true,
        ..tracing_to(OtlpProtocol::Http, format!("{endpoint}/of/my/own"))
    };
    one_call(&exact).await;
    assert_eq!(got.recv().await.unwrap().path, "/of/my/own");
}

#[tokio::test]
async fn a_span_with_its_parent_arrives_over_grpc() {
    let (endpoint, mut got) = over_grpc_collector().await;
    one_call(&tracing_to(OtlpProtocol::Grpc, endpoint)).await;
    check(&got.recv().await.unwrap());
}

#[tokio::test]
async fn a_call_that_nobody_sampled_is_not_sent() {
    let (endpoint, mut got) = over_http_collector().await;
    let tracing = TracingSettings { sampling_rate: 0.0, ..tracing_to(OtlpProtocol::Http, endpoint) };
    let tracer = Tracer::new(Some(&tracing)).unwrap();
    drop(tracer.call(SHOULD_RATE_LIMIT, |_| None));
    let parent = format!("{TRACE}-{SPAN}-1");
    drop(tracer.call(SHOULD_RATE_LIMIT, |name| (name == "b3").then_some(parent.as_str())));
    tracer.shutdown().await;
    let sent = got.recv().await.unwrap().request;
    let spans = sent.resource_spans.iter().flat_map(|of| &of.scope_spans).flat_map(|of| &of.spans);
    assert_eq!(spans.count(), 1, "only the one whose parent was sampled");
}

#[tokio::test]
async fn a_collector_that_is_away_stops_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    for protocol in [OtlpProtocol::Http, OtlpProtocol::Grpc] {
        one_call(&tracing_to(protocol, endpoint.clone())).await;
    }
}

#[tokio::test]
async fn what_cannot_work_is_told_at_the_start() {
    let told = |tracing: &TracingSettings| Tracer::new(Some(tracing)).unwrap_err().to_string();
    for protocol in [OtlpProtocol::Http, OtlpProtocol::Grpc] {
        let error = told(&tracing_to(protocol, "not a url".to_owned()));
        assert!(error.contains("not a url") && error.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let https = tracing_to(protocol, "https://127.0.0.1:1".to_owned());
        let absent = TracingSettings { ca: Some(folder.path().join("absent.pem")), ..https };
        assert!(told(&absent).contains("absent.pem"));
    }
}

#[test]
fn an_endpoint_is_completed() {
    let of = |protocol, endpoint: Option<&str>| {
        let tracing = tracing_to(protocol, String::new());
        super::endpoint(&TracingSettings { endpoint: endpoint.map(str::to_owned), ..tracing })
    };
    assert_eq!(of(OtlpProtocol::Http, None), "http://localhost:4318/v1/traces");
    assert_eq!(of(OtlpProtocol::Grpc, None), "http://localhost:4317");
    assert_eq!(of(OtlpProtocol::Http, Some("https://c:1/")), "https://c:1/v1/traces");
    assert_eq!(of(OtlpProtocol::Grpc, Some("collector:4317")), "http://collector:4317");
}

#[test]
fn off_makes_no_spans() {
    let tracer = Tracer::new(None).unwrap();
    assert!(!tracer.is_on());
    let mut call = tracer.call(SHOULD_RATE_LIMIT, |_| panic!("no header is looked at"));
    call.decided(Some("shop"), Outcome::Allowed);
    call.failed("nothing");
    assert!(call.0.is_none());
}

#[test]
fn a_made_up_instance_has_the_form_of_a_uuid() {
    let (one, other) = (random_id(), random_id());
    assert_ne!(one, other);
    let lengths: Vec<usize> = one.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12]);
    assert_eq!(one.as_bytes()[14], b'4');
}
