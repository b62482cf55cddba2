//! The admin pages, for operators and their tools.
//!
//! On loopback, or elsewhere behind a token, and for no other web site. The Prometheus listener of its
//! own serves one of these pages and nothing else.
//!
//! | module | what it holds |
//! |---|---|
//! | `metrics` | `/metrics` and `/stats` |
//! | `rlconfig` | `/rlconfig`: the rules in force, one line each |
//! | `history` | `/v1/history`: how many, of what, when |
//! | `keys` | `/v1/keys`: a key is looked at or reset |
//! | `blocked` | `/v1/keys/blocked`: whom penalties block |
//! | `overrides` | `/v1/overrides` and `/v1/audit`: exceptions for one descriptor, and who made them |
//! | `rules` | `/v1/rules`: the rules in force |
//! | `explain` | `/v1/explain`: which rules a request meets, and why |
//! | `rule_past` | `/v1/rules/log` and `/v1/rules/usage`: what a rule was, and how close keys come to it |
//! | `settings` | `/v1/settings`: what is set, and where |
//! | `health` | `/v1/health`: how server, store and rules are |
//! | `playground` | `/v1/playground`: all algorithms on the same requests |
//! | `page` | the dashboard at `/` |
//! | `openapi` | the document that describes `/v1` here |
//! | `prometheus` | a part of Prometheus' HTTP interface, over history |
//! | `token`, `session`, `cross_site` | who may see the pages |
//!
//! Deliberately not here: anything that callers of the limiter need.

mod blocked;
mod cross_site;
mod explain;
mod health;
mod history;
mod keys;
mod load;
mod metrics;
mod openapi;
mod overrides;
mod page;
mod playground;
mod prometheus;
mod rlconfig;
mod rule_past;
mod rules;
mod session;
mod settings;
mod token;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, State};
use axum::http::header::VARY;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post};

use crate::http::v1::only;
use crate::service::Service;
use cross_site::AdminHosts;
use metrics::SharedPage;
use session::AdminDoor;
use tollgate_settings::{AdminSettings, Settings};

pub(crate) use metrics::router as prometheus_router;

/// The pages and what they are for, as `/` lists them.
const PAGES: [(&str, &str); 24] = [
    ("/", "the dashboard in a browser; else this list"),
    ("/metrics", "all metrics, in the text format of Prometheus"),
    ("/prometheus", "history for Grafana and promtool: the address of a Prometheus data source"),
    ("/rlconfig", "the rules in force, one limit a line"),
    ("/stats", "all counters by their dotted names"),
    ("/v1/audit", "who changed which override, and when"),
    ("/v1/explain", "which rules a request meets, and why; POST it, or a rule's name"),
    ("/v1/health", "how the server, its store and its rules are"),
    ("/v1/history/keys", "erasing a key from history, with DELETE: ?name=user_id=42"),
    ("/v1/history/labels", "what history can be asked by; /v1/history/labels/route/values has the names"),
    ("/v1/history/series", "how many, when: ?by=route&name=/cart&last=24h&format=json|ndjson|csv"),
    ("/v1/history/status", "where history is kept, how finely, and what it lost"),
    ("/v1/history/summary", "all requests in a few numbers: ?last=7d"),
    ("/v1/history/top", "who sends the most: ?by=route|rule|key&last=1h&order=total|denied&limit=10"),
    ("/v1/keys", "what the counters of a key hold, and resetting it: ?domain=…&key=value"),
    ("/v1/keys/blocked", "the keys that penalties block, as far as this server has met them"),
    ("/v1/load", "how loaded the system is, which elastic limits go by; POST reports a load"),
    ("/v1/openapi.json", "what /v1 takes and answers, as an OpenAPI document"),
    ("/v1/overrides", "exceptions for one descriptor, with an end: GET, PUT and DELETE"),
    ("/v1/playground", "what each algorithm says to the same requests; POST a limit and times"),
    ("/v1/rules", "the rules in force with all their numbers, as JSON"),
    ("/v1/rules/log", "what changed in the rules, and when; ?path=…&name=… for one rule's limits"),
    ("/v1/rules/usage", "how close keys come to a limit: ?path=…&name=…&last=24h"),
    ("/v1/settings", "what is set, and where; secrets are hidden"),
];

/// All pages; only for callers who show the token, if there is one.
pub(crate) fn router(service: Arc<Service>, settings: &Settings) -> Router {
    let AdminSettings { token, hosts, .. } = &settings.admin;
    let hosts = AdminHosts { names: hosts.clone(), has_token: token.is_some() };
    let pages = Router::new()
        .route("/", get(front))
        .route("/assets/{file}", get(asset))
        .route("/metrics", get(metrics::page).layer(Extension(Arc::<SharedPage>::default())))
        .route("/rlconfig", get(rlconfig))
        .route("/stats", get(metrics::stats))
        .route("/v1/settings", only("GET", get(settings::show)))
        .merge(v1_router())
        .merge(prometheus::router())
        .fallback(no_such_page)
        .with_state(Arc::clone(&service));
    let pages = match token {
        Some(token) => {
            let door = Arc::new(AdminDoor::new(token.clone(), Arc::clone(&service)));
            let sessions = post(session::sign_in).delete(session::sign_out).with_state(Arc::clone(&door));
            pages.route("/v1/session", sessions).layer(from_fn_with_state(door, session::demand))
        }
        None => pages,
    };
    pages.layer(from_fn(page::secure)).layer(from_fn_with_state(Arc::new(hosts), cross_site::refuse))
}

/// The paths under `/v1`.
fn v1_router() -> Router<Arc<Service>> {
    let overrides = get(overrides::list).put(overrides::put).delete(overrides::remove);
    let keys = get(keys::inspect).post(keys::inspect_body).delete(keys::reset);
    Router::new()
        .route("/v1/keys", only("GET, POST, DELETE", keys))
        .route("/v1/keys/blocked", only("GET", get(blocked::list)))
        .route("/v1/keys/reset", only("POST", post(keys::reset_body)))
        .route("/v1/explain", only("POST", post(explain::explain)))
        .route("/v1/overrides", only("GET, PUT, DELETE", overrides))
        .route("/v1/audit", only("GET", get(overrides::audit)))
        .route("/v1/health", only("GET", get(health::show)))
        .route("/v1/load", only("GET, POST, DELETE", get(load::show).post(load::report).delete(load::forget)))
        .route("/v1/playground", only("POST", post(playground::play)))
        .route("/v1/rules", only("GET", get(rules::list)))
        .route("/v1/rules/log", only("GET", get(rule_past::log)))
        .route("/v1/rules/usage", only("GET", get(rule_past::usage)))
        .route("/v1/history/series", only("GET", get(history::series)))
        .route("/v1/history/top", only("GET", get(history::top)))
        .route("/v1/history/summary", only("GET", get(history::summary)))
        .route("/v1/history/keys", only("DELETE", delete(history::forget)))
        .route("/v1/history/labels", only("GET", get(history::labels)))
        .route("/v1/history/labels/{name}/values", only("GET", get(history::values)))
        .route("/v1/history/status", only("GET", get(history::status)))
        .route("/v1/openapi.json", only("GET", get(openapi::document)))
}

fn pages() -> String {
    PAGES.iter().map(|(path, help)| format!("{path}: {help}\n")).collect()
}

/// The dashboard for a browser, and for everybody else what there is.
async fn front(headers: HeaderMap) -> Response {
    let page = page::wants_page(&headers).then(|| page::index(&headers)).flatten();
    page.unwrap_or_else(|| ([(VARY, "accept")], pages()).into_response())
}

async fn asset(uri: Uri, headers: HeaderMap) -> Response {
    match page::file(uri.path(), &headers) {
        Some(file) => file,
        None => no_such_page().await,
    }
}

async fn no_such_page() -> Response {
    (StatusCode::NOT_FOUND, format!("there is no such page; these there are:\n{}", pages())).into_response()
}

async fn rlconfig(State(service): State<Arc<Service>>) -> String {
    rlconfig::page(&service.limiter().rules())
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
