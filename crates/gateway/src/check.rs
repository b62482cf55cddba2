//! A request → the limiter's answer, in what the gateway needs of it.

use std::borrow::Cow;
use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::time::Duration;

use tollgate_core::{Descriptor, Entry, Micros, Request, Time, Verdict};
use tollgate_http::response::{ResponseHeaders, WAIT};
use tollgate_http::{CallerView, HttpRequestFacts, Mapping, PathTemplates, ResponseSettings};
use tollgate_limiter::Reply;

use crate::error::GatewayError;

/// Seeded at random, so that nobody can aim at another's line.
static QUEUE_HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Rules have not been read yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRules;

/// Whoever decides about requests: the server's service, or a limiter in a test.
pub trait Checker: Send + Sync + 'static {
    /// The limiter's time.
    fn now(&self) -> Time;

    /// What callers are told about limits.
    fn responses(&self) -> &ResponseSettings;

    /// The name that requests of this path are counted under, if they are.
    fn route<'a>(&'a self, path: &'a [u8], mapped: Option<&'a PathTemplates>) -> Option<Cow<'a, str>>;

    /// Counts a request that no descriptor was made of.
    fn passed(&self, route: &str, now: Time);

    /// Checks a request that can be held for as long as `patience`.
    fn check(
        &self,
        request: &Request<'_>,
        now: Time,
        patience: Micros,
    ) -> impl Future<Output = Result<Reply, NoRules>> + Send;

    /// Gives back what a request took.
    fn refund(&self, request: &Request<'_>) -> impl Future<Output = ()> + Send;
}

/// What a request may do.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) verdict: Verdict,
    /// What the client is told, whatever happens to the request.
    pub(crate) headers: ResponseHeaders,
    /// The body of a denial.
    pub(crate) problem: Option<Vec<u8>>,
    /// The name of the limit that the verdict comes from.
    pub(crate) rule: Option<String>,
    /// What a held request waits behind, and what it took; none unless it is to be held.
    pub(crate) place: Option<HeldCharge>,
}

impl Admission {
    /// How long to hold it.
    pub(crate) fn wait(&self) -> Option<Duration> {
        match self.verdict {
            Verdict::Delay { wait } => Some(wait.into()),
            Verdict::Allow | Verdict::Deny { .. } => None,
        }
    }
}

/// Asks about a request.
pub(crate) async fn check<C: Checker>(
    checker: &C,
    mapping: &Mapping,
    facts: &HttpRequestFacts<'_>,
    max_wait: Duration,
) -> Result<Admission, GatewayError> {
    let mapped = mapping.map(facts).map_err(GatewayError::Mapping)?;
    let route = checker.route(facts.path(), mapping.paths());
    if mapped.is_empty() {
        if let Some(route) = &route {
            checker.passed(route, facts.now);
        }
        let (verdict, headers) = (Verdict::Allow, ResponseHeaders::new());
        return Ok(Admission { verdict, headers, problem: None, rule: None, place: None });
    }
    let entries = mapped.entries();
    let descriptors = mapped.descriptors(&entries);
    let request = Request { route: route.as_deref(), ..mapped.request(&descriptors) };
    let reply = checker.check(&request, facts.now, max_wait.into()).await;
    let reply = reply.map_err(|NoRules| GatewayError::NoRules)?;
    let view = CallerView::new(checker.responses(), &request, &reply);
    // What is to be waited for is waited for here.
    let headers = view.headers().into_iter().filter(|(name, _)| *name != WAIT).collect();
    Ok(Admission {
        verdict: reply.verdict,
        headers,
        problem: reply.verdict.is_deny().then(|| view.problem(429).to_bytes()),
        rule: reply.binding().and_then(|decision| reply.rule(decision)).map(|rule| rule.name().to_owned()),
        place: matches!(reply.verdict, Verdict::Delay { .. }).then(|| HeldCharge::new(&request, &reply)),
    })
}

/// What a held request waits behind, and what it took.
#[derive(Debug)]
pub(crate) struct HeldCharge {
    domain: String,
    descriptors: Vec<Vec<(String, String)>>,
    /// Which descriptor it waits for, and by which rule.
    queue: u64,
}

impl HeldCharge {
    fn new(request: &Request<'_>, reply: &Reply) -> Self {
        let owned = |descriptor: &Descriptor<'_>| {
            let own = |entry: &Entry<'_>| (entry.key.to_owned(), entry.value.to_owned());
            descriptor.entries.iter().map(own).collect()
        };
        let descriptors: Vec<Vec<(String, String)>> = request.descriptors.iter().map(owned).collect();
        let binding = reply.binding();
        let waiting_for = binding.and_then(|decision| descriptors.get(decision.descriptor));
        let rule = binding.and_then(|decision| reply.rule(decision)).map(|rule| &rule.path);
        let queue = QUEUE_HASHER.hash_one((request.domain, waiting_for, rule));
        Self { domain: request.domain.to_owned(), descriptors, queue }
    }

    /// Requests with the same one wait in one line.
    pub(crate) const fn queue(&self) -> u64 {
        self.queue
    }

    /// Gives back what the request took.
    pub(crate) async fn refund(&self, checker: &impl Checker) {
        let entries: Vec<Vec<Entry<'_>>> = self
            .descriptors
            .iter()
            .map(|descriptor| descriptor.iter().map(|(key, value)| Entry { key, value }).collect())
            .collect();
        let descriptors: Vec<Descriptor<'_>> =
            entries.iter().map(|entries| Descriptor::new(entries)).collect();
        checker.refund(&Request::new(&self.domain, &descriptors)).await;
    }
}
