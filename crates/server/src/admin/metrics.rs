//! `/metrics` and `/stats`.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

use crate::service::Service;

/// The metrics alone, at `path`.
pub(crate) fn router(service: Arc<Service>, path: &str) -> Router {
    Router::new().route(path, get(page)).with_state(service)
}

/// With many paths made by callers it takes milliseconds: on a thread of its
/// own, so that neither callers nor other pages wait for it.
pub(super) async fn page(State(service): State<Arc<Service>>) -> Response {
    let page = tokio::task::spawn_blocking(move || service.metrics().page(service.now())).await;
    let page = Bytes::from_owner(SharedPage(page.unwrap_or_default()));
    ([(CONTENT_TYPE, tollgate_metrics::CONTENT_TYPE)], page).into_response()
}

/// A page that several responses send; it can be several megabytes.
struct SharedPage(Arc<String>);

impl AsRef<[u8]> for SharedPage {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

pub(super) async fn stats(State(service): State<Arc<Service>>) -> String {
    let lines = move || {
        let counters = service.metrics().dotted().into_iter();
        counters.map(|(name, value)| format!("{name}: {value}\n")).collect()
    };
    tokio::task::spawn_blocking(lines).await.unwrap_or_default()
}
