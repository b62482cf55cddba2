//! Routes, upstreams and mapping are reloaded with `tollgate.yaml`.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::{FREE, named_api};
use crate::support::{Server, Setup, eventually, http, replace_file};

/// A file with one route to this upstream.
fn file(upstream: &str, more: &str) -> String {
    format!(
        "listen: {{ gateway: '127.0.0.1:0' }}\ngateway: {{ routes: [{{ path: '/{{*all}}', upstream: '{upstream}' }}] }}\n{more}"
    )
}

async fn answers(server: &Server, path: &str) -> String {
    http::get(server.addresses.gateway.unwrap(), path).await.1
}

#[tokio::test]
async fn other_routes_are_in_force_within_a_moment_and_requests_on_their_way_go_on() {
    // An API that answers when it is told to.
    let slow = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let setup = Setup::new(&[("free.yaml", FREE)]);
    let path = setup.path("tollgate.yaml");
    std::fs::write(&path, file(&format!("http://{}", slow.local_addr().unwrap()), "")).unwrap();
    let server = setup.file_on_disk(&path).start().await;
    let mut client = TcpStream::connect(server.addresses.gateway.unwrap()).await.unwrap();
    client.write_all(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let (mut backend, _) = slow.accept().await.unwrap();
    let new = named_api("new ").await;
    replace_file(&path, file(&new, ""));
    let metrics = || async { http::get(server.addresses.admin, "/metrics").await.1 };
    eventually("the new route is in force", || async { metrics().await.contains(&new) }).await;
    backend.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold").await.unwrap();
    let mut answer = [0; 1024];
    let length = client.read(&mut answer).await.unwrap();
    assert!(answer[..length].ends_with(b"old"), "{}", String::from_utf8_lossy(&answer[..length]));
    // The same connection goes on, by the new route.
    client.write_all(b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let length = client.read(&mut answer).await.unwrap();
    assert!(String::from_utf8_lossy(&answer[..length]).contains("new "));
}

#[tokio::test]
async fn a_file_that_is_wrong_changes_nothing() {
    let setup = Setup::new(&[("free.yaml", FREE)]);
    let path = setup.path("tollgate.yaml");
    let good = file(&named_api("good ").await, "");
    std::fs::write(&path, &good).unwrap();
    let server = setup.file_on_disk(&path).start().await;
    let failed = || async { http::get(server.addresses.admin, "/metrics").await.1 };
    for wrong in ["gateway: [", "gateway: { routes: [{ upstream: nowhere }] }\n"] {
        replace_file(&path, wrong);
        eventually("it is refused", || async {
            failed().await.contains("tollgate_settings_load_failed 1\n")
        })
        .await;
        assert!(answers(&server, "/x").await.starts_with("good "), "{wrong}");
        replace_file(&path, &good);
        eventually("it is right again", || async {
            failed().await.contains("tollgate_settings_load_failed 0\n")
        })
        .await;
    }
}

/// The mapping is reloaded, too, and what it takes from where secrets are stays hidden in the history.
#[tokio::test]
async fn another_mapping_is_in_force_and_hides_what_it_must() {
    const KEYED: &str = "domain: edge\ndescriptors:\n  - key: api_key\n    rate_limit: { name: keyed, unit: hour, requests_per_unit: 1 }\n";
    let setup = Setup::new(&[("edge.yaml", KEYED)]);
    let path = setup.path("tollgate.yaml");
    let upstream = named_api("api ").await;
    std::fs::write(&path, file(&upstream, "")).unwrap();
    let server = setup.file_on_disk(&path).start().await;
    let gateway = server.addresses.gateway.unwrap();
    let ask = || async { http::get_with(gateway, "/", "x-api-key: geheim-42").await.0 };
    let ask_path = || async { http::get_with(gateway, "/x", "x-api-key: geheim-42").await.0 };
    assert_eq!((ask().await, ask_path().await, ask_path().await), (404, 200, 200));
    let mapping = "mapping: { domain: edge, descriptors: [[request_headers: { header_name: x-api-key, descriptor_key: api_key }]] }\n";
    replace_file(&path, file(&upstream, mapping));
    eventually("the mapping is in force", || async { ask_path().await == 429 }).await;
    let (_, top) = http::get(server.addresses.admin, "/v1/history/top?by=key&last=1h").await;
    assert!(!top.contains("geheim"), "{top}");
}

/// What takes a restart is shown as it was at the start, whatever the file says now.
#[tokio::test]
async fn the_settings_in_force_follow_what_is_reloaded_and_nothing_else() {
    let setup = Setup::new(&[("free.yaml", FREE)]);
    let path = setup.path("tollgate.yaml");
    let upstream = named_api("api ").await;
    let file = |idle: &str, status: u16| {
        format!(
            "listen: {{ gateway: '127.0.0.1:0' }}\nforward_auth: {{ deny_status: {status} }}\n\
             gateway: {{ upstream: '{upstream}', timeouts: {{ idle: {idle} }} }}\n"
        )
    };
    std::fs::write(&path, file("7s", 403)).unwrap();
    let server = setup.file_on_disk(&path).start().await;
    let settings = || async {
        let (_, body) = http::get(server.addresses.admin, "/v1/settings").await;
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        ["gateway.timeouts.idle", "forward_auth.deny_status"].map(|name| {
            let found = body["settings"].as_array().unwrap().iter().find(|own| own["name"] == name);
            found.unwrap()["value"].as_str().unwrap().to_owned()
        })
    };
    assert_eq!(settings().await, ["7s", "403"]);
    replace_file(&path, file("8s", 429));
    eventually("the new timeout is shown", || async { settings().await == ["8s", "403"] }).await;
}
