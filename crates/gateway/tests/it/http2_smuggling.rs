//! What is malformed over HTTP/2 is no request over HTTP/1. HTTP/2 has an end of its own for every message, so that
//! nobody needs a length, and its fields may hold any byte; a gateway that writes them down as HTTP/1 makes two
//! requests of one (RFC 9113, 10.3). The cases are written from RFC 9113, 8.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::frames::{
    Attacker, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, Received, frame, literal,
};
use crate::support::{GatewaySetup, TestGateway, in_time, length};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// How an answer with status 200 begins in HPACK, and one with 400.
const STATUS_200: u8 = 0x88;
const STATUS_400: u8 = 0x8c;
/// How one with a status begins that has no place in the table.
const STATUS_OTHER: u8 = 0x48;

type Field = (&'static [u8], &'static [u8]);

const METHOD: Field = (b":method", b"POST");
const SCHEME: Field = (b":scheme", b"http");
const AUTHORITY: Field = (b":authority", b"a");
const PATH: Field = (b":path", b"/bad");

/// A request: its fields, and the pieces of its body. Without pieces it ends with its head.
struct MalformedRequest {
    what: &'static str,
    fields: Vec<Field>,
    body: &'static [&'static [u8]],
    trailers: Vec<Field>,
}

/// A right head with these fields behind it.
fn with(what: &'static str, fields: &[Field]) -> MalformedRequest {
    let fields = [&[METHOD, SCHEME, AUTHORITY, PATH], fields].concat();
    MalformedRequest { what, fields, body: &[], trailers: Vec::new() }
}

/// A head that has these fields alone.
fn only(what: &'static str, fields: &[Field]) -> MalformedRequest {
    MalformedRequest { what, fields: fields.to_vec(), body: &[], trailers: Vec::new() }
}

/// A right head but for its path.
fn path(what: &'static str, path: &'static [u8]) -> MalformedRequest {
    only(what, &[METHOD, SCHEME, AUTHORITY, (b":path", path)])
}

/// A right head but for its authority.
fn authority(what: &'static str, authority: &'static [u8]) -> MalformedRequest {
    only(what, &[METHOD, SCHEME, (b":authority", authority), PATH])
}

fn lengths() -> Vec<MalformedRequest> {
    const INNER: &[u8] = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    let sized = |what, values: &[&'static [u8]], body| {
        let fields: Vec<Field> = values.iter().map(|value| (&b"content-length"[..], *value)).collect();
        MalformedRequest { body, ..with(what, &fields) }
    };
    vec![
        sized("a length without a body", &[b"5"], &[]),
        sized("more than its length", &[b"1"], &[b"xyz"]),
        sized("more than no length", &[b"0"], &[INNER]),
        sized("less than its length", &[b"5"], &[b"abc"]),
        sized("two lengths, the first is right", &[b"3", b"1"], &[b"abc"]),
        sized("two lengths, the second is right", &[b"1", b"3"], &[b"abc"]),
        sized("a list of lengths", &[b"3, 3"], &[b"abc"]),
        sized("a list of two lengths", &[b"3,1"], &[b"abc"]),
        sized("a length with a sign", &[b"+3"], &[b"abc"]),
        sized("a length in hexadecimal", &[b"0x3"], &[b"abc"]),
        sized("a length behind a space", &[b" 3"], &[b"abc"]),
        sized("a length before a space", &[b"3 "], &[b"abc"]),
        sized("no number", &[b""], &[b"abc"]),
        sized("no number and no body", &[b""], &[]),
        sized("more than there can be", &[b"18446744073709551619"], &[b"abc"]),
    ]
}

fn connection_fields() -> Vec<MalformedRequest> {
    let body = |shape: MalformedRequest| MalformedRequest {
        body: &[b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"],
        ..shape
    };
    vec![
        body(with("chunked", &[(b"transfer-encoding", b"chunked")])),
        body(with(
            "chunked with a length",
            &[(b"transfer-encoding", b"chunked"), (b"content-length", b"39")],
        )),
        with("identity", &[(b"transfer-encoding", b"identity")]),
        with("no coding", &[(b"transfer-encoding", b"")]),
        with("connection", &[(b"connection", b"close")]),
        with("connection that names a field", &[(b"connection", b"x-key"), (b"x-key", b"1")]),
        with("keep-alive", &[(b"keep-alive", b"timeout=5")]),
        with("proxy-connection", &[(b"proxy-connection", b"keep-alive")]),
        with("upgrade", &[(b"upgrade", b"websocket")]),
        with("te that is chunked", &[(b"te", b"chunked")]),
        with("te that is more than trailers", &[(b"te", b"trailers, deflate")]),
    ]
}

fn field_bytes() -> Vec<MalformedRequest> {
    vec![
        with("CR LF in a value", &[(b"x-a", b"b\r\nTransfer-Encoding: chunked")]),
        with("a request in a value", &[(b"x-a", b"b\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")]),
        with("LF in a value", &[(b"x-a", b"b\nx-c: d")]),
        with("CR in a value", &[(b"x-a", b"b\rx-c: d")]),
        with("NUL in a value", &[(b"x-a", b"b\0c")]),
        with("DEL in a value", &[(b"x-a", b"b\x7fc")]),
        with("a space before a value", &[(b"x-a", b" b")]),
        with("a space behind a value", &[(b"x-a", b"b ")]),
        with("a tab before a value", &[(b"x-a", b"\tb")]),
        with("a tab behind a value", &[(b"x-a", b"b\t")]),
        with("a value of one space", &[(b"x-a", b" ")]),
        with("CR LF in a name", &[(b"x-a: b\r\ntransfer-encoding", b"chunked")]),
        with("LF in a name", &[(b"x-a\nb", b"c")]),
        with("NUL in a name", &[(b"x-a\0", b"c")]),
        with("a colon in a name", &[(b"x-a:b", b"c")]),
        with("a colon behind a name", &[(b"transfer-encoding:", b"chunked")]),
        with("a space in a name", &[(b"x a", b"b")]),
        with("a space before a name", &[(b" x-a", b"b")]),
        with("a space behind a name", &[(b"transfer-encoding ", b"chunked")]),
        with("a tab behind a name", &[(b"transfer-encoding\t", b"chunked")]),
        with("a byte beyond ASCII in a name", &[(b"x-\xe9", b"b")]),
        with("an empty name", &[(b"", b"b")]),
        with("a name in capitals", &[(b"X-A", b"b")]),
        with("one capital in a name", &[(b"transfer-Encoding", b"chunked")]),
    ]
}

fn paths() -> Vec<MalformedRequest> {
    vec![
        path("a space in the path", b"/bad b"),
        path("a version behind the path", b"/bad HTTP/1.1\r\nx-a: b"),
        path("a request in the path", b"/ HTTP/1.1\r\nHost: a\r\n\r\nGET /smuggled"),
        path("CR LF in the path", b"/bad\r\nb"),
        path("LF in the path", b"/bad\nb"),
        path("a tab in the path", b"/bad\tb"),
        path("NUL in the path", b"/bad\0"),
        path("an escaped NUL in the path", b"/bad%00"),
        path("no path", b""),
        path("a query alone", b"?a"),
        path("no slash", b"bad"),
        path("no slash but an at", b"@b/bad"),
        path("a port for a path", b":80/bad"),
        path("a URL for a path", b"http://b/bad"),
        path("a star", b"*"),
    ]
}

fn pseudo_fields() -> Vec<MalformedRequest> {
    let a = (&b"x-a"[..], &b"b"[..]);
    vec![
        only("no method", &[SCHEME, AUTHORITY, PATH]),
        only("no scheme", &[METHOD, AUTHORITY, PATH]),
        only("no path at all", &[METHOD, SCHEME, AUTHORITY]),
        only("nobody it is for", &[METHOD, SCHEME, PATH]),
        only("two methods", &[METHOD, METHOD, SCHEME, AUTHORITY, PATH]),
        only("two schemes", &[METHOD, SCHEME, SCHEME, AUTHORITY, PATH]),
        only("two authorities", &[METHOD, SCHEME, AUTHORITY, (b":authority", b"b"), PATH]),
        only("two paths", &[METHOD, SCHEME, AUTHORITY, PATH, (b":path", b"/b")]),
        only("a late path", &[METHOD, SCHEME, AUTHORITY, a, PATH]),
        only("a late authority", &[METHOD, SCHEME, PATH, a, AUTHORITY]),
        with("a late method", &[a, (b":method", b"GET")]),
        with("one that is unknown", &[(b":other", b"b")]),
        with("one of answers", &[(b":status", b"200")]),
        with("a protocol without CONNECT", &[(b":protocol", b"websocket")]),
        only("CONNECT", &[(b":method", b"CONNECT"), (b":authority", b"a:443")]),
        only("CONNECT with a path", &[(b":method", b"CONNECT"), SCHEME, AUTHORITY, PATH]),
        only(
            "CONNECT for a WebSocket",
            &[(b":method", b"CONNECT"), (b":protocol", b"websocket"), SCHEME, AUTHORITY, PATH],
        ),
        only("TRACE", &[(b":method", b"TRACE"), SCHEME, AUTHORITY, PATH]),
        only(
            "a method with a space",
            &[(b":method", b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET"), SCHEME, AUTHORITY, PATH],
        ),
        only("a method in small letters", &[(b":method", b"post"), SCHEME, AUTHORITY, PATH]),
        only("an empty method", &[(b":method", b""), SCHEME, AUTHORITY, PATH]),
        only(
            "our own word for what was refused",
            &[(b":method", b"TOLLGATE REJECTED"), SCHEME, AUTHORITY, PATH],
        ),
        only("a URL for a scheme", &[METHOD, (b":scheme", b"http://b/c?"), AUTHORITY, PATH]),
        only("an empty scheme", &[METHOD, (b":scheme", b""), AUTHORITY, PATH]),
        authority("a password", b"u:p@a"),
        authority("a user", b"u@a"),
        authority("a path in the authority", b"a/b"),
        authority("a query in the authority", b"a?b"),
        authority("a space in the authority", b"a b"),
        authority("CR LF in the authority", b"a\r\nx-a: b"),
        authority("an empty authority", b""),
        authority("a port alone", b":80"),
        with("another host", &[(b"host", b"b")]),
        with("another port", &[(b"host", b"a:8080")]),
        with("two hosts", &[(b"host", b"a"), (b"host", b"a")]),
        with("an empty host", &[(b"host", b"")]),
        only(
            "an empty authority beside a host",
            &[METHOD, SCHEME, (b":authority", b""), PATH, (b"host", b"u@a")],
        ),
        only("two hosts and no authority", &[METHOD, SCHEME, PATH, (b"host", b"a"), (b"host", b"b")]),
    ]
}

fn trailers() -> Vec<MalformedRequest> {
    let trailers = |what, fields: &[Field]| MalformedRequest {
        body: &[b"abc"],
        trailers: fields.to_vec(),
        ..with(what, &[])
    };
    vec![
        trailers("chunked in trailers", &[(b"transfer-encoding", b"chunked")]),
        trailers("CR LF in a trailer", &[(b"x-a", b"b\r\n\r\nGET /smuggled HTTP/1.1")]),
        trailers("a trailer in capitals", &[(b"X-A", b"b")]),
    ]
}

fn block(fields: &[Field]) -> Vec<u8> {
    fields.iter().flat_map(|(name, value)| literal(name, value)).collect()
}

impl MalformedRequest {
    /// The frames of it, on this stream.
    fn frames(&self, stream: u32) -> Vec<Vec<u8>> {
        let end = |is_last: bool| if is_last { END_STREAM } else { 0 };
        let is_head_alone = self.body.is_empty() && self.trailers.is_empty();
        let mut frames = vec![frame(HEADERS, END_HEADERS | end(is_head_alone), stream, &block(&self.fields))];
        for (number, piece) in self.body.iter().enumerate() {
            let is_last = number + 1 == self.body.len() && self.trailers.is_empty();
            frames.push(frame(DATA, end(is_last), stream, piece));
        }
        if !self.trailers.is_empty() {
            frames.push(frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&self.trailers)));
        }
        frames
    }
}

/// An upstream that keeps every byte, and answers every head.
struct Recorder {
    /// What came, by connection.
    arrived: Arc<Mutex<Vec<Vec<u8>>>>,
    task: JoinHandle<()>,
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Recorder {
    async fn start() -> (TestGateway, Self) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let arrived = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let own = Arc::clone(&arrived);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let mut all = own.lock();
                all.push(Vec::new());
                tokio::spawn(record(stream, Arc::clone(&own), all.len() - 1));
            }
        });
        (GatewaySetup::default().start(address).await, Self { arrived, task })
    }

    /// The heads of the requests that arrived whole.
    fn whole(&self) -> Vec<String> {
        self.arrived.lock().iter().flat_map(|bytes| whole_requests(bytes)).collect()
    }
}

/// Notes what comes, and answers each request that is whole.
async fn record(mut stream: TcpStream, arrived: Arc<Mutex<Vec<Vec<u8>>>>, number: usize) {
    let (mut answered, mut piece) = (0, Vec::new());
    while stream.read_buf(&mut piece).await.is_ok_and(|count| count > 0) {
        let whole = {
            let mut all = arrived.lock();
            all[number].append(&mut piece);
            whole_requests(&all[number]).len()
        };
        for _ in answered..whole {
            drop(stream.write_all(OK.as_bytes()).await);
        }
        answered = whole;
    }
}

/// The heads of all requests in these bytes that are whole, as a lenient server reads them: where there are chunks,
/// these tell the end.
fn whole_requests(mut bytes: &[u8]) -> Vec<String> {
    let mut heads = Vec::new();
    let find = |bytes: &[u8], end: &[u8]| bytes.windows(end.len()).position(|part| part == end);
    while let Some(end) = find(bytes, b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&bytes[..end + 4]).into_owned();
        let rest = &bytes[end + 4..];
        let count = match head.contains("transfer-encoding") {
            true if rest.starts_with(b"0\r\n\r\n") => Some(5),
            true => find(rest, b"\r\n0\r\n").and_then(|last| {
                let trailers = &rest[last + 3..];
                find(trailers, b"\r\n\r\n").map(|end| last + 3 + end + 4)
            }),
            false => Some(length(&head)),
        };
        let Some(count) = count.filter(|count| *count <= rest.len()) else { break };
        heads.push(head);
        bytes = &rest[count..];
    }
    heads
}

/// How a request on this stream ended: the head of its answer, a reset, or the end of the connection.
async fn fate(client: &mut Attacker, stream: u32) -> Option<Received> {
    in_time(async {
        loop {
            let received = client.receive().await?;
            let is_its = received.stream == stream && [HEADERS, RST_STREAM].contains(&received.kind);
            if is_its || received.kind == GOAWAY {
                return Some(received);
            }
        }
    })
    .await
}

/// Whether this is how a malformed request may end.
fn is_refused(what: &str, ended: Option<&Received>) -> bool {
    // What is no method of ours is a 405, which has no place in the table.
    let is_405 = what.starts_with("CONNECT") || what == "TRACE";
    match ended {
        Some(head) if head.kind == HEADERS => {
            let status = head.payload[0];
            status == STATUS_400 || (is_405 && status == STATUS_OTHER)
        }
        Some(end) => end.error() != 0,
        None => true,
    }
}

/// Sends what is wrong and then what is right, on the same connection if it is still there.
async fn attack(gateway: &TestGateway, recorder: &Recorder, shape: &MalformedRequest) {
    let what = shape.what;
    let before = recorder.whole().len();
    let mut client = Attacker::connect(gateway.address).await;
    client.send(shape.frames(1)).await;
    let ended = fate(&mut client, 1).await;
    assert!(is_refused(what, ended.as_ref()), "{what}: {ended:x?}");
    let is_open = ended.is_some_and(|ended| ended.kind != GOAWAY);
    let (mut client, stream) =
        if is_open { (client, 3) } else { (Attacker::connect(gateway.address).await, 1) };
    let good = only("a good one", &[METHOD, SCHEME, AUTHORITY, (b":path", b"/good")]);
    client.send(MalformedRequest { body: &[b"hello"], ..good }.frames(stream)).await;
    let answer = fate(&mut client, stream).await.expect("an answer to a good request");
    assert!(answer.kind == HEADERS && answer.payload[0] == STATUS_200, "{what}: {answer:x?}");
    let arrived = recorder.whole().split_off(before);
    assert_eq!(arrived.len(), 1, "{what}: {arrived:?}");
    assert!(arrived[0].starts_with("POST /good HTTP/1.1\r\n"), "{what}: {arrived:?}");
}

#[tokio::test]
async fn nothing_malformed_over_http2_becomes_a_request_over_http1() {
    let (gateway, recorder) = Recorder::start().await;
    let shapes = [lengths(), connection_fields(), field_bytes(), paths(), pseudo_fields(), trailers()];
    for shape in shapes.into_iter().flatten() {
        attack(&gateway, &recorder, &shape).await;
    }
}

/// What has come of a body when its length turns out to be wrong is on its way already; nothing is added to it.
#[tokio::test]
async fn what_comes_behind_the_length_of_a_body_goes_no_further() {
    let (gateway, recorder) = Recorder::start().await;
    let mut client = Attacker::connect(gateway.address).await;
    let shape = with("", &[(b"content-length", b"1")]);
    client
        .send(
            MalformedRequest { body: &[b"x", b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"], ..shape }
                .frames(1),
        )
        .await;
    let end = client.next(RST_STREAM).await.expect("it is told");
    assert_ne!(end.error(), 0, "{end:?}");
    client.send(only("", &[METHOD, SCHEME, AUTHORITY, (b":path", b"/good")]).frames(3)).await;
    assert_eq!(fate(&mut client, 3).await.unwrap().payload[0], STATUS_200);
    let arrived = recorder.arrived.lock().concat();
    assert!(!String::from_utf8_lossy(&arrived).contains("smuggled"));
}

/// hyper cuts these off before anybody sees them: limits and upstream agree on what is left.
#[tokio::test]
async fn a_fragment_and_a_path_in_trailers_reach_nobody() {
    let (gateway, recorder) = Recorder::start().await;
    let fragment = path("", b"/good#bad");
    let late = MalformedRequest { body: &[b"hi"], trailers: vec![(b":path", b"/bad")], ..path("", b"/good") };
    for shape in [fragment, late] {
        let mut client = Attacker::connect(gateway.address).await;
        client.send(shape.frames(1)).await;
        assert_eq!(fate(&mut client, 1).await.unwrap().payload[0], STATUS_200);
    }
    let arrived = recorder.whole();
    assert_eq!(arrived.len(), 2);
    assert!(arrived.iter().all(|head| head.starts_with("POST /good HTTP/1.1\r\n")), "{arrived:?}");
    assert!(!String::from_utf8_lossy(&recorder.arrived.lock().concat()).contains("bad"));
}
