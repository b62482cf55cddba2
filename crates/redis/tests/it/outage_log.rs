//! What operators read in the log of an outage.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tollgate_core::Shape;
use tollgate_testkit::redis::free_port;
use tollgate_testkit::{RedisCluster, RedisServer};
use tracing::subscriber::DefaultGuard;

use crate::support::{check, limit, store};

/// What this thread logs.
#[derive(Clone, Default)]
struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl CapturedLog {
    fn start() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn warnings(&self) -> Vec<String> {
        let bytes = self.0.lock().unwrap();
        let text = String::from_utf8_lossy(&bytes);
        text.lines().filter(|line| line.contains("WARN")).map(str::to_owned).collect()
    }
}

impl Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The same server as the first of a cluster.
fn cluster_url(url: &str) -> String {
    url.replace("redis://", "redis+cluster://")
}

/// The only warning while a store that cannot be used is asked many times.
async fn only_warning(url: &str) -> String {
    let (log, _guard) = CapturedLog::start();
    let store = store(url);
    let limit = limit(1000, 3600, Shape::FixedWindow);
    for _ in 0..50 {
        assert!(check(&store, "a", &limit).await.1, "{url} is counted on");
    }
    let mut warnings = log.warnings();
    assert_eq!(warnings.len(), 1, "{url}: {warnings:?}");
    warnings.remove(0)
}

#[tokio::test]
async fn the_first_line_of_an_outage_has_the_words_of_the_server_or_the_system() {
    let locked = RedisServer::start_with(&["--requirepass", "right"]);
    let open = RedisServer::start();
    for (url, words, fix) in [
        (format!("redis://127.0.0.1:{}", free_port()), "Connection refused", "check that the server runs"),
        ("redis://no-such-host.invalid".to_owned(), "lookup address", "check that the server runs"),
        (
            "redis+unix:///no/such/socket".to_owned(),
            "No such file or directory",
            "check that the server runs",
        ),
        (locked.url().replace("://", "://:s3cret@"), "WRONGPASS", "check the user and the password"),
        (locked.url(), "NOAUTH", "check the user and the password"),
        (open.url().replace("://", "://:s3cret@"), "without any password configured", "check the user"),
        (format!("{}/99", open.url()), "DB index is out of range", "see what the server said"),
        (open.url().replace("redis://", "rediss://"), "TLS", "TLS"),
        (cluster_url(&format!("redis://127.0.0.1:{}", free_port())), "Connection refused", "server runs"),
        (cluster_url(&locked.url()), "NOAUTH", "check the user and the password"),
        (cluster_url(&locked.url().replace("://", "://:s3cret@")), "WRONGPASS", "check the user"),
        (cluster_url(&open.url()), "cluster support disabled", "see what the server said"),
    ] {
        let line = only_warning(&url).await;
        assert!(line.contains(words) && line.contains(fix), "{url}: {line}");
        assert!(!line.contains("s3cret"), "{line}");
    }
}

#[tokio::test]
async fn a_password_that_the_server_repeats_is_not_logged() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut bytes = [0; 1024];
            while let Ok(1..) = client.read(&mut bytes).await {
                let reply = "-ERR unknown command `AUTH`, with args beginning with: `s3cret`, \r\n";
                if client.write_all(reply.as_bytes()).await.is_err() {
                    break;
                }
            }
        }
    });
    let line = only_warning(&format!("redis://:s3cret@127.0.0.1:{port}")).await;
    assert!(line.contains("unknown command"), "{line}");
    assert!(!line.contains("s3cret"), "{line}");
}

#[tokio::test]
async fn a_cluster_that_is_taken_for_one_server_is_told_once() {
    let cluster = RedisCluster::start();
    let (log, _guard) = CapturedLog::start();
    let store = store(&cluster.servers[0].url());
    let limit = limit(1000, 3600, Shape::FixedWindow);
    let mut degraded = 0;
    for user in 0..50 {
        degraded += u32::from(check(&store, &user.to_string(), &limit).await.1);
    }
    assert!(degraded > 10, "two of three slots are elsewhere");
    let warnings = log.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("MOVED") && warnings[0].contains("redis+cluster://"), "{warnings:?}");
}
