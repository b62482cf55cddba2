//! What counting costs a request: `cargo bench -p tollgate-metrics --bench metrics`.
//!
//! One offer of one decision, without the decision before it. `written` is a rule
//! whose path is always the same, which is the usual case; `values` has a
//! caller's value in its path; `folded` has one for which there is no room.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a benchmark that goes wrong should stop")]

use std::sync::Arc;

use divan::{Bencher, black_box};
use tollgate_core::{Descriptor, Entry, Micros, Operation, Request};
use tollgate_limiter::{Event, EventSink as _, Limiter, Reply};
use tollgate_metrics::{Call, Metrics, MetricsConfig};
use tollgate_rules::{Options, SourceFile};

const RULES: &str = "
domain: shop
descriptors:
  - key: user_id
    rate_limit: { requests_per_unit: 4000000000, unit: hour }
  - key: route
    value_to_metric: true
    rate_limit: { requests_per_unit: 4000000000, unit: hour }
";

fn main() {
    divan::main();
}

fn metrics_for(limiter: &Limiter, config: MetricsConfig) -> Metrics {
    let metrics = Metrics::new(config);
    metrics.rules_loaded(limiter.rules(), tollgate_core::Time::from_secs(1));
    metrics
}

fn limiter() -> Limiter {
    let source = SourceFile { name: "bench.yaml".into(), text: RULES.into() };
    Limiter::new(tollgate_rules::load(vec![source], &Options::default()).unwrap().rules)
}

fn event<'a>(request: &'a Request<'a>, reply: &'a Reply) -> Event<'a> {
    let decision = Some(&reply.decisions[0]);
    Event { request, reply, decision, operation: Operation::Check, is_request: true }
}

fn offer(bencher: Bencher<'_, '_>, key: &str, config: MetricsConfig) {
    let limiter = Arc::new(limiter());
    let metrics = metrics_for(&limiter, config);
    let entries = [Entry { key, value: "/cart" }];
    let descriptors = [Descriptor::new(&entries)];
    let request = Request::new("shop", &descriptors);
    let reply = limiter.check(&request).at_once();
    let event = event(&request, &reply);
    bencher.bench(|| metrics.offer(black_box(event)));
}

#[divan::bench(threads = [1, 2], sample_count = 2_000, sample_size = 1_000)]
fn written(bencher: Bencher<'_, '_>) {
    offer(bencher, "user_id", MetricsConfig::default());
}

#[divan::bench(threads = [1, 2], sample_count = 2_000, sample_size = 1_000)]
fn values(bencher: Bencher<'_, '_>) {
    offer(bencher, "route", MetricsConfig::default());
}

#[divan::bench(threads = [1, 2], sample_count = 2_000, sample_size = 1_000)]
fn folded(bencher: Bencher<'_, '_>) {
    offer(bencher, "route", MetricsConfig { paths_max: 0, ..MetricsConfig::default() });
}

#[divan::bench(threads = [1, 2], sample_count = 2_000, sample_size = 1_000)]
fn served(bencher: Bencher<'_, '_>) {
    let metrics = Metrics::new(MetricsConfig::default());
    bencher.bench(|| metrics.served(Call::ShouldRateLimit, black_box(Micros::new(42))));
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn page_of_ten_thousand_paths(bencher: Bencher<'_, '_>) {
    let limiter = limiter();
    let metrics = metrics_for(&limiter, MetricsConfig::default());
    for n in 0..10_000 {
        let value = n.to_string();
        let entries = [Entry { key: "route", value: &value }];
        let descriptors = [Descriptor::new(&entries)];
        let request = Request::new("shop", &descriptors);
        let reply = limiter.check(&request).at_once();
        metrics.offer(event(&request, &reply));
    }
    bencher.bench(|| metrics.render().len());
}
