//! What history adds to a decision, on threads that never wait; 50 ns are the aim.
//!
//! `cargo bench -p tollgate-server --bench history`. The first column is the
//! fastest sample, which a busy machine disturbs least.
#![expect(clippy::unwrap_used, reason = "a benchmark that goes wrong should stop")]

use std::collections::HashMap;
use std::sync::Arc;

use divan::{Bencher, black_box};
use tollgate_core::{Descriptor, Entry, Operation, Request};
use tollgate_limiter::{Event, EventSink as _, Limiter};
use tollgate_rules::{Options, SourceFile};
use tollgate_server::history::DecisionCounter;
use tollgate_settings::{Flags, Settings};

const RULES: &str = "
domain: shop
descriptors:
  - key: user_id
    rate_limit: { requests_per_unit: 4000000000, unit: hour }
  - key: path
    descriptors:
      - key: user_id
        rate_limit: { requests_per_unit: 4000000000, unit: hour }
";

fn main() {
    divan::main();
}

fn counting(keys: &str) -> DecisionCounter {
    let environment = HashMap::from([("TOLLGATE_HISTORY_KEYS".to_owned(), keys.to_owned())]);
    let (settings, _) = Settings::resolve(&Flags::default(), &environment, None).unwrap();
    DecisionCounter::new(&settings.history.unwrap())
}

/// Offers decisions about so many users.
fn offer(bencher: Bencher<'_, '_>, path: Option<&str>, users: usize, keys: &str) {
    let source = SourceFile { name: "bench.yaml".into(), text: RULES.into() };
    let limiter =
        Arc::new(Limiter::new(tollgate_rules::load(vec![source], &Options::default()).unwrap().rules));
    let counting = counting(keys);
    let names: Vec<String> = (0..users).map(|n| format!("user-{n}")).collect();
    bencher.bench(|| {
        for name in &names {
            let entries: Vec<Entry<'_>> = path
                .iter()
                .map(|path| Entry { key: "path", value: path })
                .chain([Entry { key: "user_id", value: name }])
                .collect();
            let descriptors = [Descriptor::new(&entries)];
            let request = Request::new("shop", &descriptors);
            let reply = limiter.check(&request).at_once();
            let (operation, decision) = (Operation::Check, reply.decisions.first());
            let event = Event { request: &request, reply: &reply, decision, operation, is_request: true };
            // A thousand of the same, so that the decision itself does not show.
            for _ in 0..1_000 {
                counting.offer(black_box(event));
            }
        }
    });
}

#[divan::bench(threads = [1, 2], sample_count = 200)]
fn a_thousand_with_a_key(bencher: Bencher<'_, '_>) {
    offer(bencher, None, 1, "clear");
}

#[divan::bench(threads = [1, 2], sample_count = 200)]
fn a_thousand_with_a_route_and_a_key(bencher: Bencher<'_, '_>) {
    offer(bencher, Some("/api/v1/products"), 1, "clear");
}

#[divan::bench(threads = [1, 2], sample_count = 200)]
fn a_thousand_with_a_route_alone(bencher: Bencher<'_, '_>) {
    offer(bencher, Some("/api/v1/products"), 1, "off");
}
