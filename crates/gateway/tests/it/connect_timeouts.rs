//! An upstream that takes no connection and refuses none: its machine is gone, or its queue is full.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};
use tollgate_gateway::{
    EjectPolicy, GatewayConfig, GatewayTimeouts, GroupConfig, RouteConditions, RouteConfig, UpstreamUrl,
};

use crate::support::{DEADLINE, GatewaySetup, Raw, RawUpstream, TestGateway, field, in_time, url};

/// The short way through the gateway, and hyper's.
const WAYS: [&str; 2] =
    ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n"];

/// An upstream whose queue is full: Linux answers no SYN for it.
struct FullUpstream {
    address: SocketAddr,
    _listener: Socket,
    _queue: Vec<Socket>,
}

impl FullUpstream {
    async fn new() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SockAddr::from(SocketAddr::from(([127, 0, 0, 1], 0)))).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let mut queue = Vec::new();
        // One that is not connected within this time finds the queue full; the kernel asks again after a second.
        while let Some(socket) = connect(address, Duration::from_millis(300)).await {
            queue.push(socket);
            assert!(queue.len() < 16, "the queue is never full");
        }
        Self { address, _listener: listener, _queue: queue }
    }
}

/// A connection; none if nobody takes it in this time.
async fn connect(address: SocketAddr, within: Duration) -> Option<Socket> {
    let connecting = move || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.connect_timeout(&SockAddr::from(address), within).ok().map(|()| socket)
    };
    tokio::task::spawn_blocking(connecting).await.unwrap()
}

/// Upstreams of one group that have this time for a connection.
async fn start(servers: Vec<UpstreamUrl>, connect: Duration) -> TestGateway {
    let mut group = GroupConfig::new("shop".to_owned(), servers);
    // All of them stay in use, so that every request may meet the one that is full.
    group.eject = EjectPolicy { after: 0, ..group.eject };
    let route = RouteConfig {
        conditions: RouteConditions::default(),
        group: Arc::new(group),
        mapping: None,
        timeouts: GatewayTimeouts { connect, ..GatewayTimeouts::default() },
    };
    GatewaySetup::default().start_with(GatewayConfig { routes: vec![route], max_wait: DEADLINE }).await
}

#[tokio::test]
async fn an_upstream_that_takes_no_connection_is_a_504_that_says_so() {
    let full = FullUpstream::new().await;
    let schemes = ["http", "h2c", "https"].map(|scheme| format!("{scheme}://{}", full.address));
    for upstream in &schemes {
        let gateway = start(vec![upstream.parse().unwrap()], Duration::from_millis(50)).await;
        for request in WAYS {
            let mut client = Raw::connect(gateway.address).await;
            let (head, body) = client.ask(request).await;
            assert!(head.starts_with("HTTP/1.1 504 Gateway Timeout\r\n"), "{upstream}, {request}: {head}");
            assert_eq!(field(&head, "content-type"), Some("application/problem+json"));
            assert!(body.contains("the upstream did not accept a connection in time"), "{body}");
            // The client is no part of it, and may ask again.
            assert!(client.ask(request).await.0.starts_with("HTTP/1.1 504"), "{upstream}");
        }
        let status = &gateway.gateway.upstreams()[0];
        assert_eq!((status.failures, status.requests, status.in_flight), (4, 0, 0), "{upstream}");
    }
}

/// Nothing was sent to it, so that another one is asked, whatever the request.
#[tokio::test]
async fn another_upstream_is_asked_if_one_takes_no_connection() {
    let full = FullUpstream::new().await;
    let good = RawUpstream::new().await;
    let gateway = start(vec![url(full.address), url(good.address)], Duration::from_millis(50)).await;
    let _good = good.answer_all("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    for request in WAYS.into_iter().chain([post]) {
        let before = gateway.gateway.upstreams()[0].failures;
        // Which one is asked first is chosen at random.
        in_time(async {
            while gateway.gateway.upstreams()[0].failures == before {
                let mut client = Raw::connect(gateway.address).await;
                let (head, body) = client.ask(request).await;
                assert!(head.starts_with("HTTP/1.1 200") && body == "ok", "{request}: {head}{body}");
            }
        })
        .await;
    }
}
