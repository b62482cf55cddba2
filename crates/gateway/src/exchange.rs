//! One request from its head to its answer.
//!
//! Called by `connection` for every request, over HTTP/1.1 and HTTP/2 alike: whom is it for, may it
//! pass, when, and what does the upstream say.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, HOST, HeaderValue, RETRY_AFTER, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, Method, Version};
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode};
use tokio::sync::Notify;
use tollgate_http::response::{HeaderSink, QuotaProblem, ResponseHeaders, VERDICT};
use tollgate_http::{Admission, AdmissionError, Checker, HeaderFields, HttpRequestFacts};

use crate::Gateway;
use crate::access_log::AccessRecord;
use crate::bounds::{FIELDS_MAX, UPSTREAM_HEAD_MAX};
use crate::connection_context::{ConnectionContext, Tunnel};
use crate::deferral::DeferralOffer;
use crate::error::GatewayError;
use crate::fields::{self, HopRequest, Origin};
use crate::forward::{Lease, OutgoingRequest, SendRecord};
use crate::problem::{self, ClientProtocol, with_problem};
use crate::request_body::{BodyFate, ClientBody, RequestBody, is_too_long_to_drain};
use crate::response_body::ResponseBody;
use crate::route::RouteQuery;
use crate::route_table::Route;
use crate::strict::{HeadError, REJECTED, UpgradeTurn, check_http2};
use crate::target::RequestTarget;
use crate::timed_body::TimedBody;

/// What the limit of all requests together is called: the setting that it comes from.
const REQUEST_LEVEL: &str = "levels.requests";

/// A client that wants to speak another protocol.
#[derive(Debug)]
struct PendingUpgrade {
    /// The protocols that it named.
    asked: HeaderValue,
    turn: UpgradeTurn,
    client: OnUpgrade,
}

/// What is known about one request, for whoever logs or measures it.
#[derive(Debug, Default)]
pub(crate) struct ExchangeRecord {
    /// The route that it took; none if none fits.
    pub(crate) route: Option<Arc<Route>>,
    /// Which upstream was asked, and how long it took.
    pub(crate) sent: SendRecord,
    /// What the access log is told; none if there is none.
    pub(crate) access: Option<Box<AccessRecord>>,
    /// It gets an answer of our own, and more of its body is left than anybody will read.
    has_unread_body: bool,
}

impl<C: Checker> Gateway<C> {
    /// Answers a request; what goes wrong is an answer, too.
    pub(crate) async fn answer(
        self: Arc<Self>,
        context: Arc<ConnectionContext>,
        request: Request<Incoming>,
    ) -> Response<ResponseBody> {
        let client = ClientProtocol::of(request.version(), request.headers());
        let (is_head, version) = (*request.method() == Method::HEAD, request.version());
        let access = self.access_record(&context);
        let mut record = ExchangeRecord { access, ..ExchangeRecord::default() };
        let mut response = match self.exchange(&context, request, &mut record).await {
            Ok(response) => response,
            Err(error) => {
                let ExchangeRecord { route, sent: SendRecord { upstream, took, .. }, .. } = &record;
                let upstream = upstream.as_ref().map(|upstream| tracing::field::display(upstream.url()));
                let has_route = route.is_some();
                tracing::debug!(%error, has_route, upstream, ?took, "a request got no answer from the upstream");
                problem::response(&error, client)
            }
        };
        // So that the client sends nothing more on this connection.
        if record.has_unread_body && client == ClientProtocol::Http1 {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        // Over HTTP/2 bytes after such a head break the protocol, and hyper would send them.
        if is_head && let Some(length) = response.body_mut().take_text() {
            response.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        if version == Version::HTTP_10 && is_last_answer(&response) {
            // hyper says `keep-alive` to such a client unless the answer is of HTTP/1.0, too.
            *response.version_mut() = Version::HTTP_10;
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(access) = &mut record.access {
            access.answered(response.status().as_u16(), record.sent.took);
        }
        let deadline = record.sent.deadline;
        response.map(|body| body.recorded(record.access).watched(deadline))
    }

    /// What the access log will be told of a request, if there is one.
    pub(crate) fn access_record(&self, context: &ConnectionContext) -> Option<Box<AccessRecord>> {
        let log = self.access_log.clone()?;
        Some(Box::new(AccessRecord::new(log, self.checker.calendar(), context.peer.peer)))
    }

    async fn exchange(
        &self,
        context: &ConnectionContext,
        mut request: Request<Incoming>,
        record: &mut ExchangeRecord,
    ) -> Result<Response<ResponseBody>, GatewayError> {
        let has_body = !request.body().is_end_stream();
        let hop = HopRequest::read(request.headers(), request.version(), has_body);
        record.has_unread_body = hop.expects_continue || is_too_long_to_drain(request.body());
        // The stream of the connection waits until this is dropped.
        let upgrade = hop.upgrade.clone().map(|asked| PendingUpgrade {
            asked,
            turn: UpgradeTurn::new(&context.switch),
            client: hyper::upgrade::on(&mut request),
        });
        let (mut parts, body) = request.into_parts();
        let mut body = ClientBody::new(body, hop.expects_continue);
        if let Some(error) = rejected(&parts) {
            return Err(GatewayError::Head(error));
        }
        if let Some(access) = &mut record.access {
            access.requested(&parts);
        }
        let target = RequestTarget::read(&parts)?;
        if let Some(status) = self.deferred_status(&parts.method, &target).await {
            return Ok(status);
        }
        fields::remove_hop_by_hop(&mut parts.headers);
        let route = self.route(&parts, &target).ok_or(GatewayError::NoRoute)?;
        record.route = Some(Arc::clone(&route));
        let facts = facts(context, &parts, &target);
        let mut admission = match self.deferring_for(&parts, &hop) {
            Some(_) => self.admit_or_defer(&route, &facts).await?,
            None => self.admit_told(&route, &facts).await?,
        };
        let origin = origin(context, &route, (&parts.headers).into(), parts.version);
        let (idle, target) = (route.timeouts.idle, &target);
        let offer = DeferralOffer { parts: &parts, target, origin: &origin, idle };
        let deferred = self.defer(&mut admission, &offer, &mut body).await?;
        if let Some(access) = &mut record.access {
            access.decided(origin.client, (admission.verdict, admission.outcome), admission.rule.as_deref());
        }
        if let Some(mut response) = deferred {
            tell(response.headers_mut(), &mut admission);
            record.has_unread_body = false;
            return Ok(response);
        }
        if let Some(problem) = admission.problem.take() {
            let client = ClientProtocol::of(parts.version, &parts.headers);
            return Ok(denial(&mut admission, &problem, client));
        }
        if let Some(access) = &mut record.access {
            access.held();
        }
        admission.turn().await;
        if let Some(access) = &mut record.access {
            access.released();
        }
        fields::join_cookies(&mut parts.headers);
        let decided = (admission.verdict, admission.rule.as_deref());
        fields::write_origin(&mut parts.headers, &origin, target.host.as_ref(), decided);
        hop.write(&mut parts.headers);
        if route.reads_bodies {
            // What is compressed cannot be read, and the client would choose what it pays.
            parts.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        parts.headers.remove(HOST);
        parts.headers.extend(target.host.clone().map(|host| (HOST, host)));
        parts.uri = target.uri();
        let (fate, request) = (BodyFate::default(), Request::from_parts(parts, body));
        // A request that is held has no room for that yet.
        let forwarded = Box::pin(forward(&route, request, (&hop, &fate), &mut record.sent)).await;
        record.has_unread_body &= forwarded.is_err() && !fate.is_whole();
        let (response, lease) = forwarded.inspect_err(|error| admission.failed(error.status().as_u16()))?;
        let upgrade = upgrade.map(|upgrade| (upgrade, context));
        let (idle, deadline) = (route.timeouts.idle, record.sent.deadline);
        finish(response, lease, &mut admission, upgrade, |body| TimedBody::new(body, idle).until(deadline))
    }

    /// Where the request goes.
    fn route(&self, parts: &Parts, target: &RequestTarget) -> Option<Arc<Route>> {
        let query = RouteQuery {
            host: target.host_text(),
            path: target.path.path().as_bytes(),
            method: &parts.method,
            headers: (&parts.headers).into(),
        };
        self.routes.load().find(&query).cloned()
    }

    /// Asks the limiter: first about all requests together, then by the rules. What does not pass
    /// takes nothing of the former, so that one client's flood leaves it to the others.
    pub(crate) async fn admit(
        &self,
        route: &Route,
        facts: &HttpRequestFacts<'_>,
        told: &mut (impl HeaderSink + Send),
    ) -> Result<Admission<C>, GatewayError> {
        if let Some(denied) = self.denied_by_level(route, facts, told) {
            return Ok(denied);
        }
        self.admitted(route.admission.admit_telling(&self.checker, facts, told).await)
    }

    /// The same for whoever need not be a future; none if the answer must be waited for, and then nothing
    /// was done.
    pub(crate) fn admit_at_once(
        &self,
        route: &Route,
        facts: &HttpRequestFacts<'_>,
        told: &mut impl HeaderSink,
    ) -> Option<Result<Admission<C>, GatewayError>> {
        if !self.checker.is_immediate() {
            return None;
        }
        if let Some(denied) = self.denied_by_level(route, facts, told) {
            return Some(Ok(denied));
        }
        let admitted = route.admission.admit_at_once(&self.checker, facts, told);
        if admitted.is_none() {
            self.checker.give_back_request();
        }
        Some(self.admitted(admitted?))
    }

    /// The same, with what the client is told.
    async fn admit_told(
        &self,
        route: &Route,
        facts: &HttpRequestFacts<'_>,
    ) -> Result<Admission<C>, GatewayError> {
        let mut headers = ResponseHeaders::new();
        let mut admission = self.admit(route, facts, &mut headers).await?;
        admission.headers = headers;
        Ok(admission)
    }

    /// The same where a request may be sent later.
    async fn admit_or_defer(
        &self,
        route: &Route,
        facts: &HttpRequestFacts<'_>,
    ) -> Result<Admission<C>, GatewayError> {
        let mut headers = ResponseHeaders::new();
        if let Some(mut denied) = self.denied_by_level(route, facts, &mut headers) {
            denied.headers = headers;
            return Ok(denied);
        }
        self.admitted(route.admission.admit_or_defer(&self.checker, facts).await)
    }

    /// Takes from the limit of all requests together; the denial if nothing is left.
    fn denied_by_level(
        &self,
        route: &Route,
        facts: &HttpRequestFacts<'_>,
        told: &mut impl HeaderSink,
    ) -> Option<Admission<C>> {
        let asked = || (facts.path(), route.admission.mapping().paths());
        let retry_after = self.checker.take_request(asked).err()?;
        let detail = "there are too many requests of all clients together";
        told.number(RETRY_AFTER, retry_after.as_secs_ceil());
        Some(Admission::denied_by(REQUEST_LEVEL, detail, retry_after))
    }

    fn admitted(
        &self,
        mut admitted: Result<Admission<C>, AdmissionError<C::Error>>,
    ) -> Result<Admission<C>, GatewayError> {
        match &mut admitted {
            Ok(admission) if !admission.verdict.is_deny() => admission.took_request(),
            Ok(_) | Err(_) => self.checker.give_back_request(),
        }
        admitted.map_err(|error| match error {
            AdmissionError::Mapping(denial) => GatewayError::Mapping(denial),
            AdmissionError::Check(_) => GatewayError::NoRules,
        })
    }
}

/// What a mapping can pick from.
fn facts<'a>(
    context: &ConnectionContext,
    parts: &'a Parts,
    target: &'a RequestTarget,
) -> HttpRequestFacts<'a> {
    HttpRequestFacts {
        peer: context.socket.peer,
        peer_name: None,
        method: parts.method.as_str(),
        target: target.path.as_str().as_bytes(),
        host: target.host_text(),
        headers: (&parts.headers).into(),
    }
}

/// Where a request with these fields came from.
pub(crate) fn origin<'a>(
    context: &'a ConnectionContext,
    route: &Route,
    fields: HeaderFields<'_>,
    version: Version,
) -> Origin<'a> {
    let (peer, proxies) = (context.socket.peer, route.admission.mapping().proxies());
    let client: Option<IpAddr> = peer.map(|peer| proxies.find(peer, fields));
    let believed = peer.and_then(|peer| proxies.believed_header(peer));
    Origin { peer: &context.peer, client, believed, version }
}

async fn forward(
    route: &Route,
    request: Request<ClientBody>,
    (hop, fate): (&HopRequest, &BodyFate),
    record: &mut SendRecord,
) -> Result<(Response<Incoming>, Lease), GatewayError> {
    let (mut parts, body) = request.into_parts();
    let has_body = !body.is_end_stream();
    parts.version = Version::HTTP_11;
    parts.extensions.clear();
    let (is_upgrade, is_idempotent) = (hop.upgrade.is_some(), is_idempotent(&parts.method));
    let mut request_body = RequestBody::new(body, route.timeouts.idle, fate.clone());
    let wanted = hop.expects_continue.then(|| Arc::new(Notify::new()));
    if let Some(wanted) = &wanted {
        request_body = request_body.when_wanted(Arc::clone(wanted));
    }
    let mut request = Request::from_parts(parts, request_body);
    if let Some(wanted) = wanted {
        hyper::ext::on_informational(&mut request, move |response| {
            if response.status() == StatusCode::CONTINUE {
                wanted.notify_one();
            }
        });
    }
    let outgoing = OutgoingRequest { request, fate: fate.clone(), has_body, is_idempotent, is_upgrade };
    route.group.send(outgoing, &route.timeouts, record).await
}

/// The upstream's answer as the client gets it.
fn finish<C: Checker>(
    mut response: Response<Incoming>,
    lease: Lease,
    admission: &mut Admission<C>,
    upgrade: Option<(PendingUpgrade, &ConnectionContext)>,
    timed: impl FnOnce(Incoming) -> TimedBody,
) -> Result<Response<ResponseBody>, GatewayError> {
    settle_framing(&mut response)?;
    if head_bytes(response.headers()) > UPSTREAM_HEAD_MAX {
        return Err(GatewayError::NoAnswer);
    }
    // Whatever the upstream speaks, the client is answered in its own protocol.
    *response.version_mut() = Version::HTTP_11;
    let protocol = response.headers().get(UPGRADE).cloned();
    let is_asked = |asked: &HeaderValue| fields::is_asked_protocol(asked, response.headers());
    let upgrade = upgrade.filter(|(upgrade, _)| is_asked(&upgrade.asked));
    let meter = admission.answered(response.status().as_u16(), response.headers());
    fields::remove_hop_by_hop(response.headers_mut());
    tell(response.headers_mut(), admission);
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(response.map(|body| ResponseBody::upstream(timed(body), lease, meter)));
    }
    // Nobody asked to speak that.
    let (Some((PendingUpgrade { turn, client, .. }, context)), Some(protocol)) = (upgrade, protocol) else {
        return Err(GatewayError::NoAnswer);
    };
    context.open_tunnel(Tunnel { client, upstream: hyper::upgrade::on(&mut response), lease });
    turn.tunnel();
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol);
    Ok(response.map(|_| ResponseBody::text(Vec::new())))
}

/// Refuses an answer whose end whoever reads it after us may see elsewhere, and leaves one length.
fn settle_framing(response: &mut Response<Incoming>) -> Result<(), GatewayError> {
    let (has_body, status) = (!response.body().is_end_stream(), response.status());
    let headers = response.headers_mut();
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        // Nobody asked for another coding, and the client would take its bytes for those of the answer.
        let is_chunked = coding.as_bytes().eq_ignore_ascii_case(b"chunked") && codings.next().is_none();
        if headers.contains_key(CONTENT_LENGTH) || (has_body && !is_chunked) {
            return Err(GatewayError::NoAnswer);
        }
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let Some(length) = lengths.next().cloned() else { return Ok(()) };
    let number = |length: &HeaderValue| fields::strict_length(length.as_bytes());
    if number(&length).is_none() || lengths.any(|other| number(other) != number(&length)) {
        return Err(GatewayError::NoAnswer);
    }
    match status {
        StatusCode::NO_CONTENT => drop(headers.remove(CONTENT_LENGTH)),
        _ => drop(headers.insert(CONTENT_LENGTH, length)),
    }
    Ok(())
}

/// Whether a connection of HTTP/1.0, which knows no chunks, ends with this answer: it says so, or only the end
/// of the connection tells the end of its body.
fn is_last_answer(response: &Response<ResponseBody>) -> bool {
    let body = response.body();
    let has_end = body.is_end_stream() || body.size_hint().exact().is_some();
    !has_end || fields::has_option(response.headers(), &CONNECTION, b"close")
}

/// How many bytes the fields of a head take; hyper bounds what it has read when it is not whole yet.
fn head_bytes(headers: &HeaderMap) -> usize {
    // Each with a colon, a space and the end of its line.
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
}

/// What is wrong with the head of a request; over HTTP/1 hyper never saw such a one.
fn rejected(parts: &Parts) -> Option<HeadError> {
    if parts.method.as_str() == REJECTED && parts.version == Version::HTTP_11 {
        return HeadError::from_code(parts.uri.path());
    }
    // Over HTTP/1 all of this was refused before.
    if parts.headers.len() > FIELDS_MAX {
        return Some(HeadError::TooLarge);
    }
    if parts.version == Version::HTTP_2 { check_http2(parts).err() } else { None }
}

pub(crate) fn is_idempotent(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE].contains(method)
}

/// The answer to a request that does not pass; the same that forward-auth gives.
fn denial<C: Checker>(
    admission: &mut Admission<C>,
    problem: &QuotaProblem,
    client: ClientProtocol,
) -> Response<ResponseBody> {
    let mut response = match client {
        ClientProtocol::Grpc => problem::grpc(StatusCode::TOO_MANY_REQUESTS, &problem.detail),
        ClientProtocol::Http1 | ClientProtocol::Http2 => {
            with_problem(StatusCode::TOO_MANY_REQUESTS, problem.to_bytes())
        }
    };
    tell(response.headers_mut(), admission);
    response.headers_mut().insert(VERDICT, HeaderValue::from_static(admission.verdict.word()));
    response
}

/// Tells the client about its limits, instead of what the upstream says about others.
fn tell<C: Checker>(headers: &mut HeaderMap, admission: &mut Admission<C>) {
    let told = std::mem::take(&mut admission.headers);
    headers.reserve(told.len());
    for (name, value) in told {
        headers.insert(name, value);
    }
}
