//! nginx as a control: requests in every odd shape go through both to the same upstream, and nothing that nginx
//! refuses passes here. docs/decisions/011-stricter-than-nginx.md has the table that this prints.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{GatewaySetup, Raw, in_time};

/// A proxy that holds a request back for so long has not understood where it ends. All are asked at once, so
/// this is what they take together.
const PATIENCE: Duration = Duration::from_secs(5);

/// What an upstream got, by path.
type Arrivals = Arc<Mutex<HashMap<String, String>>>;

/// A request in some shape. `{p}` stands for its path; behind it comes a second one, which is part of its
/// body, or a request of its own, or never seen.
type Shape = (&'static str, String);

/// A body of three bytes in chunks.
const CHUNKS: &str = "3\r\nabc\r\n0\r\n\r\n";

fn shapes() -> Vec<Shape> {
    [framings(), chunk_shapes(), request_lines(), odd_fields()].concat()
}

fn head(fields: &str, body: &str) -> String {
    format!("POST {{p}} HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}")
}

fn line(line: &str) -> String {
    format!("{line}\r\nHost: a\r\n\r\n")
}

/// Lengths and codings, alone and together.
fn framings() -> Vec<Shape> {
    let chunks = CHUNKS;
    let coded = |value: &str| head(&format!("Transfer-Encoding: {value}\r\n"), chunks);
    let long = |value: &str| head(&format!("Content-Length: {value}\r\n"), "abc");
    vec![
        ("a length", long("3")),
        ("chunked", coded("chunked")),
        ("no body", line("GET {p} HTTP/1.1")),
        ("length, then chunked", head("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", chunks)),
        ("chunked, then length", head("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", chunks)),
        ("two equal lengths", head("Content-Length: 3\r\nContent-Length: 3\r\n", "abc")),
        ("two lengths", head("Content-Length: 3\r\nContent-Length: 4\r\n", "abc")),
        ("a list of equal lengths", long("3, 3")),
        ("a list of lengths", long("3, 4")),
        ("length +3", long("+3")),
        ("length -1", long("-1")),
        ("length 0x3", long("0x3")),
        ("length 03", long("03")),
        ("length 3.0", long("3.0")),
        ("length of nothing", long("")),
        ("length 3 and a tab", long("3\t")),
        ("a length beyond 64 bits", long("99999999999999999999")),
        ("Chunked", coded("Chunked")),
        ("xchunked", coded("xchunked")),
        ("chunked, chunked", coded("chunked, chunked")),
        ("chunked twice", head("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunks)),
        (
            "identity, then chunked",
            head("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", chunks),
        ),
        ("chunked, identity", coded("chunked, identity")),
        ("gzip, chunked", coded("gzip, chunked")),
        ("identity", coded("identity")),
        ("\"chunked\"", coded("\"chunked\"")),
        ("chunked;x=y", coded("chunked;x=y")),
        ("chunked with a vertical tab", coded("\x0bchunked")),
        ("chunked behind a tab", coded("\tchunked")),
        ("chunked with a form feed", coded("\x0cchunked")),
        ("chunked, CR CR LF behind", coded("chunked\r")),
        ("chunked and a NUL", coded("chunked\0")),
        ("chunked, bare LF behind", head("Transfer-Encoding: chunked\n", chunks)),
        ("chunked behind a bare CR", head("X: y\rTransfer-Encoding: chunked\r\n", chunks)),
        ("space before the colon", head("Transfer-Encoding : chunked\r\n", chunks)),
        ("tab before the colon", head("Transfer-Encoding\t: chunked\r\n", chunks)),
        ("Transfer_Encoding", head("Transfer_Encoding: chunked\r\nContent-Length: 3\r\n", "abc")),
        ("folded", head("Transfer-Encoding:\r\n chunked\r\n", chunks)),
        ("folded with a tab", head("X: y\r\n\tTransfer-Encoding: chunked\r\nContent-Length: 3\r\n", "abc")),
        (
            "a first field that begins with a space",
            "POST {p} HTTP/1.1\r\n Host: a\r\nHost: a\r\n\r\n".to_owned(),
        ),
        (
            "chunked in HTTP/1.0",
            format!("POST {{p}} HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"),
        ),
    ]
}

/// Chunks and what ends them.
fn chunk_shapes() -> Vec<Shape> {
    let chunked = |body: &str| head("Transfer-Encoding: chunked\r\n", body);
    vec![
        ("a chunk longer than it says", chunked("3\r\nabcX\r\n0\r\n\r\n")),
        ("a chunk size with a space", chunked("3 \r\nabc\r\n0\r\n\r\n")),
        ("a chunk size behind a space", chunked(" 3\r\nabc\r\n0\r\n\r\n")),
        ("a chunk size 0x3", chunked("0x3\r\nabc\r\n0\r\n\r\n")),
        ("a chunk size -3", chunked("-3\r\nabc\r\n0\r\n\r\n")),
        ("a chunk size +3", chunked("+3\r\nabc\r\n0\r\n\r\n")),
        ("a chunk size beyond 64 bits", chunked("10000000000000003\r\nabc\r\n0\r\n\r\n")),
        ("chunk sizes with leading zeros", chunked("0003\r\nabc\r\n000\r\n\r\n")),
        ("a chunk extension", chunked("3;a=b\r\nabc\r\n0\r\n\r\n")),
        ("a chunk extension with a bare LF", chunked("3;a\nabc\r\n0\r\n\r\n")),
        ("a chunk size with a bare LF", chunked("3\nabc\r\n0\r\n\r\n")),
        ("a bare LF behind a chunk", chunked("3\r\nabc\n0\r\n\r\n")),
        ("a bare CR behind a chunk", chunked("3\r\nabc\r0\r\n\r\n")),
        ("bare LFs at the end", chunked("3\r\nabc\r\n0\n\n")),
        ("trailers", chunked("3\r\nabc\r\n0\r\nX: y\r\n\r\n")),
        ("a length among the trailers", chunked("3\r\nabc\r\n0\r\nContent-Length: 9\r\n\r\n")),
    ]
}

/// The first line, and whom a request is for.
fn request_lines() -> Vec<Shape> {
    vec![
        ("bare LFs", "GET {p} HTTP/1.1\nHost: a\n\n".to_owned()),
        ("no host", "GET {p} HTTP/1.1\r\n\r\n".to_owned()),
        ("two hosts", "GET {p} HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".to_owned()),
        ("an empty host", "GET {p} HTTP/1.1\r\nHost:\r\n\r\n".to_owned()),
        ("a host with a user", "GET {p} HTTP/1.1\r\nHost: u@a\r\n\r\n".to_owned()),
        ("a host with a space", "GET {p} HTTP/1.1\r\nHost: a b\r\n\r\n".to_owned()),
        ("a host with a slash", "GET {p} HTTP/1.1\r\nHost: a/b\r\n\r\n".to_owned()),
        ("absolute form", "GET http://a{p} HTTP/1.1\r\nHost: b\r\n\r\n".to_owned()),
        ("a space in the path", line("GET {p} x HTTP/1.1")),
        ("two spaces in the line", line("GET  {p} HTTP/1.1")),
        ("a tab in the line", line("GET\t{p} HTTP/1.1")),
        ("HTTP/1.2", line("GET {p} HTTP/1.2")),
        ("HTTP/2.0", line("GET {p} HTTP/2.0")),
        ("HTTP/0.9", "GET {p}\r\n\r\n".to_owned()),
        ("http/1.1", line("GET {p} http/1.1")),
        ("get", line("get {p} HTTP/1.1")),
        ("a method of signs", line("G@T {p} HTTP/1.1")),
        ("empty lines before", format!("\r\n\r\n{}", line("GET {p} HTTP/1.1"))),
        ("a fragment", line("GET {p}#x HTTP/1.1")),
        ("a NUL in the path", line("GET {p}\0 HTTP/1.1")),
        ("%00 in the path", line("GET {p}%00 HTTP/1.1")),
        ("a byte above 127 in the path", line("GET {p}é HTTP/1.1")),
        ("CONNECT", line("CONNECT a:443 HTTP/1.1")),
        ("TRACE", line("TRACE {p} HTTP/1.1")),
    ]
}

/// Fields that are none.
fn odd_fields() -> Vec<Shape> {
    let field = |text: &str| head(text, "");
    vec![
        ("a NUL in a field", field("X: a\0b\r\n")),
        ("a bare CR in a field", field("X: a\rb\r\n")),
        ("a control character in a field", field("X: a\x01b\r\n")),
        ("a field without a colon", field("X\r\n")),
        ("a field without a name", field(": y\r\n")),
        ("a name with a slash", field("X/Y: z\r\n")),
        ("a name with a space", field("X Y: z\r\n")),
        ("a name with a control character", field("X\x01Y: z\r\n")),
        ("Expect: 200-ok", head("Expect: 200-ok\r\nContent-Length: 3\r\n", "abc")),
        ("Connection: content-length", head("Connection: Content-Length\r\nContent-Length: 3\r\n", "abc")),
        ("Connection: host", field("Connection: Host\r\nContent-Length: 0\r\n")),
        ("Upgrade: h2c", field(&h2c("Upgrade, HTTP2-Settings", "h2c"))),
        ("Upgrade: h2c without its settings", field(&h2c("Upgrade", "h2c"))),
        ("Upgrade: H2C in a list", field(&h2c("HTTP2-Settings, upgrade", "websocket, H2C"))),
    ]
}

/// Asks for HTTP/2 by an upgrade.
fn h2c(connection: &str, upgrade: &str) -> String {
    format!("Connection: {connection}\r\nUpgrade: {upgrade}\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n")
}

/// An upstream that notes what arrives.
async fn upstream() -> (SocketAddr, Arrivals) {
    let arrivals = Arrivals::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let noted = Arc::clone(&arrivals);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let noted = Arc::clone(&noted);
            let service = service_fn(move |request: Request<Incoming>| {
                let noted = Arc::clone(&noted);
                async move {
                    let path = request.uri().path().to_owned();
                    if path == "/pending" {
                        std::future::pending::<()>().await;
                    }
                    // Whoever asks for another protocol may get a tunnel.
                    let upgrade = request.headers().get("upgrade").cloned();
                    // One whose body never ends well has not arrived.
                    if let Ok(body) = request.into_body().collect().await {
                        let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
                        let body = upgrade.map_or(body.clone(), |upgrade| format!("{upgrade:?} {body}"));
                        noted.lock().unwrap().insert(path, body);
                    }
                    Ok::<_, Infallible>(Response::new("ok".to_owned()))
                }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    (address, arrivals)
}

/// A running nginx, killed with this value.
struct NginxControl {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Drop for NginxControl {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// nginx as people set it up, in front of `upstream`.
async fn nginx(upstream: SocketAddr) -> NginxControl {
    let folder = tempfile::tempdir().unwrap();
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let root = folder.path().display();
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = kinds.map(|kind| format!("{kind}_temp_path {root}/{kind};")).join(" ");
    let configuration = format!(
        "events {{}}\nhttp {{ access_log off; {temporary} upstream u {{ server {upstream}; keepalive 8; }}\n\
         server {{ listen {address}; location / {{ proxy_pass http://u; proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\"; proxy_request_buffering off; }} }} }}\n"
    );
    let path = folder.path().join("nginx.conf");
    std::fs::write(&path, configuration).unwrap();
    let child = Command::new("nginx")
        .arg("-p")
        .arg(folder.path())
        .arg("-c")
        .arg(&path)
        .args(["-e", "stderr", "-g", "daemon off; master_process off; pid nginx.pid;"])
        .stderr(Stdio::null())
        .spawn()
        .expect("nginx is installed: cargo xtask setup");
    let nginx = NginxControl { child, address, _folder: folder };
    in_time(async {
        while TcpStream::connect(address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    nginx
}

/// Sends a request in some shape, with another one behind it; the status of the first answer.
async fn ask(proxy: SocketAddr, shape: &str, path: &str) -> String {
    let request = shape.replace("{p}", path);
    let mut client = Raw::connect(proxy).await;
    client.send(format!("{request}GET {path}/inner HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).await;
    let mut answer = Vec::new();
    let reading = async { while client.stream.read_buf(&mut answer).await.is_ok_and(|count| count > 0) {} };
    drop(tokio::time::timeout(PATIENCE, reading).await);
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    status.unwrap_or(if text.is_empty() { "closed" } else { "0.9" }).to_owned()
}

/// What became of a shape at one proxy.
#[derive(Debug, PartialEq, Eq)]
struct Fate {
    status: String,
    /// The body that arrived, if the request did.
    arrived: Option<String>,
    has_inner: bool,
}

async fn fate(proxy: SocketAddr, shape: &str, path: String, arrivals: &Arrivals) -> Fate {
    let status = ask(proxy, shape, &path).await;
    let arrivals = arrivals.lock().unwrap();
    let arrived = arrivals
        .iter()
        .find(|(own, _)| own.strip_prefix(&path).is_some_and(|rest| !rest.starts_with("/inner")));
    Fate {
        status,
        arrived: arrived.map(|(_, body)| body.clone()),
        has_inner: arrivals.contains_key(&format!("{path}/inner")),
    }
}

#[tokio::test]
async fn nothing_passes_here_that_nginx_refuses() {
    let (upstream, arrivals) = upstream().await;
    let nginx = nginx(upstream).await;
    let gateway = GatewaySetup::default().start(upstream).await;
    let compared = shapes().into_iter().enumerate().map(|(number, (name, shape))| {
        let (ours, theirs, arrivals) = (gateway.address, nginx.address, Arc::clone(&arrivals));
        tokio::spawn(async move {
            let ours = fate(ours, &shape, format!("/gateway{number}x"), &arrivals);
            let theirs = fate(theirs, &shape, format!("/nginx{number}x"), &arrivals);
            let (ours, theirs) = tokio::join!(ours, theirs);
            (name, ours, theirs)
        })
    });
    let mut wrong = Vec::new();
    println!("| request | here | nginx |\n|---|---|---|");
    for compared in compared.collect::<Vec<_>>() {
        let (name, ours, theirs) = compared.await.unwrap();
        if ours.status != theirs.status {
            println!("| {name} | {} | {} |", ours.status, theirs.status);
        }
        let is_looser = ours.arrived.is_some() && theirs.arrived.is_none();
        // What both let through ends in the same place.
        let differs = ours.arrived.is_some() && theirs.arrived.is_some() && ours != theirs;
        let is_smuggled = ours.arrived.is_none() && ours.has_inner;
        if is_looser || differs || is_smuggled {
            wrong.push(format!("{name}: {ours:?}, nginx {theirs:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A client that has sent its end looks like one that has gone, and a place in a line or a connection to the
/// upstream is not kept for it. curl, browsers and libraries close both ways at once.
#[tokio::test]
async fn a_client_that_stops_sending_is_taken_for_gone_as_by_nginx() {
    let (upstream, _) = upstream().await;
    let nginx = nginx(upstream).await;
    let gateway = GatewaySetup::default().start(upstream).await;
    for proxy in [gateway.address, nginx.address] {
        let mut client = Raw::connect(proxy).await;
        client.send("GET /pending HTTP/1.1\r\nHost: a\r\n\r\n").await;
        client.stream.shutdown().await.unwrap();
        assert_eq!(client.rest().await, "");
    }
}
