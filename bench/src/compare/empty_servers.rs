//! gRPC servers that answer every `ShouldRateLimit` with OK: what a call costs before any limiting.
//!
//! One on tonic, as most Rust services are built, and one on the bare `h2` crate. Both run on as many
//! threads as there are cores. The programs are `bench/src/bin/empty-tonic.rs` and `empty-h2.rs`.

use std::future::Future;
use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tonic::transport::Server;

/// The message `overall_code: OK` behind the five bytes that gRPC puts before each message.
const OK: &[u8] = &[0, 0, 0, 0, 2, 8, 1];
/// Streams at a time on one connection: as many as the load generator may ever have in flight.
const STREAMS_MAX: u32 = 1_000;
/// Requests are small, and their senders never wait for a window.
const WINDOW: u32 = 1 << 24;

struct AlwaysOk;

#[tonic::async_trait]
impl RateLimitService for AlwaysOk {
    async fn should_rate_limit(
        &self,
        _request: tonic::Request<RateLimitRequest>,
    ) -> Result<tonic::Response<RateLimitResponse>, tonic::Status> {
        let overall_code = Code::Ok.into();
        Ok(tonic::Response::new(RateLimitResponse { overall_code, ..RateLimitResponse::default() }))
    }
}

/// Serves on tonic until it is killed.
///
/// # Errors
/// If nothing can listen there.
pub fn tonic(address: &str) -> Result<()> {
    let address = parsed(address)?;
    serve(async move {
        let service = RateLimitServiceServer::new(AlwaysOk);
        Server::builder().add_service(service).serve(address).await.context("cannot serve")
    })
}

/// Serves on h2 until it is killed.
///
/// # Errors
/// If nothing can listen there.
pub fn h2(address: &str) -> Result<()> {
    let address = parsed(address)?;
    serve(async move {
        let listener = TcpListener::bind(address).await.context("cannot listen")?;
        loop {
            let (socket, _) = listener.accept().await.context("cannot accept")?;
            socket.set_nodelay(true)?;
            tokio::spawn(async move {
                // A caller that goes away is no error here.
                drop(connection(socket).await);
            });
        }
    })
}

fn parsed(address: &str) -> Result<SocketAddr> {
    address.parse().with_context(|| format!("'{address}' is no address"))
}

fn serve(server: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(server)
}

async fn connection(socket: TcpStream) -> Result<(), h2::Error> {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(STREAMS_MAX).initial_connection_window_size(WINDOW);
    let mut connection = builder.handshake(socket).await?;
    while let Some(call) = connection.accept().await {
        let (request, respond) = call?;
        tokio::spawn(async move {
            // A call that the caller gives up is no error here.
            drop(answer(request, respond).await);
        });
    }
    Ok(())
}

async fn answer(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) -> Result<(), h2::Error> {
    let mut body = request.into_body();
    while let Some(data) = body.data().await {
        body.flow_control().release_capacity(data?.len())?;
    }
    let response = Response::builder().header("content-type", "application/grpc").body(());
    let response = response.map_err(|_| h2::Error::from(Reason::INTERNAL_ERROR))?;
    let mut stream = respond.send_response(response, false)?;
    stream.send_data(Bytes::from_static(OK), false)?;
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    stream.send_trailers(trailers)
}
