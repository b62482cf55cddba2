//! TLS, client certificates and Unix sockets, on real servers.

use std::path::Path;
use std::process::Command;

use tollgate_core::{Secret, Shape};
use tollgate_redis::RedisStore;
use tollgate_redis::config::{ClientCertificate, RedisTls};
use tollgate_testkit::RedisServer;
use tollgate_testkit::redis::free_port;

use crate::support::{check, config, limit, store};

fn openssl(folder: &Path, line: &str) {
    let ended = Command::new("openssl").args(line.split(' ')).current_dir(folder).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// An authority, a server's certificate for `localhost`, a client's.
fn certificates(folder: &Path) {
    let new = "req -x509 -newkey rsa:2048 -nodes -days 2";
    openssl(folder, &format!("{new} -keyout ca.key -out ca.crt -subj /CN=ca"));
    std::fs::write(folder.join("ext"), "subjectAltName=DNS:localhost\n").unwrap();
    for who in ["server", "client"] {
        openssl(
            folder,
            &format!("req -newkey rsa:2048 -nodes -keyout {who}.key -out {who}.csr -subj /CN={who}"),
        );
        let sign = "-CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile ext";
        openssl(folder, &format!("x509 -req -in {who}.csr {sign} -out {who}.crt"));
    }
}

async fn is_counted(store: &RedisStore) -> bool {
    !check(store, "a", &limit(1000, 3600, Shape::FixedWindow)).await.1
}

#[tokio::test]
async fn tls_with_names_chains_and_client_certificates() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let port = free_port();
    let port_text = port.to_string();
    let _server = RedisServer::start_with(&[
        "--tls-port",
        &port_text,
        "--tls-cert-file",
        &path("server.crt"),
        "--tls-key-file",
        &path("server.key"),
        "--tls-ca-cert-file",
        &path("ca.crt"),
    ]);
    let client = || ClientCertificate { chain: read("client.crt"), key: Secret::new(read("client.key")) };
    let full = RedisTls { ca: Some(read("ca.crt")), client: Some(client()), skip_hostname: false };
    let with = |host: &str, tls: RedisTls| {
        let mut config = config(&format!("rediss://{host}:{port}"));
        config.main.tls = Some(tls);
        RedisStore::new(config).unwrap()
    };
    assert!(is_counted(&with("localhost", full.clone())).await);
    assert!(!is_counted(&with("127.0.0.1", full.clone())).await, "the name does not match");
    let any_name = RedisTls { skip_hostname: true, ..full.clone() };
    assert!(is_counted(&with("127.0.0.1", any_name.clone())).await);
    assert!(
        !is_counted(&with("127.0.0.1", RedisTls { ca: None, ..any_name })).await,
        "the chain is verified"
    );
    assert!(
        !is_counted(&with("localhost", RedisTls { client: None, ..full })).await,
        "no client certificate"
    );
}

#[test]
fn what_is_not_pem_is_refused_when_the_store_is_made() {
    let mut config = config("rediss://localhost:1");
    config.main.tls = Some(RedisTls { ca: Some("nonsense".into()), ..RedisTls::default() });
    let error = RedisStore::new(config).unwrap_err().to_string();
    assert_eq!(
        error,
        "the CA certificate cannot be used for TLS: there is no certificate in it; give it as PEM"
    );
}

#[tokio::test]
async fn a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("redis.sock").display().to_string();
    let _server = RedisServer::start_with(&["--unixsocket", &socket]);
    assert!(is_counted(&store(&format!("redis+unix://{socket}"))).await);
}
