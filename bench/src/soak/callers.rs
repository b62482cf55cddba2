//! Who calls, and what they send.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, Result};
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use fastrand::Rng;
use tonic::transport::{Channel, Endpoint};

/// Enough to keep two cores busy.
const CALLERS: u64 = 16;
/// Then a caller hangs up and connects again.
const CALLS_PER_CONNECTION: u64 = 2_000;
/// Keys that come again and again, as most traffic does.
const HOT_KEYS: u64 = 500;
/// The first requests of a caller are wide, so that everything that has a bound reaches it soon,
/// however slow the machine is: keys, logs, values that become metrics.
const WIDE_CALLS: u64 = 200;
/// How many values for each rule a wide request has.
const WIDTH: u64 = 16;
/// The keys of the rules, one descriptor each.
const KEYS: [&str; 8] = ["second", "year", "log", "counter", "buckets", "tokens", "queue", "told"];

/// All callers together.
pub(super) struct Callers {
    server: SocketAddr,
    calls: AtomicU64,
    decisions: AtomicU64,
    is_over: AtomicBool,
    failure: OnceLock<String>,
}

impl Callers {
    pub(super) const fn new(server: SocketAddr) -> Self {
        Self {
            server,
            calls: AtomicU64::new(0),
            decisions: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            failure: OnceLock::new(),
        }
    }

    /// Lets them call until they are told to stop.
    pub(super) fn start(self: &Arc<Self>) {
        for number in 0..CALLERS {
            let own = Arc::clone(self);
            tokio::spawn(async move {
                if let Err(error) = own.call(number).await {
                    // The first is as good as all.
                    drop(own.failure.set(format!("{error:#}")));
                }
            });
        }
    }

    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// How many calls, and how many descriptors in them, were answered.
    pub(super) fn counted(&self) -> (u64, u64) {
        (self.calls.load(Ordering::Relaxed), self.decisions.load(Ordering::Relaxed))
    }

    /// The first call that was not answered while they were meant to call.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.get().cloned()
    }

    /// One caller: one call after the other, all of them with news.
    async fn call(&self, number: u64) -> Result<()> {
        let mut random = Rng::with_seed(number);
        let (mut made_up, mut sent) = (number, 0);
        loop {
            let mut client = self.connect().await?;
            for _ in 0..CALLS_PER_CONNECTION {
                if self.is_over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let width = if sent < WIDE_CALLS { WIDTH } else { 1 };
                sent += 1;
                let values: Vec<String> = (0..width).map(|_| value(&mut made_up, &mut random)).collect();
                let request = request(&values, random.u8(..100) > 0);
                let descriptors = u64::try_from(request.descriptors.len()).unwrap_or_default();
                match client.should_rate_limit(request).await {
                    Ok(_) => {}
                    // It may be the server that stops first.
                    Err(_) if self.is_over.load(Ordering::Relaxed) => return Ok(()),
                    Err(status) => return Err(status).context("no answer"),
                }
                self.calls.fetch_add(1, Ordering::Relaxed);
                self.decisions.fetch_add(descriptors, Ordering::Relaxed);
            }
        }
    }

    async fn connect(&self) -> Result<RateLimitServiceClient<Channel>> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.server)).context("an address")?;
        let channel = endpoint.connect().await.context("cannot connect")?;
        Ok(RateLimitServiceClient::new(channel))
    }
}

/// A value that nobody has sent before, or one that everybody sends.
fn value(made_up: &mut u64, random: &mut Rng) -> String {
    let chosen = random.u64(..2 * HOT_KEYS);
    if chosen < HOT_KEYS {
        return format!("hot-{chosen}");
    }
    *made_up += CALLERS;
    format!("made-up-{made_up}")
}

/// All values for every rule and for a limit brought along; or the same for a domain that nobody knows.
fn request(values: &[String], is_known: bool) -> RateLimitRequest {
    let descriptor = |key: &str, value: &String| RateLimitDescriptor {
        entries: vec![Entry { key: key.to_owned(), value: value.clone() }],
        ..RateLimitDescriptor::default()
    };
    let mut descriptors = Vec::new();
    for value in values {
        descriptors.extend(KEYS.iter().map(|key| descriptor(key, value)));
        let limit = Some(RateLimitOverride { requests_per_unit: 3, unit: 2 });
        descriptors.push(RateLimitDescriptor { limit, ..descriptor("contract", value) });
    }
    let own = values.first().map_or("none", String::as_str);
    let domain = if is_known { "soak".to_owned() } else { format!("domain-{own}") };
    RateLimitRequest { domain, descriptors, hits_addend: 0 }
}
