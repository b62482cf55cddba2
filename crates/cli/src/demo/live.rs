//! Sends what the callers of the demo send, second by second, through the gateway to the toy upstream.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::RETRY_AFTER;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tollgate_limiter::{Clock as _, SystemClock};

use super::callers::{DemoCall, DemoCallers};

/// No call is worth a longer wait; the gateway may hold one for a few seconds.
const CALL_MAX: Duration = Duration::from_secs(8);
/// Calls that wait at a time; a server that is too slow for more gets no more.
const WAITING_MAX: usize = 200;

type HttpClient = Client<HttpConnector, Empty<Bytes>>;

/// Calls the gateway until this is dropped with its runtime.
pub(super) async fn run(gateway: SocketAddr) {
    let client: HttpClient = Client::builder(TokioExecutor::new()).build_http();
    let clock = SystemClock::new();
    let mut callers = DemoCallers::default();
    let mut waiting = JoinSet::new();
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    loop {
        ticks.tick().await;
        while waiting.try_join_next().is_some() {}
        let second = clock.now().get() / 1_000_000;
        for call in callers.calls(second) {
            if call.backs_off() {
                let retry_after = send(client.clone(), gateway, call.clone()).await;
                callers.told(&call, second, retry_after);
            } else if waiting.len() < WAITING_MAX {
                waiting.spawn(send(client.clone(), gateway, call));
            }
        }
    }
}

/// Sends a call; how long to wait if it is denied.
async fn send(client: HttpClient, gateway: SocketAddr, call: DemoCall) -> Option<u64> {
    let mut request = Request::get(format!("http://{gateway}{}", call.path));
    request = request.header("x-forwarded-for", &call.address);
    if let Some((header, _, value)) = call.identity() {
        request = request.header(header, value);
    }
    let answered = async {
        let response = client.request(request.body(Empty::new()).ok()?).await.ok()?;
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|own| own.to_str().ok()?.parse().ok());
        // The rest is read, so that the connection can be used again.
        drop(response.into_body().collect().await);
        retry_after
    };
    tokio::time::timeout(CALL_MAX, answered).await.ok().flatten()
}

/// The toy upstream: it answers everything, until this is dropped with its runtime.
pub(super) async fn upstream(listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let served = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service_fn(answer));
        tokio::spawn(async move { drop(served.await) });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path();
    let mut response = Response::new(Full::from(format!("the shop's {path}\n")));
    if path == "/login" {
        *response.status_mut() = StatusCode::UNAUTHORIZED;
    }
    Ok(response)
}
