//! What is behind the gateway is away: the store, the API, both.

use tollgate_testkit::RedisServer;

use super::api;
use crate::support::{Setup, http};

/// One request a year, and this while the store is away.
fn rules(on_store_error: &str) -> String {
    format!(
        "domain: gateway\ndescriptors:\n  - key: remote_address\n    \
         rate_limit: {{ unit: year, requests_per_unit: 1, on_store_error: {on_store_error} }}\n"
    )
}

/// A store that is away is what each limit says, and never a 500.
#[tokio::test]
async fn without_redis_each_limit_does_what_it_says() {
    let mut redis = RedisServer::start();
    redis.kill();
    for (on_store_error, expected) in [("allow", [200, 200]), ("deny", [429, 429]), ("local", [200, 429])] {
        let server = Setup::new(&[("gateway.yaml", &rules(on_store_error))])
            .env("REDIS_URL", format!("127.0.0.1:{}", redis.port()))
            .env("TOLLGATE_GATEWAY", "127.0.0.1:0")
            .env("TOLLGATE_UPSTREAM", api().await)
            .start()
            .await;
        let gateway = server.addresses.gateway.unwrap();
        let answers = [http::get(gateway, "/").await, http::get(gateway, "/").await];
        assert_eq!(answers.each_ref().map(|answer| answer.0), expected, "{on_store_error}");
        // A limit that nobody has used says so.
        let is_told = answers[1].1.contains("denies everything while its store cannot be asked");
        assert_eq!(is_told, on_store_error == "deny", "{}", answers[1].1);
    }
}

/// With both away, what is limited is limited, and all else is told that the API is away.
#[tokio::test]
async fn without_redis_and_without_the_api_limits_go_on() {
    let mut redis = RedisServer::start();
    redis.kill();
    let server = Setup::new(&[("gateway.yaml", &rules("local"))])
        .env("REDIS_URL", format!("127.0.0.1:{}", redis.port()))
        .env("TOLLGATE_GATEWAY", "127.0.0.1:0")
        .env("TOLLGATE_UPSTREAM", "http://127.0.0.1:1")
        .start()
        .await;
    let gateway = server.addresses.gateway.unwrap();
    let (status, body) = http::get(gateway, "/").await;
    assert!(status == 502 && body.contains("the upstream cannot be reached"), "{status} {body}");
    assert_eq!(http::get(gateway, "/").await.0, 429);
}
