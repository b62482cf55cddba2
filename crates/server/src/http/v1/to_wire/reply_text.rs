//! Replies → the text of their JSON.
//!
//! A reply is written for every check over HTTP, and most of it is the names of its members, which never change. serde
//! looks at each of their bytes for what has to be escaped, and that took a third of the instructions of a
//! request. So names are written as they stand here, and serde_json writes what callers and operators have named.
//!
//! Invariant: the bytes are those that serde makes of the same body; tests hold both beside each other.

use super::{DecisionBody, DeniedBody, ReplyBody, VerdictName};

impl ReplyBody<'_> {
    pub(in super::super) fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        self.write_members(out);
        out.push(b'}');
    }

    fn write_members(&self, out: &mut Vec<u8>) {
        put(out, r#""verdict":"#);
        put(out, self.verdict.json());
        put_number(out, r#","wait_ms":"#, self.wait_ms);
        put_number_or_null(out, r#","retry_after_ms":"#, self.retry_after_ms);
        put_number(out, r#","binding":"#, self.binding.map(|index| u64::try_from(index).unwrap_or(u64::MAX)));
        put_text(out, r#","reason":"#, self.reason);
        put_text(out, r#","unknown":"#, self.unknown);
        put_text(out, r#","nearest":"#, self.nearest);
        put(out, r#","decisions":["#);
        for (at, decision) in self.decisions.bodies().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            decision.write(out);
        }
        out.push(b']');
    }
}

impl DecisionBody<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let descriptor = u64::try_from(self.descriptor).unwrap_or(u64::MAX);
        put_number(out, r#"{"descriptor":"#, Some(descriptor));
        match self.rule {
            rule @ Some(_) => put_text(out, r#","rule":"#, rule),
            None => put(out, r#","rule":null"#),
        }
        put(out, r#","algorithm":""#);
        put(out, self.algorithm);
        put(out, r#"","verdict":"#);
        put(out, self.verdict.json());
        put_number(out, r#","limit":"#, Some(self.limit));
        put_number(out, r#","remaining":"#, Some(self.remaining));
        put_number(out, r#","wait_ms":"#, self.wait_ms);
        put_number_or_null(out, r#","retry_after_ms":"#, self.retry_after_ms);
        put_number(out, r#","reset_after_ms":"#, Some(self.reset_after_ms));
        match (self.shadow, self.soft, self.degraded) {
            (false, false, false) => put(out, r#","shadow":false,"soft":false,"degraded":false"#),
            (shadow, soft, degraded) => {
                put(out, if shadow { r#","shadow":true"# } else { r#","shadow":false"# });
                put(out, if soft { r#","soft":true"# } else { r#","soft":false"# });
                put(out, if degraded { r#","degraded":true"# } else { r#","degraded":false"# });
            }
        }
        if self.overridden {
            put(out, r#","overridden":true"#);
        }
        put_text(out, r#","reason":"#, self.reason);
        put_text(out, r#","message":"#, self.message);
        out.push(b'}');
    }
}

impl DeniedBody<'_> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_text(out, r#"{"type":"#, Some(self.kind));
        put_text(out, r#","title":"#, Some(self.title));
        put_number(out, r#","status":"#, Some(u64::from(self.status)));
        put_text(out, r#","detail":"#, Some(&self.detail));
        for (at, rule) in self.violated_policies.iter().enumerate() {
            put_text(out, if at > 0 { "," } else { r#","violated-policies":["# }, Some(rule));
        }
        put(out, if self.violated_policies.is_empty() { r#","violated-policies":[],"# } else { "]," });
        self.reply.write_members(out);
        out.push(b'}');
    }
}

impl VerdictName {
    const fn json(self) -> &'static str {
        match self {
            Self::Allow => r#""allow""#,
            Self::Delay => r#""delay""#,
            Self::Deny => r#""deny""#,
        }
    }
}

/// Text that is JSON already.
fn put(out: &mut Vec<u8>, json: &'static str) {
    out.extend_from_slice(json.as_bytes());
}

fn put_number(out: &mut Vec<u8>, name: &'static str, value: Option<u64>) {
    let Some(value) = value else { return };
    put(out, name);
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn put_number_or_null(out: &mut Vec<u8>, name: &'static str, value: Option<Option<u64>>) {
    match value {
        Some(None) => {
            put(out, name);
            put(out, "null");
        }
        Some(value) => put_number(out, name, value),
        None => {}
    }
}

fn put_text(out: &mut Vec<u8>, name: &'static str, value: Option<&str>) {
    let Some(value) = value else { return };
    put(out, name);
    serde_json::to_writer(out, value).expect("a text is always JSON, and a vector takes all of it");
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use proptest::prelude::*;
    use tollgate_core::{Descriptor, Entry, Operation, Request};
    use tollgate_http::response::{CallerView, ResponseSettings};

    use super::*;
    use crate::testing::{self, START};

    /// Every algorithm and mode, names and messages that have to be escaped, penalties, soft limits and lists.
    const RULES: &str = r#"
domain: d
descriptors:
  - key: fixed
    rate_limit: { name: "a \"quoted\" name", requests_per_unit: 1, unit: hour, message: "one\ntwo \u0001 é" }
  - key: several
    rate_limits:
      - { name: log, algorithm: sliding_log, requests_per_unit: 2, unit: minute }
      - { name: queue, algorithm: leaky_bucket, requests_per_unit: 1, unit: second, burst: 1 }
  - key: shadow
    shadow_mode: true
    rate_limit: { algorithm: sliding_counter, requests_per_unit: 1, unit: day }
  - key: soft
    rate_limit: { algorithm: token_bucket, requests_per_unit: 1, unit: hour, throttle: { soft: { exceed: 100% } } }
  - key: never
    rate_limit: { algorithm: sliding_buckets, requests_per_unit: 0, unit: hour }
  - key: penalty
    rate_limit: { requests_per_unit: 1, unit: second, penalty: { after: 1, within: 1m, block: 10m } }
  - key: listed
    rate_limit: { requests_per_unit: 1, unit: hour, deny: [bad], allow: [good] }
  - key: free
    rate_limit: { unlimited: true }
"#;

    fn entries() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
        const KEYS: [&str; 10] =
            ["fixed", "several", "shadow", "soft", "never", "penalty", "listed", "free", "fixd", "\u{1}"];
        let entry = (prop::sample::select(&KEYS), prop::sample::select(&["1", "good", "bad"]));
        prop::collection::vec(entry, 1..4)
    }

    proptest! {
        #[test]
        fn replies_are_the_text_that_serde_makes_of_them(
            steps in prop::collection::vec((entries(), 0_u64..4, any::<bool>()), 1..12),
        ) {
            let (service, settings) = (testing::service(RULES), ResponseSettings::default());
            for (entries, cost, is_known) in steps {
                let entries: Vec<Entry<'_>> = entries.iter().map(|entry| Entry::from(*entry)).collect();
                let descriptors: Vec<Descriptor<'_>> = entries.chunks(1).map(Descriptor::new).collect();
                let domain = if is_known { "d" } else { "dd" };
                let request = Request::new(domain, &descriptors).with_cost(cost);
                let reply = service.operate(&request, Operation::Check, START).now_or_never().unwrap().unwrap();
                let view = CallerView::new(&settings, &request, &reply);
                let body = ReplyBody::new(&view);
                let mut written = Vec::new();
                body.write(&mut written);
                prop_assert_eq!(String::from_utf8(written).unwrap(), serde_json::to_string(&body).unwrap());
                if reply.verdict.is_deny() {
                    let problem = view.problem(429);
                    let denied = DeniedBody::new(problem, &view);
                    let mut written = Vec::new();
                    denied.write(&mut written);
                    prop_assert_eq!(String::from_utf8(written).unwrap(), serde_json::to_string(&denied).unwrap());
                }
            }
        }
    }
}
