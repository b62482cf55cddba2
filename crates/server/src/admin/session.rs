//! Who may see the admin pages where there is a token: whoever shows it, and whoever signed in with it.
//!
//! Programs send the token with every request. A browser sends it once, to `/v1/session`, and gets
//! a cookie that no script can read and no other site's request carries.
//!
//! Invariants: without token or session only the dashboard's own files are served, which are the
//! same for everybody; secrets are compared in constant time; attempts to sign in are limited for
//! each address, and so are sessions, in number and in length. Sessions end with the process.
//!
//! Deliberately not here: requests from other sites, which `cross_site` has refused by now.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{COOKIE, RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use parking_lot::Mutex;
use serde::Deserialize;
use tollgate_core::{Limit, Micros, Refill, Shape, Time, Verdict};
use tollgate_limiter::{Capacity, KeyedLimiter, SystemClock};
use tollgate_settings::Secret;

use super::{page, token};
use crate::body;
use crate::http::Peer;
use crate::service::Service;

/// The cookie's name.
const COOKIE_NAME: &str = "tollgate_session";
/// A working day.
const SESSION_S: u64 = 12 * 3_600;
/// Browsers that are signed in at once; the oldest session ends for one more.
const SESSIONS_MAX: usize = 64;
/// Attempts to sign in at once, and then in a minute, from one address.
const ATTEMPTS: u32 = 10;
/// Addresses whose attempts are remembered.
const ADDRESSES: Capacity = Capacity { keys: 10_000, log_bytes: 0 };
/// A token and the JSON around it.
const SIGN_IN_BODY_MAX: usize = 16 * 1024;

/// Lets in whoever shows the token or has signed in with it.
#[derive(Debug)]
pub(super) struct AdminDoor {
    token: Secret,
    service: Arc<Service>,
    attempts: KeyedLimiter<Option<IpAddr>>,
    /// The oldest first.
    sessions: Mutex<VecDeque<Session>>,
}

#[derive(Debug)]
struct Session {
    id: Secret,
    until: Time,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignInBody {
    token: String,
}

/// Lets a request through that may pass.
pub(super) async fn demand(State(door): State<Arc<AdminDoor>>, request: Request, next: Next) -> Response {
    if door.is_open_for(&request) {
        return next.run(request).await;
    }
    let text = "this page needs the token of TOLLGATE_ADMIN_TOKEN; sign in at / with a browser, or send it as \
                'Authorization: Bearer TOKEN'\n";
    (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], text).into_response()
}

/// Begins a session for whoever sends the token.
pub(super) async fn sign_in(State(door): State<Arc<AdminDoor>>, request: Request<Body>) -> Response {
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0);
    let received = body::receive(request.into_body(), SIGN_IN_BODY_MAX).await;
    let sent = received.ok().and_then(|received| serde_json::from_slice::<SignInBody>(&received.bytes).ok());
    let Some(sent) = sent else {
        return (StatusCode::BAD_REQUEST, "send {\"token\":\"…\"}\n").into_response();
    };
    if let Verdict::Deny { retry_after } = door.attempts.check(&peer.map(network)).verdict {
        let wait = retry_after.unwrap_or(Micros::from_secs(60));
        let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
        tracing::warn!(peer, "too many attempts to sign in to the dashboard");
        let text = format!("there were too many attempts; try again in {} s\n", wait.as_secs_ceil());
        let retry_after = [(RETRY_AFTER, wait.as_secs_ceil().to_string())];
        return (StatusCode::TOO_MANY_REQUESTS, retry_after, text).into_response();
    }
    if !token::is_equal(sent.token.trim().as_bytes(), door.token.expose().as_bytes()) {
        return (StatusCode::FORBIDDEN, "this is not the token of TOLLGATE_ADMIN_TOKEN\n").into_response();
    }
    match door.begin(door.service.now()) {
        Ok(id) => (StatusCode::NO_CONTENT, [(SET_COOKIE, cookie(&id, SESSION_S))]).into_response(),
        Err(error) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("no random bytes: {error}\n")).into_response()
        }
    }
}

/// Ends the session of whoever asks.
pub(super) async fn sign_out(State(door): State<Arc<AdminDoor>>, headers: HeaderMap) -> Response {
    if let Some(shown) = session_id(&headers) {
        let is_other = |session: &Session| !token::is_equal(shown, session.id.expose().as_bytes());
        door.sessions.lock().retain(is_other);
    }
    (StatusCode::NO_CONTENT, [(SET_COOKIE, cookie("", 0))]).into_response()
}

impl AdminDoor {
    pub(super) fn new(token: Secret, service: Arc<Service>) -> Self {
        let bucket = Shape::TokenBucket { burst: ATTEMPTS, refill: Refill::Smooth };
        let attempts = Limit::new(ATTEMPTS, Micros::from_secs(60), bucket);
        let attempts = attempts.expect("ten a minute is a limit that can be kept");
        let attempts = KeyedLimiter::with(attempts, ADDRESSES, SystemClock::new());
        Self { token, service, attempts, sessions: Mutex::default() }
    }

    fn is_open_for(&self, request: &Request) -> bool {
        let (path, headers) = (request.uri().path(), request.headers());
        let is_page = match path {
            "/" => page::wants_page(headers),
            "/v1/session" => request.method() == Method::POST,
            _ => path.starts_with("/assets/"),
        };
        is_page || token::is_shown(headers, &self.token) || self.is_signed_in(headers)
    }

    fn is_signed_in(&self, headers: &HeaderMap) -> bool {
        let Some(shown) = session_id(headers) else { return false };
        let now = self.service.now();
        let mut sessions = self.sessions.lock();
        sessions.retain(|session| session.until > now);
        // All are compared, so that the time says nothing about where a wrong one differs.
        let equal = sessions.iter().filter(|own| token::is_equal(shown, own.id.expose().as_bytes()));
        equal.count() > 0
    }

    fn begin(&self, now: Time) -> Result<String, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        let id: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut sessions = self.sessions.lock();
        if sessions.len() >= SESSIONS_MAX {
            sessions.pop_front();
        }
        sessions.push_back(Session { id: Secret::new(&id), until: now + Micros::from_secs(SESSION_S) });
        Ok(id)
    }
}

fn cookie(id: &str, max_age_s: u64) -> String {
    format!("{COOKIE_NAME}={id}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Strict")
}

/// Whose attempts count together: an address, or a network of 64 bits, of which one caller has all.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

/// The session that a request names.
fn session_id(headers: &HeaderMap) -> Option<&[u8]> {
    let texts = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE_NAME).map(|(_, id)| id.as_bytes())
}
