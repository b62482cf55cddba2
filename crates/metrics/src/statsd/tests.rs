//! Tests with a daemon of our own at the other end of a real socket.

use std::collections::BTreeSet;

use tokio::io::{AsyncBufReadExt as _, BufReader, Lines as Received};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tollgate_core::Micros;

use super::super::{Call, MetricsConfig};
use super::*;
use crate::config::{Mogrifier, StatsdDialect, StatsdProtocol};

fn config(port: u16, protocol: StatsdProtocol, dialect: StatsdDialect) -> StatsdConfig {
    StatsdConfig {
        host: "127.0.0.1".into(),
        port,
        protocol,
        dialect,
        tags: Vec::new(),
        flush_interval: Duration::from_secs(10),
    }
}

fn exporter(config: &StatsdConfig) -> (Arc<Metrics>, StatsdExporter) {
    let metrics = Arc::new(Metrics::new(MetricsConfig::default()));
    let exporter = StatsdExporter::new(Arc::clone(&metrics), config).unwrap();
    (metrics, exporter)
}

async fn received(from: &mut Received<BufReader<TcpStream>>, count: usize) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for _ in 0..count {
        lines.insert(from.next_line().await.unwrap().expect("a line"));
    }
    lines
}

async fn accept(listener: &TcpListener) -> Received<BufReader<TcpStream>> {
    let (stream, _) = listener.accept().await.unwrap();
    BufReader::new(stream).lines()
}

fn set(lines: &[&str]) -> BTreeSet<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[tokio::test]
async fn what_has_come_since_the_last_flush_is_sent_and_nothing_else() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut config = config(port, StatsdProtocol::Tcp, StatsdDialect::Plain);
    config.tags = vec![("env".into(), "test".into())];
    let (metrics, mut exporter) = exporter(&config);
    metrics.global_shadow();
    metrics.global_shadow();
    metrics.served(Call::ShouldRateLimit, Micros::new(500));
    metrics.served(Call::ShouldRateLimit, Micros::new(600));
    metrics.served(Call::ShouldRateLimit, Micros::new(3_300));
    assert!(exporter.flush().await);
    let mut lines = accept(&listener).await;
    let expected = [
        "ratelimit.service.global_shadow_mode.__env=test:2|c",
        "ratelimit_server.ShouldRateLimit.total_requests.__env=test:3|c",
        "ratelimit_server.ShouldRateLimit.response_time.__env=test:0|ms|@0.5",
        "ratelimit_server.ShouldRateLimit.response_time.__env=test:3|ms",
        "tollgate.rules.__env=test:0|g",
    ];
    assert_eq!(received(&mut lines, 5).await, set(&expected));
    assert!(exporter.flush().await);
    assert_eq!(received(&mut lines, 1).await, set(&["tollgate.rules.__env=test:0|g"]));
    metrics.global_shadow();
    assert!(exporter.flush().await);
    let expected = ["ratelimit.service.global_shadow_mode.__env=test:1|c", "tollgate.rules.__env=test:0|g"];
    assert_eq!(received(&mut lines, 2).await, set(&expected));
}

#[tokio::test]
async fn a_daemon_that_is_away_gets_everything_when_it_is_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (metrics, mut exporter) =
        exporter(&config(address.port(), StatsdProtocol::Tcp, StatsdDialect::Plain));
    drop(listener);
    metrics.global_shadow();
    assert!(!exporter.flush().await);
    metrics.global_shadow();
    let listener = TcpListener::bind(address).await.unwrap();
    let mut skipped = 0;
    while !exporter.flush().await {
        skipped += 1;
        assert!(skipped < 10, "it is tried again");
    }
    assert_eq!(skipped, 1, "and not at once");
    let mut lines = accept(&listener).await;
    let expected = ["ratelimit.service.global_shadow_mode:2|c", "tollgate.rules:0|g"];
    assert_eq!(received(&mut lines, 2).await, set(&expected));
}

#[tokio::test]
async fn a_daemon_that_hangs_up_is_connected_to_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (_, mut exporter) = exporter(&config(port, StatsdProtocol::Tcp, StatsdDialect::Plain));
    assert!(exporter.flush().await);
    drop(accept(&listener).await);
    // The first write after that may still go into the void.
    let mut flushes = 0;
    let again = loop {
        tokio::select! {
            biased;
            again = accept(&listener) => break again,
            _ = exporter.flush() => flushes += 1,
        }
        assert!(flushes < 1_000, "never connected again");
    };
    drop(again);
}

#[tokio::test]
async fn datagrams_hold_whole_lines_and_are_not_too_long() {
    let daemon = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = daemon.local_addr().unwrap().port();
    let mut config = config(port, StatsdProtocol::Udp, StatsdDialect::Plain);
    config.tags = vec![("long".into(), "x".repeat(100))];
    let (metrics, mut exporter) = exporter(&config);
    // Times from 0 to 9 ms make lines enough for several datagrams.
    for n in 0..20 {
        metrics.served(Call::ShouldRateLimit, Micros::new(n * 500 + 1));
        metrics.served(Call::HealthCheck, Micros::new(n * 500 + 1));
    }
    assert!(exporter.flush().await);
    let (mut lines, mut datagrams) = (Vec::<String>::new(), 0);
    let mut buffer = [0; 65_536];
    while lines.len() < 23 {
        let length = daemon.recv(&mut buffer).await.unwrap();
        assert!(length <= 1_432);
        let text = std::str::from_utf8(&buffer[..length]).unwrap();
        assert!(text.ends_with('\n'));
        lines.extend(text.lines().map(str::to_owned));
        datagrams += 1;
    }
    assert!(datagrams > 1);
    assert!(
        lines.iter().any(|line| line.starts_with("ratelimit_server.Check.r") && line.ends_with(":4|ms|@0.5"))
    );
}

#[tokio::test]
async fn dogstatsd_has_tags_of_its_own_over_datagrams() {
    let daemon = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = daemon.local_addr().unwrap().port();
    let mogrifier = Mogrifier {
        pattern: r"^ratelimit_server\.(.*)\.total_requests$".into(),
        name: "ratelimit.requests".into(),
        tags: vec![("method".into(), "$1".into())],
    };
    let mut config = config(port, StatsdProtocol::Tcp, StatsdDialect::Dog(vec![mogrifier]));
    config.tags = vec![("env".into(), "test".into())];
    let (metrics, mut exporter) = exporter(&config);
    metrics.served(Call::HealthCheck, Micros::new(10));
    assert!(exporter.flush().await);
    let mut buffer = [0; 2_048];
    let length = daemon.recv(&mut buffer).await.unwrap();
    let text = std::str::from_utf8(&buffer[..length]).unwrap();
    let expected = [
        "ratelimit.requests:1|c|#env:test,method:Check",
        "ratelimit_server.Check.response_time:0|ms|#env:test",
        "tollgate.rules:0|g|#env:test",
    ];
    assert_eq!(text.lines().map(str::to_owned).collect::<BTreeSet<_>>(), set(&expected));
}

#[tokio::test]
async fn a_stop_flushes_once_more() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (metrics, exporter) = exporter(&config(port, StatsdProtocol::Tcp, StatsdDialect::Plain));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let task = tokio::spawn(exporter.run(async { drop(stopped.await) }));
    let mut lines = accept(&listener).await;
    assert_eq!(received(&mut lines, 1).await, set(&["tollgate.rules:0|g"]), "the first flush is at once");
    metrics.global_shadow();
    stop.send(()).unwrap();
    task.await.unwrap();
    let expected = ["ratelimit.service.global_shadow_mode:1|c", "tollgate.rules:0|g"];
    assert_eq!(received(&mut lines, 2).await, set(&expected));
}
