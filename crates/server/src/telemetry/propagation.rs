//! The parent span of a call, from its headers.
//!
//! W3C `traceparent` first, as new proxies send it; else B3, one header or
//! several, as older ones do.

use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};
use opentelemetry_sdk::propagation::TraceContextPropagator;

/// The context that the headers carry; an empty one if they carry none.
pub(super) fn context<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Context {
    let headers = W3cHeaders { traceparent: header("traceparent"), tracestate: header("tracestate") };
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &headers);
    if context.has_active_span() {
        return context;
    }
    match b3(&header) {
        Some(parent) => Context::new().with_remote_span_context(parent),
        None => Context::new(),
    }
}

/// The two headers that W3C names.
struct W3cHeaders<'h> {
    traceparent: Option<&'h str>,
    tracestate: Option<&'h str>,
}

impl Extractor for W3cHeaders<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "traceparent" => self.traceparent,
            "tracestate" => self.tracestate,
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}

fn b3<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Option<SpanContext> {
    let (trace, span, sampled) = match header("b3") {
        Some(single) => {
            let mut parts = single.split('-');
            (parts.next()?, parts.next()?, parts.next())
        }
        None => {
            let debug = header("x-b3-flags").filter(|flags| *flags == "1");
            (header("x-b3-traceid")?, header("x-b3-spanid")?, debug.or_else(|| header("x-b3-sampled")))
        }
    };
    let is_sampled = sampled.is_some_and(|sampled| ["1", "d", "true"].contains(&sampled));
    let flags = if is_sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
    // A short trace id is the lower half of a long one.
    let trace = TraceId::from_hex(trace).ok().filter(|id| *id != TraceId::INVALID)?;
    let span = SpanId::from_hex(span).ok().filter(|id| *id != SpanId::INVALID)?;
    Some(SpanContext::new(trace, span, flags, true, TraceState::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn parent(headers: &[(&str, &str)]) -> Option<(String, String, bool)> {
        let context =
            context(|name| headers.iter().find(|(header, _)| *header == name).map(|(_, value)| *value));
        let span = context.span();
        let parent = span.span_context();
        parent
            .is_valid()
            .then(|| (parent.trace_id().to_string(), parent.span_id().to_string(), parent.is_sampled()))
    }

    #[test]
    fn every_way_to_name_a_parent_is_read() {
        let (traceparent, single) = (format!("00-{TRACE}-{SPAN}-01"), format!("{TRACE}-{SPAN}-1"));
        let several = [("x-b3-traceid", TRACE), ("x-b3-spanid", SPAN), ("x-b3-sampled", "1")];
        let ways: [&[(&str, &str)]; 3] = [&[("traceparent", &traceparent)], &[("b3", &single)], &several];
        for headers in ways {
            assert_eq!(parent(headers), Some((TRACE.into(), SPAN.into(), true)), "{headers:?}");
        }
        let unsampled = format!("{TRACE}-{SPAN}-0");
        assert_eq!(parent(&[("b3", &unsampled)]), Some((TRACE.into(), SPAN.into(), false)));
    }

    #[test]
    fn nonsense_is_no_parent() {
        let zero = format!("00-{}-{SPAN}-01", "0".repeat(32));
        let rows: [&[(&str, &str)]; 5] = [
            &[],
            &[("traceparent", "00-xyz")],
            &[("traceparent", &zero)],
            &[("b3", "0")],
            &[("b3", "zz-yy-1")],
        ];
        for headers in rows {
            assert_eq!(parent(headers), None, "{headers:?}");
        }
    }
}
