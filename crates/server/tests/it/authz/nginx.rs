//! The real nginx, with the configuration of `examples/nginx/nginx.conf`.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{BY_ADDRESS, BY_PATH, Response, ask_from, mapping, server};
use crate::support::{Server, eventually};

/// A port that was free a moment ago.
fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A running nginx and the service behind it, ended with this value.
struct Nginx {
    child: Child,
    address: SocketAddr,
    service: tokio::task::JoinHandle<()>,
    folder: TempDir,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        self.service.abort();
        // It has no state that is worth a goodbye.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The example as it stands, with other ports and nothing outside of the folder.
fn configuration(folder: &Path, address: SocketAddr, service: SocketAddr, tollgate: SocketAddr) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/nginx/nginx.conf");
    let mut text = std::fs::read_to_string(path).unwrap();
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = kinds.map(|kind| format!("{kind}_temp_path {}/{kind};", folder.display())).join(" ");
    for (from, to) in [
        ("http {", format!("http {{ access_log off; {temporary}")),
        ("listen 80;", format!("listen {address};")),
        ("listen [::]:80;", String::new()),
        ("server 127.0.0.1:3000;", format!("server {service};")),
        ("server 127.0.0.1:8080;", format!("server {tollgate};")),
    ] {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text = text.replace(from, &to);
    }
    text
}

/// A service that says who it is, and what it was told about the caller.
async fn serve(listener: tokio::net::TcpListener) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { return };
        tokio::spawn(async move {
            let mut head = Vec::new();
            while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            let text = String::from_utf8_lossy(&head).into_owned();
            let line = text.lines().next().unwrap_or_default();
            let status = if line.contains("/forbidden") { "403 Forbidden" } else { "200 OK" };
            let body = format!("the service got {line}");
            let answer = format!("HTTP/1.0 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            drop(stream.write_all(answer.as_bytes()).await);
        });
    }
}

async fn nginx(tollgate: SocketAddr) -> Nginx {
    let folder = tempfile::tempdir().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let service = listener.local_addr().unwrap();
    let address = free_port();
    let path = folder.path().join("nginx.conf");
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(configuration(folder.path(), address, service, tollgate).as_bytes()).unwrap();
    let errors = std::fs::File::create(folder.path().join("errors")).unwrap();
    let child = Command::new("nginx")
        .arg("-p")
        .arg(folder.path())
        .arg("-c")
        .arg(&path)
        .args(["-e", "stderr", "-g", "daemon off; master_process off; pid nginx.pid;"])
        .stderr(errors)
        .stdout(Stdio::null())
        .spawn()
        .expect("nginx is installed: cargo xtask setup");
    let service = tokio::spawn(serve(listener));
    let mut nginx = Nginx { child, address, service, folder };
    eventually("nginx listens", || {
        let log = || std::fs::read_to_string(nginx.folder.path().join("errors"));
        assert!(nginx.child.try_wait().unwrap().is_none(), "it ended: {:?}", log());
        async move { tokio::net::TcpStream::connect(address).await.is_ok() }
    })
    .await;
    nginx
}

impl Nginx {
    async fn get(&self, from: [u8; 4], path: &str, headers: &[&str]) -> Response {
        ask_from(from, self.address, &format!("GET {path}"), headers).await
    }
}

async fn both(file: &str) -> (Server, Nginx) {
    let server = server(file).await;
    let nginx = nginx(server.addresses.http).await;
    (server, nginx)
}

/// Nobody that Tollgate trusts.
const CLIENT: [u8; 4] = [127, 0, 0, 2];
const OTHER: [u8; 4] = [127, 0, 0, 3];
/// In `trusted_proxies`, as a load balancer before nginx would be.
const BALANCER: [u8; 4] = [127, 0, 0, 1];

#[tokio::test]
async fn nginx_lets_through_what_is_allowed_and_tells_of_a_denial_with_429() {
    let (_server, nginx) = both(&mapping(BY_ADDRESS)).await;
    for remaining in ["1", "0"] {
        let allowed = nginx.get(CLIENT, "/cart?x=1", &[]).await;
        assert_eq!((allowed.status, allowed.body.as_str()), (200, "the service got GET /cart?x=1 HTTP/1.0"));
        assert_eq!(allowed.header("x-ratelimit-limit"), Some("2"));
        assert_eq!(allowed.header("x-ratelimit-remaining"), Some(remaining));
        assert!(allowed.header("ratelimit-policy").unwrap().starts_with("\"address\";q=2"), "{allowed:?}");
        assert_eq!(allowed.header("retry-after"), None);
    }
    let denied = nginx.get(CLIENT, "/cart", &[]).await;
    assert_eq!(denied.status, 429, "{denied:?}");
    let seconds: u64 = denied.header("retry-after").unwrap().parse().unwrap();
    assert!((3_500..=3_600).contains(&seconds), "{denied:?}");
    assert_eq!(denied.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(denied.header("content-type"), Some("application/problem+json"));
    assert!(denied.body.contains(r#""status":429"#) && !denied.body.contains("the service"), "{denied:?}");
    assert_eq!(nginx.get(OTHER, "/cart", &[]).await.status, 200);
}

#[tokio::test]
async fn a_client_behind_nginx_cannot_pass_for_another() {
    let (_server, nginx) = both(&mapping(BY_ADDRESS)).await;
    let mut statuses = Vec::new();
    for forged in ["1.1.1.1", "2.2.2.2, 127.0.0.1", "127.0.0.1", "unknown", ", ,", "::1"] {
        let header = format!("X-Forwarded-For: {forged}");
        let forwarded = format!("Forwarded: for={forged}");
        let real = format!("X-Real-IP: {forged}");
        statuses.push(nginx.get(CLIENT, "/", &[&header, &forwarded, &real]).await.status);
    }
    assert_eq!(statuses, [200, 200, 429, 429, 429, 429]);
    // The address that was forged has spent nothing.
    let through = nginx.get(BALANCER, "/", &["X-Forwarded-For: 1.1.1.1"]).await;
    assert_eq!((through.status, through.header("x-ratelimit-remaining")), (200, Some("1")));
}

#[tokio::test]
async fn ipv6_is_limited_by_prefix_behind_a_balancer_and_nginx() {
    let (_server, nginx) = both(&mapping(BY_ADDRESS)).await;
    let mut statuses = Vec::new();
    for address in ["2001:db8:0:1::1", "[2001:db8:0:1:ffff::2]:4711", "2001:DB8:0:1::3", "2001:db8:0:2::1"] {
        let header = format!("X-Forwarded-For: 6.6.6.6, {address}");
        statuses.push(nginx.get(BALANCER, "/", &[&header]).await.status);
    }
    assert_eq!(statuses, [200, 200, 429, 200]);
}

#[tokio::test]
async fn method_and_path_are_those_of_the_client_whatever_it_says_besides() {
    let (_server, nginx) = both(&mapping(BY_PATH)).await;
    let forged =
        ["X-Original-URI: /a", "X-Forwarded-Uri: /b", "X-Original-Method: PUT", "X-Forwarded-Method: PUT"];
    for path in ["/users/1", "//users/./2", "/users/3?x=y"] {
        assert_eq!(nginx.get(CLIENT, path, &forged).await.status, 200, "{path}");
    }
    assert_eq!(nginx.get(CLIENT, "/users/4", &forged).await.status, 429);
    let posted = ask_from(CLIENT, nginx.address, "POST /users/5", &[]).await;
    assert_eq!(posted.status, 200, "a POST has a counter of its own");
    let again = nginx.get(CLIENT, "/elsewhere", &["X-Original-URL: http://a/users/6"]).await;
    assert_eq!(again.status, 200);
}

#[tokio::test]
async fn a_refusal_of_the_service_stays_what_it_is() {
    let (_server, nginx) = both(&mapping(BY_ADDRESS)).await;
    let refused = nginx.get(CLIENT, "/forbidden", &[]).await;
    assert_eq!((refused.status, refused.header("x-ratelimit-remaining")), (403, Some("1")), "{refused:?}");
    assert!(refused.body.contains("the service got"), "{refused:?}");
}

#[tokio::test]
async fn a_request_that_is_to_wait_is_held_by_nginx_too() {
    let (_server, nginx) =
        both(&mapping("[generic_key: { descriptor_key: slow, descriptor_value: x }]")).await;
    for _ in 0..3 {
        let held = nginx.get(CLIENT, "/", &[]).await;
        assert_eq!(held.status, 200, "{held:?}");
    }
}

#[tokio::test]
async fn requests_pass_where_tollgate_is_away_and_are_refused_where_nginx_is_not_trusted() {
    let nginx_alone = nginx(free_port()).await;
    let passed = nginx_alone.get(CLIENT, "/", &[]).await;
    assert_eq!((passed.status, passed.body.starts_with("the service got")), (200, true), "{passed:?}");

    let nobody = mapping(BY_ADDRESS).replace("127.0.0.1", "192.0.2.1");
    let (_server, nginx) = both(&nobody).await;
    assert_eq!(nginx.get(CLIENT, "/", &[]).await.status, 403);
}
