//! A program that asks a Tollgate server before it works, and calls an API without being a burden to it.
//!
//! `tollgate serve`, then `cargo run -p tollgate-client --example client`.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use tollgate_client::{Client, ClientSettings, OutgoingLayer, OutgoingSettings, WhenUnreachable};
use tollgate_core::{Descriptor, Entry, Verdict};
use tower::ServiceExt as _;
use tower_layer::Layer as _;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A client that lets work go on while the server is away.
fn client(url: &str) -> Result<Client, tollgate_client::Error> {
    Client::http(url)?.with_settings(ClientSettings {
        when_unreachable: WhenUnreachable::Allow,
        ..ClientSettings::default()
    })
}

/// Whether a user may have a report, waiting a little if need be.
async fn may_have_report(client: &Client, user: &str) -> Result<bool, tollgate_client::Error> {
    let entries = [Entry::from(("user_id", user))];
    let descriptors = [Descriptor::new(&entries)];
    let request = tollgate_core::Request::new("reports", &descriptors);
    let reply = client.until_allowed(&request, Duration::from_millis(500)).await?;
    Ok(reply.verdict == Verdict::Allow)
}

/// The text at an address, fetched as politely as its server wishes.
async fn fetch(uri: Uri) -> Result<String, BoxError> {
    let http = legacy::Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let polite = OutgoingLayer::new(OutgoingSettings::default()).layer(http);
    let response = polite.oneshot(Request::get(uri).body(Full::default())?).await?;
    let bytes = response.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "it is there to be looked at")]
async fn main() -> Result<(), BoxError> {
    let client = client("http://127.0.0.1:8080")?;
    for user in ["41", "42"] {
        println!("user {user} may have a report: {}", may_have_report(&client, user).await?);
    }
    let health = fetch(Uri::from_static("http://127.0.0.1:8080/healthcheck")).await?;
    println!("the server says {health}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// A server that answers each connection with the next of these, then closes it.
    async fn answering(answers: &'static [&'static str]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = [0; 4_096];
                assert!(stream.read(&mut bytes).await.unwrap() > 0);
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        url
    }

    #[tokio::test]
    async fn a_server_that_is_away_lets_work_go_on() {
        let client = client("http://127.0.0.1:1").unwrap();
        assert!(may_have_report(&client, "42").await.unwrap());
    }

    #[tokio::test]
    async fn a_refused_fetch_is_made_again_when_the_server_says() {
        let url = answering(&[
            "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\nfine",
        ])
        .await;
        let start = tokio::time::Instant::now();
        assert_eq!(fetch(url.parse().unwrap()).await.unwrap(), "fine");
        assert!(start.elapsed() >= Duration::from_secs(1));
    }
}
