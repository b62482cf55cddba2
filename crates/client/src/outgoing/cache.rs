//! Answers that may be used again, as RFC 9111 allows.
//!
//! `http-cache-semantics` judges what may be kept and whether it is fresh. This keeps it: by URI, for each
//! combination of the fields that `Vary` names, within a bound of bytes, the longest unused going first.
//!
//! Invariants: an answer ages on the monotonic clock from when it arrived, so that a step of the wall
//! clock makes nothing fresh again; fields that are there twice stay so, which the crate does not promise.
//!
//! Deliberately not here: methods other than GET, requests with conditions or ranges of their own,
//! and stale answers in place of errors.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{
    AGE, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, DATE, HeaderName,
    IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, PROXY_AUTHENTICATE, RANGE, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE, VARY,
};
use http::{HeaderMap, Method, StatusCode, request, response};
use http_cache_semantics::{AfterResponse, BeforeRequest, CacheOptions, CachePolicy};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::settings::CacheSettings;
use crate::bounds::{AGE_MAX_S, CACHE_ENTRY_BYTES, VARIANTS_MAX};

/// When an answer arrived, on both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    /// When its request was sent.
    pub(super) sent: Instant,
    pub(super) now: Instant,
    pub(super) wall: SystemTime,
}

/// Answers by URI.
#[derive(Debug)]
pub(super) struct ResponseCache {
    settings: CacheSettings,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    answers: HashMap<u64, StoredResponse>,
    /// What there is of a URI, the newest last.
    by_uri: HashMap<String, Vec<u64>>,
    /// By when they were used last.
    by_use: BTreeMap<u64, u64>,
    bytes: usize,
    /// Counts answers and uses.
    count: u64,
}

#[derive(Debug)]
struct StoredResponse {
    uri: String,
    policy: CachePolicy,
    /// When it arrived.
    at: Arrival,
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    used: u64,
}

/// What there is for a request.
#[derive(Debug)]
pub(super) enum Lookup {
    /// An answer to use.
    Fresh(response::Parts, Bytes),
    /// An answer to use if the server says that it is still right; these fields ask it.
    Stale(u64, HeaderMap),
    /// Nothing.
    Miss,
}

/// An answer that may be kept once its body is whole.
#[derive(Debug)]
pub(super) struct Storable {
    uri: String,
    policy: CachePolicy,
    at: Arrival,
    status: StatusCode,
    headers: HeaderMap,
}

/// Fields about one connection, which are not kept.
const HOP_BY_HOP: [HeaderName; 6] = [CONNECTION, PROXY_AUTHENTICATE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];
/// Fields of a stored answer that a 304 does not replace.
const OF_THE_BODY: [HeaderName; 4] = [CONTENT_LENGTH, CONTENT_ENCODING, TRANSFER_ENCODING, CONTENT_RANGE];
/// Whoever sends these has a cache, or wants something else than the whole.
const CONDITIONS: [HeaderName; 6] =
    [IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_MATCH, IF_UNMODIFIED_SINCE, IF_RANGE, RANGE];

/// Whether the cache has to do with a request at all.
pub(super) fn is_for(request: &request::Parts) -> bool {
    request.method == Method::GET && !CONDITIONS.iter().any(|name| request.headers.contains_key(name))
}

/// Whether a request is to be answered from the cache or not at all.
pub(super) fn is_only_if_cached(request: &request::Parts) -> bool {
    let directives = request.headers.get_all(CACHE_CONTROL);
    let mut directives = directives.iter().filter_map(|value| value.to_str().ok());
    directives.any(|value| value.split(',').any(|one| one.trim().eq_ignore_ascii_case("only-if-cached")))
}

impl ResponseCache {
    pub(super) fn new(settings: CacheSettings) -> Self {
        Self { settings, inner: Mutex::default() }
    }

    /// The longest body that is kept.
    pub(super) const fn body_max(&self) -> usize {
        self.settings.body_max
    }

    pub(super) fn look_up(&self, uri: &str, request: &request::Parts, now: Instant) -> Lookup {
        let mut inner = self.inner.lock();
        let mut stale = Lookup::Miss;
        for id in inner.by_uri.get(uri).into_iter().flatten().rev() {
            let Some(stored) = inner.answers.get(id) else { continue };
            if has_repeated_vary(&request.headers, &stored.headers) {
                continue;
            }
            let wall = stored.wall_at(now);
            match stored.policy.before_request(request, wall) {
                BeforeRequest::Fresh(_) => {
                    let (id, parts, body) = (*id, stored.parts(wall), stored.body.clone());
                    inner.touch(id);
                    return Lookup::Fresh(parts, body);
                }
                BeforeRequest::Stale { request: asking, matches: true } if matches!(stale, Lookup::Miss) => {
                    let mut fields = HeaderMap::new();
                    for name in [IF_NONE_MATCH, IF_MODIFIED_SINCE] {
                        if let Some(value) = asking.headers.get(&name) {
                            fields.insert(name, value.clone());
                        }
                    }
                    if !fields.is_empty() {
                        stale = Lookup::Stale(*id, fields);
                    }
                }
                BeforeRequest::Stale { .. } => {}
            }
        }
        stale
    }

    /// An answer whose server says that it is still right; none if the server means another one, which
    /// is then forgotten.
    pub(super) fn revalidated(
        &self,
        id: u64,
        request: &request::Parts,
        response: &response::Parts,
        at: Arrival,
    ) -> Option<(response::Parts, Bytes)> {
        let mut inner = self.inner.lock();
        let stored = inner.answers.get_mut(&id)?;
        if matches!(stored.policy.after_response(request, response, at.wall), AfterResponse::Modified(..)) {
            inner.remove(id);
            return None;
        }
        for name in response.headers.keys().filter(|name| !OF_THE_BODY.contains(name)) {
            stored.headers.remove(name);
            for value in response.headers.get_all(name) {
                stored.headers.append(name, value.clone());
            }
        }
        stored.headers.insert(AGE, initial_age(&response.headers, at).as_secs().min(AGE_MAX_S).into());
        let parts = empty_parts(stored.status, stored.headers.clone());
        stored.policy = CachePolicy::new_options(request, &parts, at.wall, options(self.settings));
        stored.at = at;
        let answer = (parts, stored.body.clone());
        if stored.policy.is_storable() {
            inner.touch(id);
        } else {
            inner.remove(id);
        }
        Some(answer)
    }

    /// Whether an answer may be kept.
    pub(super) fn storable(
        &self,
        uri: &str,
        request: &request::Parts,
        response: &response::Parts,
        at: Arrival,
    ) -> Option<Storable> {
        if has_repeated_vary(&request.headers, &response.headers) {
            return None;
        }
        let mut headers = response.headers.clone();
        let age_s = initial_age(&headers, at).as_secs();
        if age_s > AGE_MAX_S {
            return None;
        }
        headers.insert(AGE, age_s.into());
        let named: Vec<HeaderName> = headers
            .get_all(CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(|name| name.trim().parse().ok())
            .collect();
        for name in HOP_BY_HOP.iter().chain(&named) {
            headers.remove(name);
        }
        let aged = empty_parts(response.status, headers);
        let policy = CachePolicy::new_options(request, &aged, at.wall, options(self.settings));
        policy.is_storable().then(|| Storable {
            uri: uri.to_owned(),
            policy,
            at,
            status: aged.status,
            headers: aged.headers,
        })
    }

    /// Keeps an answer whose body is whole.
    pub(super) fn store(&self, storable: Storable, body: Bytes, request: &request::Parts) {
        let Storable { uri, policy, at, status, headers } = storable;
        let mut inner = self.inner.lock();
        let same = |stored: &StoredResponse| {
            let judged = stored.policy.before_request(request, stored.at.wall);
            matches!(judged, BeforeRequest::Fresh(_) | BeforeRequest::Stale { matches: true, .. })
        };
        let known = inner.by_uri.get(&uri).cloned().unwrap_or_default();
        let replaced = known.iter().copied().find(|id| inner.answers.get(id).is_some_and(same));
        let crowded = (known.len() >= VARIANTS_MAX).then(|| known.first().copied()).flatten();
        if let Some(id) = replaced.or(crowded) {
            inner.remove(id);
        }
        inner.count += 1;
        let id = inner.count;
        let stored = StoredResponse { uri: uri.clone(), policy, at, status, headers, body, used: id };
        inner.bytes += stored.size();
        inner.by_uri.entry(uri).or_default().push(id);
        inner.by_use.insert(id, id);
        inner.answers.insert(id, stored);
        while inner.bytes > self.settings.bytes_max
            && let Some((_, oldest)) = inner.by_use.first_key_value()
        {
            let oldest = *oldest;
            inner.remove(oldest);
        }
    }

    /// Forgets all answers of a URI, because something was changed there.
    pub(super) fn invalidate(&self, uri: &str) {
        let mut inner = self.inner.lock();
        for id in inner.by_uri.get(uri).cloned().unwrap_or_default() {
            inner.remove(id);
        }
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.inner.lock().bytes
    }
}

impl Inner {
    fn touch(&mut self, id: u64) {
        self.count += 1;
        let Some(stored) = self.answers.get_mut(&id) else { return };
        self.by_use.remove(&stored.used);
        stored.used = self.count;
        self.by_use.insert(self.count, id);
    }

    fn remove(&mut self, id: u64) {
        let Some(stored) = self.answers.remove(&id) else { return };
        self.bytes = self.bytes.saturating_sub(stored.size());
        self.by_use.remove(&stored.used);
        if let Some(ids) = self.by_uri.get_mut(&stored.uri) {
            ids.retain(|own| *own != id);
            if ids.is_empty() {
                self.by_uri.remove(&stored.uri);
            }
        }
    }
}

impl StoredResponse {
    /// What the wall clock would show, had it not been set since.
    fn wall_at(&self, now: Instant) -> SystemTime {
        self.at.wall + now.saturating_duration_since(self.at.now)
    }

    fn parts(&self, wall: SystemTime) -> response::Parts {
        let mut parts = empty_parts(self.status, self.headers.clone());
        parts.headers.insert(AGE, self.policy.age(wall).as_secs().into());
        parts
    }

    /// What it takes of the bound. The crate keeps the fields a second time.
    fn size(&self) -> usize {
        let fields: usize = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        CACHE_ENTRY_BYTES + self.uri.len() * 2 + fields * 2 + self.body.len()
    }
}

fn options(settings: CacheSettings) -> CacheOptions {
    CacheOptions { shared: settings.is_shared, ..CacheOptions::default() }
}

fn empty_parts(status: StatusCode, headers: HeaderMap) -> response::Parts {
    let mut response = http::Response::new(());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response.into_parts().0
}

/// How old an answer is on arrival (RFC 9111, 4.2.3).
fn initial_age(headers: &HeaderMap, at: Arrival) -> Duration {
    let text = |name: &HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    let age_s = match text(&AGE) {
        // More than fits is old.
        Some(age) if age.bytes().all(|byte| byte.is_ascii_digit()) => age.parse().unwrap_or(u64::MAX),
        Some(_) | None => 0,
    };
    let date = text(&DATE).and_then(|date| httpdate::parse_http_date(date).ok());
    let apparent = date.and_then(|date| at.wall.duration_since(date).ok()).unwrap_or_default();
    let delay = at.now.saturating_duration_since(at.sent);
    apparent.max(Duration::from_secs(age_s).saturating_add(delay))
}

/// Whether a field that `Vary` names is there several times; the crate compares the first value alone.
fn has_repeated_vary(request: &HeaderMap, response: &HeaderMap) -> bool {
    let values = response.get_all(VARY).iter().filter_map(|value| value.to_str().ok());
    let mut names = values.flat_map(|value| value.split(','));
    names.any(|name| request.get_all(name.trim()).iter().nth(1).is_some())
}
