//! What callers are told about requests that are sent later: the 202, and what became of one.
//!
//! `deferral` answers with the first and the gateway's listener with both; the server's `/v1` does
//! the same for its own callers.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::StatusCode;
use serde::Serialize;
use tollgate_core::Micros;
use tollgate_defer::{DeferredEnd, DeferredId, DeferredRequest, DeferredState, DeferredStatus, KeptResponse};

/// Where requests that are sent later are asked for; their id follows.
pub const DEFERRED_PATH: &str = "/v1/deferred/";

/// The path at which a request is asked for.
pub fn location(id: DeferredId) -> String {
    format!("{DEFERRED_PATH}{id}")
}

/// The id of such a path; none if it is not one.
pub fn id_of(path: &str) -> Option<DeferredId> {
    path.strip_prefix(DEFERRED_PATH)?.parse().ok()
}

/// The body of a 202.
#[derive(Debug, Serialize)]
struct TakenBody<'a> {
    id: String,
    status: &'static str,
    location: String,
    rule: &'a str,
    retry_after_ms: u64,
    expires_at_unix_s: u64,
}

/// The body of a 202.
pub fn taken(request: &DeferredRequest, retry_after: Micros) -> Vec<u8> {
    json(&TakenBody {
        id: request.id.to_string(),
        status: DeferredState::Waiting.name(),
        location: location(request.id),
        rule: &request.rule,
        retry_after_ms: retry_after.as_millis_ceil(),
        expires_at_unix_s: request.expires.get() / 1_000_000,
    })
}

/// What became of a request.
#[derive(Debug, Serialize)]
struct StatusBody<'a> {
    id: String,
    status: &'static str,
    /// Attempts that failed.
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<KeptResponseBody<'a>>,
}

/// What the upstream answered.
#[derive(Debug, Serialize)]
struct KeptResponseBody<'a> {
    status: u16,
    headers: Vec<(&'a str, String)>,
    /// If it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    /// If it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    /// The body was longer than is kept.
    truncated: bool,
}

impl<'a> KeptResponseBody<'a> {
    fn new(response: &'a KeptResponse) -> Self {
        let text = std::str::from_utf8(&response.body).ok();
        let header = |(name, value): &'a (String, Vec<u8>)| {
            (name.as_str(), String::from_utf8_lossy(value).into_owned())
        };
        Self {
            status: response.status,
            headers: response.headers.iter().map(header).collect(),
            body: text,
            body_base64: text.is_none().then(|| BASE64_STANDARD.encode(&response.body)),
            truncated: response.is_cut,
        }
    }
}

/// The status and the body of the answer to whoever asks what became of a request.
pub fn status(id: DeferredId, known: Option<&DeferredStatus>) -> (StatusCode, Vec<u8>) {
    let Some(DeferredStatus { state, attempts }) = known else {
        return (StatusCode::NOT_FOUND, problem(StatusCode::NOT_FOUND, UNKNOWN));
    };
    let (reason, response) = match state {
        DeferredState::Waiting | DeferredState::Sending => (None, None),
        DeferredState::Ended(DeferredEnd::Expired) => (Some("it waited for too long"), None),
        DeferredState::Ended(DeferredEnd::Done(response)) => (None, Some(response)),
        DeferredState::Ended(DeferredEnd::Failed { reason, response }) => {
            (Some(reason.as_str()), response.as_ref())
        }
    };
    let response = response.map(KeptResponseBody::new);
    let body = StatusBody { id: id.to_string(), status: state.name(), attempts: *attempts, reason, response };
    (StatusCode::OK, json(&body))
}

/// Whether somebody who asks again later will be told something else.
pub const fn is_open(known: &DeferredStatus) -> bool {
    matches!(known.state, DeferredState::Waiting | DeferredState::Sending)
}

const UNKNOWN: &str = "no request with this id is known, or its result is no longer kept";
/// What is told while the queue cannot be read.
pub const UNREADABLE: &str = "the queue of deferred requests cannot be read at the moment; ask again later";

#[derive(Serialize)]
struct ProblemBody<'a> {
    title: &'a str,
    status: u16,
    detail: &'a str,
}

/// A problem (RFC 9457).
pub fn problem(status: StatusCode, detail: &str) -> Vec<u8> {
    json(&ProblemBody {
        title: status.canonical_reason().unwrap_or_default(),
        status: status.as_u16(),
        detail,
    })
}

fn json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("texts and numbers are always JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_text_where_it_is_and_base64_where_it_is_not() {
        let told = |body: &[u8]| {
            let headers = vec![("content-type".to_owned(), b"x".to_vec())];
            let response = KeptResponse { status: 201, headers, body: body.to_vec(), is_cut: true };
            let state = DeferredState::Ended(DeferredEnd::Done(response));
            let known = DeferredStatus { state, attempts: 2 };
            let (status, body) = status(DeferredId::from_bytes([7; 16]), Some(&known));
            (status.as_u16(), String::from_utf8(body).unwrap())
        };
        let id = "07".repeat(16);
        let begin = format!(
            r#"{{"id":"{id}","status":"done","attempts":2,"response":{{"status":201,"headers":[["content-type","x"]],"#
        );
        assert_eq!(told(b"hello"), (200, format!(r#"{begin}"body":"hello","truncated":true}}}}"#)));
        assert_eq!(told(&[0xFF, 0]), (200, format!(r#"{begin}"body_base64":"/wA=","truncated":true}}}}"#)));
        assert_eq!(status(DeferredId::random(), None).0, StatusCode::NOT_FOUND);
    }

    #[test]
    fn only_a_path_with_an_id_is_about_a_deferred_request() {
        let id = DeferredId::random();
        assert_eq!(id_of(&location(id)), Some(id));
        for path in ["/v1/deferred/", "/v1/deferred/x", "/v1/deferred", "/"] {
            assert_eq!(id_of(path), None, "{path}");
        }
    }
}
