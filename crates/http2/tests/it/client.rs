//! Every call of the client of `h2` is understood, and every answer is understood by it.

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use http::{Method, Request};
use proptest::prelude::*;
use tokio::io::duplex;

use crate::server::EchoServer;

/// How both ends are set up.
#[derive(Debug, Clone)]
struct Ends {
    /// Windows of the client.
    stream_window: u32,
    connection_window: u32,
    table: u32,
    /// Bytes that the pipe holds, and that the server reads at a time.
    pipe: usize,
    read: usize,
}

#[derive(Debug, Clone)]
struct Call {
    path: &'static str,
    pieces: Vec<usize>,
    fields: Vec<(String, String)>,
    has_trailers: bool,
}

fn ends() -> impl Strategy<Value = Ends> {
    let window = || prop_oneof![Just(0_u32), 1..200_u32, Just(65_535), Just(1 << 20)];
    (
        window(),
        65_535..200_000_u32,
        prop_oneof![Just(0), Just(100), Just(4_096)],
        1..5_000_usize,
        1..5_000_usize,
    )
        .prop_map(|(stream_window, connection_window, table, pipe, read)| Ends {
            stream_window: stream_window.max(1),
            connection_window,
            table,
            pipe,
            read,
        })
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let pieces = proptest::collection::vec(prop_oneof![0..20_usize, 0..3_000_usize], 0..5);
    let fields = proptest::collection::vec(("[a-d]{1,3}", "[a-z ]{0,80}"), 0..5);
    let path = prop_oneof![Just("/known"), Just("/other?x=y")];
    let call = (path, pieces, fields, any::<bool>()).prop_map(|(path, pieces, fields, has_trailers)| Call {
        path,
        pieces,
        fields,
        has_trailers,
    });
    proptest::collection::vec(call, 1..12)
}

async fn call(mut send: SendRequest<Bytes>, call: Call) -> (usize, Option<String>) {
    let mut request = Request::builder().method(Method::POST).uri(format!("http://host{}", call.path));
    for (name, value) in &call.fields {
        request = request.header(name, value);
    }
    let (response, mut body) = send.send_request(request.body(()).unwrap(), false).unwrap();
    let count = call.pieces.len();
    for (place, piece) in call.pieces.iter().enumerate() {
        let is_end = !call.has_trailers && place + 1 == count;
        body.send_data(vec![b'x'; *piece].into(), is_end).unwrap();
    }
    if call.has_trailers {
        body.send_trailers(http::HeaderMap::from_iter([("t".parse().unwrap(), "v".parse().unwrap())]))
            .unwrap();
    } else if count == 0 {
        body.send_data(Bytes::new(), true).unwrap();
    }
    let response = response.await.unwrap();
    assert_eq!(response.status(), 200);
    let (mut bytes, mut body) = (0, response.into_body());
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        bytes += data.len();
        body.flow_control().release_capacity(data.len()).unwrap();
    }
    let trailers = body.trailers().await.unwrap();
    (bytes, trailers.map(|fields| fields["bytes"].to_str().unwrap().to_owned()))
}

async fn run(ends: Ends, calls: Vec<Call>) {
    let (ours, theirs) = duplex(ends.pipe);
    let served = tokio::spawn(EchoServer::new().serve(theirs, ends.read));
    let mut builder = Builder::new();
    builder
        .initial_window_size(ends.stream_window)
        .initial_connection_window_size(ends.connection_window)
        .header_table_size(ends.table);
    let (send, connection) = builder.handshake::<_, Bytes>(ours).await.unwrap();
    let driver = tokio::spawn(connection);
    let running: Vec<_> = calls.iter().map(|one| tokio::spawn(call(send.clone(), one.clone()))).collect();
    for (one, answer) in calls.iter().zip(running) {
        let length: usize = one.pieces.iter().sum();
        assert_eq!(answer.await.unwrap(), (length, Some(length.to_string())), "{one:?}");
    }
    drop(send);
    driver.await.unwrap().unwrap();
    let server = served.await.unwrap();
    assert!(!server.http2.has_failed() && server.http2.is_idle());
    assert_eq!(server.heads.len(), calls.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 20, ..ProptestConfig::default() })]
    #[test]
    fn every_call_gets_its_own_bytes_back(ends in ends(), calls in calls()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let limit = std::time::Duration::from_secs(30);
        runtime.block_on(async { tokio::time::timeout(limit, run(ends, calls)).await }).expect("nobody waits for ever");
    }
}

#[tokio::test]
async fn who_is_asked_to_go_is_gone_in_peace() {
    let (ours, mut theirs) = duplex(10_000);
    let (send, connection) = h2::client::handshake(ours).await.unwrap();
    let driver = tokio::spawn(connection);
    let mut server = EchoServer::new();
    let mut buffer = vec![0; 10_000];
    // The preface and the settings.
    let bytes = tokio::io::AsyncReadExt::read(&mut theirs, &mut buffer).await.unwrap();
    server.receive(&buffer[..bytes]);
    server.http2.close();
    let served = tokio::spawn(server.serve(theirs, 100));
    driver.await.unwrap().expect("a goodbye is no error");
    assert!(served.await.unwrap().http2.is_over());
    drop(send);
}
