//! May this HTTP request pass, and when?
//!
//! Forward-auth, gateway and middleware all do the same between a request and the service behind
//! it: they map it, ask the limiter, hold it if it is to wait, and tell its caller. They do it here.
//!
//! | module | what it holds |
//! |---|---|
//! | `waiting_room` | requests that are held until it is their turn |
//! | `pending_request` | a request that is held, or whose answer has a say in what it is charged |
//! | `open_charge` | a charge that the answer decides |
//! | [`meter`] | what an answer comes to, while its body passes |
//! | `cost_reader`, `json_field` | a number in a body |
//! | [`deferral`] | a request that may be taken now and sent later |
//! | `limiter_checker` | a limiter without a server around it |
//!
//! Invariants: a request is checked once, at one instant of the limiter's clock; tokens are judged
//! by the calendar. What a held request took is given back if its caller does not wait for its turn.
//! What the answer decides is settled once, without anybody waiting for it.
//!
//! Deliberately not here: how a request came and how an answer leaves, which each way in does itself.

mod cost_reader;
pub mod deferral;
mod json_field;
mod limiter_checker;
pub mod meter;
mod open_charge;
mod pending_request;
mod waiting_room;

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tollgate_core::{Micros, Operation, Outcome, Request, Time, Verdict};
use tollgate_limiter::Reply;

use crate::request::mapping::{MappedDescriptors, MappedEntries};
use crate::request::{HttpRequestFacts, MappedRequest, Mapping, MappingDenial, PathTemplates};
use crate::response::{CallerView, HeaderSink, QuotaProblem, ResponseHeaders, ResponseSettings};
use deferral::Deferral;
use meter::ResponseMeter;
use pending_request::PendingRequest;
use waiting_room::WaitingRoom;

pub use limiter_checker::LimiterChecker;
pub use meter::MeteredBody;
pub use pending_request::CLIENT_CLOSED_REQUEST;

/// The status of a denial, unless somebody wants another.
const TOO_MANY_REQUESTS: u16 = 429;

/// Whoever decides about requests: a server's service, or a limiter.
pub trait Checker: Send + Sync + 'static {
    /// Why nothing can be decided.
    type Error: Send;

    /// The limiter's time.
    fn now(&self) -> Time;

    /// The calendar's time.
    fn calendar(&self) -> Time;

    /// What callers are told about limits.
    fn responses(&self) -> &ResponseSettings;

    /// The name that requests of this path are counted under, if they are.
    fn route<'a>(&'a self, path: &'a [u8], mapped: Option<&'a PathTemplates>) -> Option<Cow<'a, str>>;

    /// Counts a request that no descriptor was made of.
    fn passed(&self, route: &str, now: Time);

    /// Takes one of all requests of the gateway together, whose path and templates are those of
    /// [`Checker::route`]; an error says when to come again.
    ///
    /// # Errors
    /// If none is left.
    fn take_request<'a>(
        &'a self,
        _asked: impl FnOnce() -> (&'a [u8], Option<&'a PathTemplates>),
    ) -> Result<(), Micros> {
        Ok(())
    }

    /// Gives that back, since the request does not pass.
    fn give_back_request(&self) {}

    /// Checks a request that can be held for as long as `patience`.
    fn check(
        &self,
        request: &Request<'_>,
        now: Time,
        patience: Micros,
    ) -> impl Future<Output = Result<Reply, Self::Error>> + Send;

    /// Whether [`Checker::check_at_once`] answers.
    fn is_immediate(&self) -> bool {
        false
    }

    /// As [`Checker::check`], where nobody has to wait for the answer, which is shown to `then`; none
    /// elsewhere.
    fn check_at_once<T>(
        &self,
        _request: &Request<'_>,
        _now: Time,
        _patience: Micros,
        _then: impl FnOnce(&Reply) -> T,
    ) -> Option<Result<T, Self::Error>> {
        None
    }

    /// Checks or peeks, counted by nobody until [`Checker::count`] is called.
    fn ask(
        &self,
        request: &Request<'_>,
        _operation: Operation,
        now: Time,
        patience: Micros,
    ) -> impl Future<Output = Result<Reply, Self::Error>> + Send {
        self.check(request, now, patience)
    }

    /// Counts a reply of [`Checker::ask`].
    fn count(&self, _request: &Request<'_>, _reply: &Reply) {}

    /// Whether a limit of this domain may put requests off, to be sent later.
    fn defers(&self, _domain: &str) -> bool {
        false
    }

    /// Whether any requests wait to be sent later.
    fn has_lines(&self) -> bool {
        false
    }

    /// Whether requests wait in this line of [`deferral::line`].
    fn has_line(&self, _line: &str) -> bool {
        false
    }

    /// Charges and gives back what a check left open.
    fn settle(&self, request: &Request<'_>, now: Time) -> impl Future<Output = ()> + Send;
}

/// Why a request is not decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdmissionError<E> {
    /// The mapping denies it.
    Mapping(MappingDenial),
    /// Nothing can be decided.
    Check(E),
}

/// How requests are let in: what becomes of one, and how long it may be held. Clones share the
/// lines that held requests wait in.
#[derive(Debug, Clone)]
pub struct AdmissionControl {
    mapping: Mapping,
    /// What requests are counted by, if not by the paths of the mapping.
    templates: Option<PathTemplates>,
    max_wait: Duration,
    waiting: WaitingRoom,
}

/// What a request may do.
#[derive(Debug)]
pub struct Admission<C: Checker> {
    /// Now, later, or not.
    pub verdict: Verdict,
    /// How it is counted; none if no descriptor was made of it.
    pub outcome: Option<Outcome>,
    /// What its caller is told, whatever happens to it; nothing if somebody else was told that.
    pub headers: ResponseHeaders,
    /// The body of a denial; none if whoever is told has written that already.
    pub problem: Option<Box<QuotaProblem>>,
    /// The name of the limit that the verdict comes from, if whoever is told [wants it](HeaderSink::wants_rule)
    /// and has not [taken it](HeaderSink::take_rule).
    pub rule: Option<String>,
    /// It may be taken now and sent later; if it is not, it is denied as the rest says.
    pub deferral: Option<Box<Deferral>>,
    /// In a place of its own, because few requests have one.
    pending: Option<Box<PendingRequest<C>>>,
}

impl AdmissionControl {
    /// Requests become what `mapping` says; one that would have to wait longer than `max_wait` is denied.
    pub fn new(mapping: Mapping, max_wait: Duration) -> Self {
        Self { mapping, templates: None, max_wait, waiting: WaitingRoom::default() }
    }

    /// The same with another mapping; requests of both wait in the same lines.
    #[must_use]
    pub fn with_mapping(self, mapping: Mapping) -> Self {
        Self { mapping, ..self }
    }

    /// The same, counting requests by the template that their path matches; without any, by those
    /// of the mapping.
    #[must_use]
    pub fn counted_by(self, templates: Option<PathTemplates>) -> Self {
        Self { templates, ..self }
    }

    /// The same, holding nothing for longer.
    #[must_use]
    pub fn with_max_wait(self, max_wait: Duration) -> Self {
        Self { max_wait, ..self }
    }

    /// What a request becomes.
    pub const fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Asks about a request.
    ///
    /// # Errors
    /// If the mapping denies it, or there is nothing to decide by.
    pub async fn admit<C: Checker>(
        &self,
        checker: &Arc<C>,
        facts: &HttpRequestFacts<'_>,
    ) -> Result<Admission<C>, AdmissionError<C::Error>> {
        let mut headers = ResponseHeaders::new();
        let admission = self.admit_telling(checker, facts, &mut headers).await?;
        Ok(Admission { headers, ..admission })
    }

    /// The same for whoever has a use of its own for what the caller is told: `told` gets the headers
    /// and, if it [takes denials](HeaderSink::take_denial), their bodies.
    ///
    /// # Errors
    /// As [`Self::admit`].
    pub async fn admit_telling<C: Checker>(
        &self,
        checker: &Arc<C>,
        facts: &HttpRequestFacts<'_>,
        told: &mut (impl HeaderSink + Send),
    ) -> Result<Admission<C>, AdmissionError<C::Error>> {
        // What does not wait is no part of this future, so that it is small, and nothing of it is copied.
        if let Some(admitted) = self.admit_at_once(checker, facts, told) {
            return admitted;
        }
        Box::pin(self.admit_later(checker, facts, told)).await
    }

    /// The same for whoever need not be a future: nobody waits for a store in this process. None if the
    /// answer must be waited for, and then nothing was done.
    pub fn admit_at_once<C: Checker>(
        &self,
        checker: &Arc<C>,
        facts: &HttpRequestFacts<'_>,
        told: &mut impl HeaderSink,
    ) -> Option<Result<Admission<C>, AdmissionError<C::Error>>> {
        if !checker.is_immediate() {
            return None;
        }
        let (now, mut mapped) = (checker.now(), MappedRequest::default());
        if let Err(denial) = self.map(&**checker, &mut mapped, facts, now) {
            return Some(Err(AdmissionError::Mapping(denial)));
        }
        let route = self.route(&**checker, facts);
        if mapped.is_empty() {
            return Some(Ok(Admission::free(&**checker, route.as_deref(), now)));
        }
        let (mut entries, mut descriptors) = (MappedEntries::new(), MappedDescriptors::new());
        mapped.entries(&mut entries);
        mapped.descriptors(&entries, &mut descriptors);
        let request = Request { route: route.as_deref(), ..mapped.request(&descriptors) };
        let admit = |reply: &Reply| self.decided(checker, &request, (&mapped, reply), told);
        let admitted = checker.check_at_once(&request, now, self.max_wait.into(), admit)?;
        Some(admitted.map_err(AdmissionError::Check))
    }

    async fn admit_later<C: Checker>(
        &self,
        checker: &Arc<C>,
        facts: &HttpRequestFacts<'_>,
        told: &mut (impl HeaderSink + Send),
    ) -> Result<Admission<C>, AdmissionError<C::Error>> {
        let (now, mut mapped) = (checker.now(), MappedRequest::default());
        self.map(&**checker, &mut mapped, facts, now).map_err(AdmissionError::Mapping)?;
        let route = self.route(&**checker, facts);
        if mapped.is_empty() {
            return Ok(Admission::free(&**checker, route.as_deref(), now));
        }
        let (mut entries, mut descriptors) = (MappedEntries::new(), MappedDescriptors::new());
        mapped.entries(&mut entries);
        mapped.descriptors(&entries, &mut descriptors);
        let request = Request { route: route.as_deref(), ..mapped.request(&descriptors) };
        let reply = checker.check(&request, now, self.max_wait.into()).await;
        Ok(self.decided(checker, &request, (&mapped, &reply.map_err(AdmissionError::Check)?), told))
    }

    fn map<'a, C: Checker>(
        &'a self,
        checker: &C,
        mapped: &mut MappedRequest<'a>,
        facts: &HttpRequestFacts<'a>,
        now: Time,
    ) -> Result<(), MappingDenial> {
        let calendar = if self.mapping.verifies_tokens() { checker.calendar() } else { now };
        self.mapping.map_into(mapped, facts, calendar)
    }

    /// What the request is counted under.
    fn route<'a, C: Checker>(&'a self, checker: &'a C, facts: &HttpRequestFacts<'a>) -> Option<Cow<'a, str>> {
        checker.route(facts.path(), self.templates.as_ref().or_else(|| self.mapping.paths()))
    }

    /// The admission of a request that was decided like this, whose caller is told.
    fn decided<C: Checker>(
        &self,
        checker: &Arc<C>,
        request: &Request<'_>,
        (mapped, reply): (&MappedRequest<'_>, &Reply),
        told: &mut impl HeaderSink,
    ) -> Admission<C> {
        let pending = self.pending(checker, request, mapped, reply);
        let view = CallerView::new(checker.responses(), request, reply);
        let is_denied = reply.verdict.is_deny();
        let name = if told.wants_rule(is_denied) { rule(reply) } else { None };
        if is_denied && told.take_denial(&view) {
            return Admission::decided(reply, name.map(str::to_owned), None, None);
        }
        let rule = name.filter(|name| is_denied || !told.take_rule(name)).map(str::to_owned);
        view.tell(told);
        Admission::decided(reply, rule, problem(&view), pending)
    }

    /// What is left to do about a request that was decided like this, if anything is.
    fn pending<C: Checker>(
        &self,
        checker: &Arc<C>,
        request: &Request<'_>,
        mapped: &MappedRequest<'_>,
        reply: &Reply,
    ) -> Option<Box<PendingRequest<C>>> {
        let pending = || PendingRequest::new(Arc::clone(checker), request, mapped.terms(), reply);
        match reply.verdict {
            Verdict::Delay { wait } => {
                let place = self.waiting.enter(pending_request::line(request, reply), wait.into());
                Some(Box::new(pending().waiting(place)))
            }
            Verdict::Allow if mapped.needs_response() => Some(Box::new(pending())),
            Verdict::Allow | Verdict::Deny { .. } => None,
        }
    }
}

impl<C: Checker> Admission<C> {
    /// Nothing limits it; it is counted all the same.
    fn free(checker: &C, route: Option<&str>, now: Time) -> Self {
        if let Some(route) = route {
            checker.passed(route, now);
        }
        Self {
            verdict: Verdict::Allow,
            outcome: None,
            headers: ResponseHeaders::new(),
            problem: None,
            rule: None,
            deferral: None,
            pending: None,
        }
    }

    /// It is denied before any rule is asked, by a limit of this name that `detail` tells about.
    /// When to come again is for whoever has asked to tell.
    pub fn denied_by(level: &str, detail: &str, retry_after: Micros) -> Self {
        let problem = QuotaProblem::of_level(level, detail, retry_after);
        Self {
            verdict: Verdict::Deny { retry_after: Some(retry_after) },
            outcome: Some(Outcome::Denied),
            headers: ResponseHeaders::new(),
            problem: Some(Box::new(problem)),
            rule: Some(level.to_owned()),
            deferral: None,
            pending: None,
        }
    }

    /// Decided like this, with what its caller is told.
    fn told(view: &CallerView<'_>, pending: Option<Box<PendingRequest<C>>>) -> Self {
        let mut headers = ResponseHeaders::new();
        view.tell(&mut headers);
        let (reply, rule) = (view.reply(), rule(view.reply()).map(str::to_owned));
        Self { headers, ..Self::decided(reply, rule, problem(view), pending) }
    }

    /// Decided like this; somebody else is told.
    fn decided(
        reply: &Reply,
        rule: Option<String>,
        problem: Option<Box<QuotaProblem>>,
        pending: Option<Box<PendingRequest<C>>>,
    ) -> Self {
        Self {
            verdict: reply.verdict,
            outcome: Some(reply.outcome()),
            headers: ResponseHeaders::new(),
            problem,
            rule,
            deferral: None,
            pending,
        }
    }

    /// It has taken one of [`Checker::take_request`], which is given back with all else if it leaves before its turn.
    pub fn took_request(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.took_request();
        }
    }

    /// Waits until it is its turn: not at all unless the verdict is a delay. If this is dropped
    /// before, or never called, what the request took is given back.
    pub async fn turn(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.turn().await;
        }
    }

    /// It was answered. What the head decides is settled; the rest is for whoever sees the body.
    /// If neither this nor [`Self::failed`] is called, its client has gone away.
    pub fn answered(&mut self, status: u16, headers: &HeaderMap) -> Option<ResponseMeter> {
        ResponseMeter::start(*self.pending.take()?, status, headers)
    }

    /// It got no answer but this status.
    pub fn failed(&mut self, status: u16) {
        if let Some(pending) = self.pending.take() {
            pending.fail(status);
            pending.close();
        }
    }
}

/// The name of the limit that the verdict comes from.
fn rule(reply: &Reply) -> Option<&str> {
    let rule = reply.binding().and_then(|decision| reply.rule(decision));
    rule.map(|rule| rule.name())
}

/// The body of a denial.
fn problem(view: &CallerView<'_>) -> Option<Box<QuotaProblem>> {
    view.reply().verdict.is_deny().then(|| Box::new(view.problem(TOO_MANY_REQUESTS)))
}
