//! Connections are kept; what breaks the protocol is an error that says so.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tollgate_client::{Client, Error};
use tollgate_core::Verdict;

use crate::support::ask;

type CannedBody = BoxBody<Bytes, std::convert::Infallible>;

/// A hyper server with ready-made answers, over HTTP/1.1 and HTTP/2, that counts its connections.
pub(crate) struct CannedServer {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    bodies: Arc<Mutex<Vec<Bytes>>>,
}

impl CannedServer {
    pub(crate) async fn start(
        answer: impl Fn(usize) -> Response<CannedBody> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, bodies) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (counted, kept, answer) = (Arc::clone(&connections), Arc::clone(&bodies), Arc::new(answer));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                let service = service_fn(move |request: Request<Incoming>| {
                    let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                    async move {
                        let body = request.into_body().collect().await?.to_bytes();
                        let number = {
                            let mut kept = kept.lock();
                            kept.push(body);
                            kept.len() - 1
                        };
                        Ok::<_, hyper::Error>(answer(number))
                    }
                });
                tokio::spawn(async move {
                    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    drop(builder.serve_connection(TokioIo::new(stream), service).await);
                });
            }
        });
        Self { address, connections, bodies }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn bodies(&self) -> Vec<Bytes> {
        self.bodies.lock().clone()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

pub(crate) fn answer(status: u16, body: &str) -> Response<CannedBody> {
    Response::builder().status(status).body(Full::from(body.to_owned()).boxed()).unwrap()
}

/// A message of gRPC and the status OK.
pub(crate) fn grpc_answer(message: &[u8]) -> Response<CannedBody> {
    let mut frame = vec![0];
    frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend(message);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", 0.into());
    let body = Full::from(frame).with_trailers(async move { Some(Ok(trailers)) });
    Response::builder().header("content-type", "application/grpc").body(body.boxed()).unwrap()
}

const ALLOW: &str = r#"{"verdict":"allow","decisions":[]}"#;

#[tokio::test]
async fn one_connection_serves_many_calls() {
    let server = CannedServer::start(|_| answer(200, ALLOW)).await;
    let client = Client::http(&server.url()).unwrap();
    for user in 0..20 {
        let user = user.to_string();
        let asked = ask("shop", &user, 1, async |request| client.clone().check(request).await);
        assert_eq!(asked.await.unwrap().verdict, Verdict::Allow);
    }
    assert_eq!((server.connections(), server.bodies().len()), (1, 20));
}

#[tokio::test]
async fn one_connection_serves_many_calls_of_grpc() {
    // overall_code: OK.
    let server = CannedServer::start(|_| grpc_answer(&[8, 1])).await;
    let client = Client::grpc(&server.url()).unwrap();
    for user in 0..20 {
        let user = user.to_string();
        let asked = ask("shop", &user, 1, async |request| client.check(request).await);
        assert_eq!(asked.await.unwrap().verdict, Verdict::Allow);
    }
    assert_eq!((server.connections(), server.bodies().len()), (1, 20));
}

#[tokio::test]
async fn what_is_no_answer_of_tollgate_is_said_to_be_none() {
    let bodies = ["", "hello", "{}", r#"{"verdict":"maybe","decisions":[]}"#];
    for body in bodies {
        let server = CannedServer::start(move |_| answer(200, body)).await;
        let client = Client::http(&server.url()).unwrap();
        let error = ask("shop", "42", 1, async |request| client.check(request).await).await.unwrap_err();
        assert!(matches!(error, Error::Garbled { .. }), "{body}: {error}");
        assert_eq!(server.bodies().len(), 1, "{body}: it may have been decided");
    }
    let messages: [&[u8]; 3] = [&[], &[8, 0], &[0xff]];
    for message in messages {
        let server = CannedServer::start(move |_| grpc_answer(message)).await;
        let client = Client::grpc(&server.url()).unwrap();
        let error = ask("shop", "42", 1, async |request| client.check(request).await).await.unwrap_err();
        assert!(matches!(error, Error::Garbled { .. }), "{message:?}: {error}");
    }
    let server = CannedServer::start(|_| answer(502, "bad gateway")).await;
    let client = Client::grpc(&server.url()).unwrap();
    let error = ask("shop", "42", 1, async |request| client.check(request).await).await.unwrap_err();
    assert!(error.to_string().contains("the status is 502 of HTTP"), "{error}");
}
