//! The admin pages, for operators and their tools.
//!
//! On loopback, or elsewhere behind a token. The Prometheus listener of its
//! own serves one of these pages and nothing else.
//!
//! | module | what it holds |
//! |---|---|
//! | `rlconfig` | `/rlconfig`: the rules in force, one line each |
//! | `token` | who may see the pages |
//!
//! Deliberately not here: anything that callers of the limiter need.

mod rlconfig;
mod token;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

use crate::service::Service;
use crate::settings::Secret;
use crate::v1;
use crate::{metrics, prometheus};

/// The pages and what they are for, as `/` lists them.
const PAGES: [(&str, &str); 13] = [
    ("/", "this list"),
    ("/metrics", "all metrics, in the text format of Prometheus"),
    ("/prometheus", "history for Grafana and promtool: the address of a Prometheus data source"),
    ("/rlconfig", "the rules in force, one limit a line"),
    ("/stats", "all counters by their dotted names"),
    ("/v1/history/labels", "what history can be asked by; /v1/history/labels/route/values has the names"),
    ("/v1/history/series", "how many, when: ?by=route&name=/cart&last=24h&format=json|ndjson|csv"),
    ("/v1/history/status", "where history is kept, how finely, and what it lost"),
    ("/v1/history/summary", "all requests in a few numbers: ?last=7d"),
    ("/v1/history/top", "who sends the most: ?by=route|rule|key&last=1h&order=total|denied&limit=10"),
    ("/v1/keys", "what the counters of a key hold, and resetting it: ?domain=…&key=value"),
    ("/v1/openapi.json", "what /v1 takes and answers, as an OpenAPI document"),
    ("/v1/rules", "the rules in force with all their numbers, as JSON"),
];

/// All pages; only for callers who show `token`, if there is one.
pub(crate) fn router(service: Arc<Service>, token: Option<Secret>) -> Router {
    let pages = Router::new()
        .route("/", get(list))
        .route("/metrics", get(metrics_page))
        .route("/rlconfig", get(rlconfig))
        .route("/stats", get(stats))
        .merge(v1::admin_router())
        .merge(prometheus::router())
        .fallback(no_such_page)
        .with_state(service);
    match token {
        Some(token) => pages.layer(from_fn_with_state(Arc::new(token), token::demand)),
        None => pages,
    }
}

/// The metrics alone, at `path`.
pub(crate) fn prometheus_router(service: Arc<Service>, path: &str) -> Router {
    Router::new().route(path, get(metrics_page)).with_state(service)
}

fn pages() -> String {
    PAGES.iter().map(|(path, help)| format!("{path}: {help}\n")).collect()
}

async fn list() -> String {
    pages()
}

async fn no_such_page() -> Response {
    (StatusCode::NOT_FOUND, format!("there is no such page; these there are:\n{}", pages())).into_response()
}

/// With many paths made by callers it takes milliseconds: on a thread of its
/// own, so that neither callers nor other pages wait for it.
async fn metrics_page(State(service): State<Arc<Service>>) -> Response {
    let page = tokio::task::spawn_blocking(move || service.metrics().render()).await;
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], page.unwrap_or_default()).into_response()
}

async fn rlconfig(State(service): State<Arc<Service>>) -> String {
    rlconfig::page(&service.limiter().rules())
}

async fn stats(State(service): State<Arc<Service>>) -> String {
    let lines = move || {
        let counters = service.metrics().dotted().into_iter();
        counters.map(|(name, value)| format!("{name}: {value}\n")).collect()
    };
    tokio::task::spawn_blocking(lines).await.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_says_what_each_page_is_for() {
        assert!(PAGES.is_sorted());
        assert!(pages().contains("/rlconfig: the rules in force"));
    }
}
