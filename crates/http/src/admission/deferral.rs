//! A request that may be taken now and sent later.
//!
//! Made by [`AdmissionControl::admit_or_defer`] for whoever can send requests later: the gateway.
//! Others call `admit`, for whom a limit with `over_limit: defer` denies as every other.
//!
//! Invariants: a request is deferred only if no other limit denies it. While requests of the same
//! line wait, those that come later line up behind them, even if there is room at this moment. It is
//! counted once, by [`Deferral::taken`] or [`Deferral::refused`].
//!
//! Deliberately not here: keeping requests, and sending them.

use std::sync::Arc;

use tollgate_core::{Descriptor, Entry, Micros, Operation, Outcome, OwnedRequest, Request, Verdict};
use tollgate_limiter::Reply;

use super::{Admission, AdmissionControl, AdmissionError, Checker};
use crate::request::mapping::{MappedDescriptors, MappedEntries};
use crate::request::{HttpRequestFacts, MappedRequest};
use crate::response::CallerView;

/// When a request that lines up behind others is told to come again; nobody knows better.
const LINE_WAIT: Micros = Micros::SECOND;

/// A request that may be taken now and sent later.
#[derive(Debug)]
pub struct Deferral {
    /// What the limiter is to be asked before it is sent.
    pub check: OwnedRequest,
    /// Whose turn it waits for.
    pub line: String,
    /// The name of the limit that puts it off.
    pub rule: String,
    /// There is no room before that.
    pub retry_after: Micros,
    reply: Reply,
}

/// The line that requests of a descriptor wait in.
pub fn line(domain: &str, entries: &[Entry<'_>]) -> String {
    let length = entries.iter().map(|entry| entry.key.len() + entry.value.len() + 8).sum::<usize>();
    let mut text = String::with_capacity(domain.len() + length);
    text.push_str(domain);
    for entry in entries {
        // With their lengths, so that no two descriptors share a line by a clever choice of text.
        text.push_str(&format!("|{},{}:{}={}", entry.key.len(), entry.value.len(), entry.key, entry.value));
    }
    text
}

impl Deferral {
    /// Whether a request that was answered like this may be put off: only limits that defer deny it.
    pub fn is_possible(reply: &Reply) -> bool {
        reply.is_deferrable() && reply.deferring().is_some()
    }

    /// Of a request that may be put off.
    pub fn new(request: &Request<'_>, reply: Reply) -> Self {
        let decision = reply.deferring();
        let descriptor = decision.and_then(|decision| request.descriptors.get(decision.descriptor));
        let line = line(request.domain, descriptor.map_or(&[][..], |own| own.entries));
        let rule = decision.and_then(|decision| reply.rule(decision)).map(|rule| rule.name().to_owned());
        let retry_after = match reply.verdict {
            Verdict::Deny { retry_after: Some(after) } => after,
            Verdict::Allow | Verdict::Delay { .. } | Verdict::Deny { retry_after: None } => Micros::ZERO,
        };
        let (check, rule) = (OwnedRequest::from(request), rule.unwrap_or_default());
        Self { check, line, rule, retry_after, reply }
    }

    /// What was answered.
    pub const fn reply(&self) -> &Reply {
        &self.reply
    }

    /// It was taken: counted as delayed.
    pub fn taken<C: Checker>(mut self, checker: &C) {
        self.reply.put_off();
        self.count(checker);
    }

    /// It could not be taken: counted as denied.
    pub fn refused<C: Checker>(self, checker: &C) {
        self.count(checker);
    }

    fn count<C: Checker>(&self, checker: &C) {
        let entries = self.check.entries();
        let descriptors = self.check.borrowed(&entries);
        checker.count(&self.check.request(&descriptors), &self.reply);
    }
}

impl AdmissionControl {
    /// As [`AdmissionControl::admit`], for whoever can send a request later. If the admission has a
    /// deferral, nothing was taken for the request, and one of the deferral's ends must follow.
    ///
    /// # Errors
    /// If the mapping denies it, or there is nothing to decide by.
    pub async fn admit_or_defer<C: Checker>(
        &self,
        checker: &Arc<C>,
        facts: &HttpRequestFacts<'_>,
    ) -> Result<Admission<C>, AdmissionError<C::Error>> {
        let (now, mut mapped) = (checker.now(), MappedRequest::default());
        self.map(&**checker, &mut mapped, facts, now).map_err(AdmissionError::Mapping)?;
        // An answer that decides what is charged must come while somebody waits for it.
        if mapped.is_empty() || mapped.needs_response() {
            return self.admit(checker, facts).await;
        }
        let route = self.route(&**checker, facts);
        let (mut entries, mut descriptors) = (MappedEntries::new(), MappedDescriptors::new());
        mapped.entries(&mut entries);
        mapped.descriptors(&entries, &mut descriptors);
        let request = Request { route: route.as_deref(), ..mapped.request(&descriptors) };
        if is_in_line(&**checker, &request) {
            let peeked = checker.ask(&request, Operation::Peek, now, self.max_wait.into()).await;
            let mut peeked = peeked.map_err(AdmissionError::Check)?;
            peeked.line_up(LINE_WAIT);
            if Deferral::is_possible(&peeked) {
                return Ok(deferred(&**checker, &request, Deferral::new(&request, peeked)));
            }
        }
        let reply = checker.ask(&request, Operation::Check, now, self.max_wait.into()).await;
        let reply = reply.map_err(AdmissionError::Check)?;
        if Deferral::is_possible(&reply) {
            return Ok(deferred(&**checker, &request, Deferral::new(&request, reply)));
        }
        checker.count(&request, &reply);
        let pending = self.pending(checker, &request, &mapped, &reply);
        Ok(Admission::told(&CallerView::new(checker.responses(), &request, &reply), pending))
    }
}

/// The admission of a request that may be taken now: all that is told if it is not, and the deferral.
fn deferred<C: Checker>(checker: &C, request: &Request<'_>, deferral: Deferral) -> Admission<C> {
    let view = CallerView::new(checker.responses(), request, &deferral.reply);
    let told = Admission::told(&view, None);
    Admission { outcome: Some(Outcome::Delayed), deferral: Some(Box::new(deferral)), ..told }
}

/// Whether others wait for what this request asks for.
fn is_in_line<C: Checker>(checker: &C, request: &Request<'_>) -> bool {
    let waits = |descriptor: &Descriptor<'_>| checker.has_line(&line(request.domain, descriptor.entries));
    checker.has_lines() && request.descriptors.iter().any(waits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_share_a_line_only_if_they_are_the_same() {
        let of = |pairs: &[(&'static str, &'static str)]| {
            let entries: Vec<Entry<'_>> = pairs.iter().map(|pair| Entry::from(*pair)).collect();
            line("d", &entries)
        };
        let lines = [
            of(&[("a", "b")]),
            of(&[("a", "b|1,1:c=d")]),
            of(&[("a", "b"), ("c", "d")]),
            of(&[("a=", "b")]),
            of(&[("a", "=b")]),
        ];
        for (index, one) in lines.iter().enumerate() {
            assert!(lines.iter().skip(index + 1).all(|other| other != one), "{one}");
        }
    }
}
