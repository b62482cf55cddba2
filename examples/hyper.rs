//! Failed logins limited around a hyper server, counted in this process or on Redis.
//!
//! `cargo run -p tollgate-tower --example hyper`, or with `-- redis://127.0.0.1:6379` at its end for
//! several such servers that share their counters. Then
//! `curl -i -H 'authorization: wrong' http://127.0.0.1:3000/login` until it is 429.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tollgate_http::{
    Action, AddressPrefixes, ChargeTerms, Fact, Mapping, MappingDescriptor, ResponseCost, StatusSet,
};
use tollgate_limiter::{Limiter, MemoryStore, NoSink, Store, SystemClock};
use tollgate_redis::{RedisConfig, RedisStore};
use tollgate_rules::SourceFile;
use tollgate_tower::{PeerAddress, TollgateLayer};
use tower::{Layer as _, ServiceExt as _, service_fn};

const RULES: &str = "
domain: login
descriptors:
  - key: remote_address
    rate_limit: { name: failed logins, requests_per_unit: 2, unit: minute, algorithm: sliding_log }
";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Whoever knows the password is let in.
async fn login(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_right = request.headers().get("authorization").is_some_and(|password| password == "secret");
    let (status, text) = match is_right {
        true => (StatusCode::OK, "welcome\n"),
        false => (StatusCode::UNAUTHORIZED, "wrong password\n"),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    Ok(response)
}

fn layer<S>(store: S) -> Result<TollgateLayer<S>, BoxError> {
    let source = SourceFile { name: "login.yaml".into(), text: RULES.into() };
    let loaded = tollgate_rules::load(vec![source], &tollgate_rules::Options::default())?;
    let limiter = Limiter::with(loaded.rules, store, SystemClock::new(), NoSink);
    let by_address = Action::new("remote_address", Fact::RemoteAddress(AddressPrefixes::default()));
    let failed =
        ChargeTerms::OnResponse { status: Some(StatusSet::parse(&["401"])?), cost: ResponseCost::One };
    let mapping = Mapping::new("login", vec![MappingDescriptor::new(vec![by_address], failed)])?;
    Ok(TollgateLayer::new(Arc::new(limiter), mapping))
}

async fn serve<S>(listener: TcpListener, layer: TollgateLayer<S>) -> Result<(), BoxError>
where
    S: Store + Send + Sync + 'static,
{
    let limited = layer.layer(service_fn(login));
    loop {
        let (stream, peer) = listener.accept().await?;
        let limited = limited.clone();
        let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(PeerAddress(peer.ip()));
            limited.clone().oneshot(request)
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    match std::env::args().nth(1) {
        None => serve(listener, layer(MemoryStore::default())?).await,
        Some(url) => serve(listener, layer(RedisStore::new(RedisConfig::new(url.parse()?))?)?).await,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tollgate_testkit::redis::RedisServer;

    use super::*;

    async fn start<S: Store + Send + Sync + 'static>(store: S) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, layer(store).unwrap()));
        address
    }

    /// The status of an attempt.
    async fn attempt(address: SocketAddr, password: &str) -> u16 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "POST /login HTTP/1.1\r\nhost: t\r\nconnection: close\r\nauthorization: {password}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response.split(' ').nth(1).unwrap().parse().unwrap()
    }

    #[tokio::test]
    async fn only_failed_logins_count() {
        let address = start(MemoryStore::default()).await;
        for (password, status) in [
            ("secret", 200),
            ("secret", 200),
            ("wrong", 401),
            ("secret", 200),
            ("guess", 401),
            ("secret", 429),
        ] {
            assert_eq!(attempt(address, password).await, status, "{password}");
        }
    }

    #[tokio::test]
    async fn two_servers_on_one_redis_share_what_failed() {
        let redis = RedisServer::start();
        let store = || RedisStore::new(RedisConfig::new(redis.url().parse().unwrap())).unwrap();
        let servers = [start(store()).await, start(store()).await];
        let mut failed = 0;
        // A charge is on its way when its response is, so that one more may pass.
        for server in servers.iter().cycle().take(100) {
            match attempt(*server, "wrong").await {
                401 => failed += 1,
                status => {
                    assert_eq!(status, 429);
                    break;
                }
            }
        }
        assert!((2..100).contains(&failed), "{failed}");
        for server in servers {
            assert_eq!(attempt(server, "secret").await, 429, "both know");
        }
    }
}
