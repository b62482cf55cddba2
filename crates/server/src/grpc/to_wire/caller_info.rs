//! What Envoy passes on to its caller: headers, and the body of a denial.
//!
//! Only where the settings say so, since responses of the reference have neither.
//!
//! Deliberately not here: their content, which is the same on all listeners
//! (`tollgate_http::response`).

use envoy_types::pb::envoy::config::core::v3::HeaderValue;
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use tollgate_core::Request;
use tollgate_limiter::Reply;

use super::header;
use tollgate_http::response::{CallerView, DEGRADED, PROBLEM_JSON, ResponseHeaders, WAIT};
use tollgate_settings::{EnvoyPassThrough, ReplySettings};

/// Adds the headers to `headers`, and returns the body, which is empty where there is none.
pub(super) fn add(
    request: &Request<'_>,
    reply: &Reply,
    answers: &ReplySettings,
    headers: &mut Vec<HeaderValue>,
) -> Vec<u8> {
    let has_body = match answers.through_envoy {
        EnvoyPassThrough::Off => return Vec::new(),
        EnvoyPassThrough::Headers => false,
        EnvoyPassThrough::All => reply.verdict.is_deny(),
    };
    let view = CallerView::new(&answers.responses, request, reply);
    // Every reply tells of a wait and of a store that is away, whatever the settings say.
    let more =
        view.headers::<ResponseHeaders>().into_iter().filter(|(name, _)| *name != WAIT && *name != DEGRADED);
    headers.extend(more.map(|(name, value)| header(name.as_str(), value.to_str().unwrap_or_default())));
    if !has_body {
        return Vec::new();
    }
    headers.push(header(CONTENT_TYPE.as_str(), PROBLEM_JSON));
    view.problem(StatusCode::TOO_MANY_REQUESTS.as_u16()).to_bytes()
}
