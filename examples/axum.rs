//! Rate limits inside an axum server: rules, a mapping, a layer.
//!
//! `cargo run -p tollgate-tower --example axum`, then
//! `curl -i -H 'x-api-key: k1' http://127.0.0.1:3000/reports` until it is 429.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use tollgate_http::{Action, AddressPrefixes, Fact, Mapping, MissingValue, PathTemplates};
use tollgate_limiter::Limiter;
use tollgate_rules::SourceFile;
use tollgate_tower::TollgateLayer;

const RULES: &str = "
domain: reports
descriptors:
  - key: remote_address
    rate_limit: { name: by address, requests_per_unit: 100, unit: minute, algorithm: token_bucket }
  - key: api_key
    descriptors:
      - key: path
        value: /reports
        rate_limit: { name: reports, requests_per_unit: 2, unit: minute, algorithm: sliding_log }
";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

fn app() -> Result<Router, BoxError> {
    let source = SourceFile { name: "reports.yaml".into(), text: RULES.into() };
    let loaded = tollgate_rules::load(vec![source], &tollgate_rules::Options::default())?;
    let limiter = Arc::new(Limiter::new(loaded.rules));

    let address = Action::new("remote_address", Fact::RemoteAddress(AddressPrefixes::default()));
    // Whoever leaves the key out shares one counter with all who do.
    let api_key = Action::new("api_key", Fact::header("x-api-key")?).or(MissingValue::Key);
    let path = Action::new("path", Fact::Path(PathTemplates::default()));
    let mapping = Mapping::new("reports", vec![vec![address], vec![api_key, path]])?;

    let layer = TollgateLayer::new(limiter, mapping)
        .with_peer(|known| known.get::<ConnectInfo<SocketAddr>>().map(|connected| connected.0.ip()));
    let reports = get(|| async { "all reports\n" });
    Ok(Router::new().route("/reports", reports).layer(layer))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, app()?.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    async fn get(address: SocketAddr, key: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request =
            format!("GET /reports HTTP/1.1\r\nhost: t\r\nconnection: close\r\nx-api-key: {key}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    }

    #[tokio::test]
    async fn the_third_report_of_a_minute_is_denied() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = app().unwrap().into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await });
        for left in ["1", "0"] {
            let allowed = get(address, "k1").await;
            assert!(allowed.starts_with("HTTP/1.1 200 ") && allowed.ends_with("all reports\n"), "{allowed}");
            assert!(allowed.contains(&format!("x-ratelimit-remaining: {left}\r\n")), "{allowed}");
        }
        let denied = get(address, "k1").await;
        assert!(denied.starts_with("HTTP/1.1 429 "), "{denied}");
        assert!(denied.contains(r#""violated-policies":["reports"]"#), "{denied}");
        assert!(get(address, "k2").await.starts_with("HTTP/1.1 200 "));
    }
}
