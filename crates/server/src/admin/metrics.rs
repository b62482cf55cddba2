//! `/metrics` and `/stats`.
//!
//! With many paths made by callers the page is large and takes milliseconds: it
//! is rendered on a thread of its own, and once for all readers of one moment.

use std::sync::{Arc, Weak};

use axum::Router;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use hyper::body::Bytes;
use tokio::sync::Mutex;
use tollgate_core::{Micros, Time};

use crate::body::{BodyError, HeldBytes, LARGE_PAGES};
use crate::bounds::RESPONSE_LARGE;
use crate::http::SharedBody;
use crate::service::Service;

/// A page that somebody is still reading is given to others for so long.
const SHARED_FOR: Micros = Micros::from_secs(1);

/// The metrics alone, at `path`.
pub(crate) fn router(service: Arc<Service>, path: &str) -> Router {
    Router::new().route(path, get(page)).layer(Extension(Arc::<SharedPage>::default())).with_state(service)
}

/// The page as it was last rendered, as long as somebody reads it.
#[derive(Debug, Default)]
pub(super) struct SharedPage {
    last: Mutex<(Time, Weak<PageText>)>,
}

/// A rendered page; it counts as one large response, whoever reads it.
#[derive(Debug)]
struct PageText {
    text: String,
    _held: HeldBytes,
}

/// A reader of a page.
struct PageReader(Arc<PageText>);

impl AsRef<[u8]> for PageReader {
    fn as_ref(&self) -> &[u8] {
        self.0.text.as_bytes()
    }
}

impl SharedPage {
    /// The page, rendered by the first of those who ask at one moment.
    async fn get(
        &self,
        now: impl Fn() -> Time,
        render: impl FnOnce() -> String + Send + 'static,
    ) -> Result<Bytes, BodyError> {
        let mut last = self.last.lock().await;
        let (rendered, page) = &*last;
        let page = match page.upgrade().filter(|_| now().since(*rendered) < SHARED_FOR) {
            Some(page) => page,
            None => {
                let text = tokio::task::spawn_blocking(render).await.unwrap_or_default();
                let mut held = LARGE_PAGES.none();
                if text.len() >= RESPONSE_LARGE {
                    held.add(text.len())?;
                }
                let page = Arc::new(PageText { text, _held: held });
                *last = (now(), Arc::downgrade(&page));
                page
            }
        };
        Ok(Bytes::from_owner(PageReader(page)))
    }
}

pub(super) async fn page(
    State(service): State<Arc<Service>>,
    Extension(page): Extension<Arc<SharedPage>>,
) -> Response {
    let metrics = Arc::clone(service.metrics());
    match page.get(|| service.now(), move || metrics.render()).await {
        Ok(bytes) => {
            let kind = [(CONTENT_TYPE, tollgate_metrics::CONTENT_TYPE)];
            (Extension(SharedBody), kind, bytes).into_response()
        }
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

pub(super) async fn stats(State(service): State<Arc<Service>>) -> String {
    let lines = move || {
        let counters = service.metrics().dotted().into_iter();
        counters.map(|(name, value)| format!("{name}: {value}\n")).collect()
    };
    tokio::task::spawn_blocking(lines).await.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn readers_of_one_moment_share_a_page_and_later_ones_get_a_new_one() {
        let page = SharedPage::default();
        let at =
            |time: u64, text: &'static str| page.get(move || Time::from_secs(time), move || text.to_owned());
        let first = at(100, "one").await.unwrap();
        let same = at(100, "two").await.unwrap();
        assert_eq!((&first[..], first.as_ptr()), (&b"one"[..], same.as_ptr()));
        assert_eq!(at(101, "three").await.unwrap(), "three", "it is too old");
        drop((first, same));
        assert_eq!(at(101, "four").await.unwrap(), "four", "nobody reads the last one any more");
    }
}
