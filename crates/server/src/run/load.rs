//! Measures the load that elastic limits go by, and shares it with other nodes.
//!
//! Once a second, while any rule is elastic: the host is read and the gateway asked about its
//! upstreams, and what this node's sources say goes to the shared store, if there is one, from where
//! the loads of the other nodes come.
//!
//! Invariant: if the store cannot be asked, the other nodes go silent as any source does, and
//! count as full.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_core::{Micros, Time};
use tollgate_gateway::{Gateway, GroupLoad};
use tollgate_limiter::{Load, LoadGauge, LoadSource};

use crate::host_load::HostLoad;
use crate::service::Service;
use crate::shutdown::stopped;
use crate::store::AnyStore;

/// How often it is measured.
const EVERY: Duration = Duration::from_secs(1);
/// The machine that this runs on.
const HOST: LoadSource<'_> = LoadSource { name: "host", domain: None };
/// The names of the gateway's upstreams begin with it.
const UPSTREAM: &str = "upstream ";
/// The name of what other nodes say.
const NODES: &str = "nodes";

/// What is measured beside what others report.
pub(super) struct LoadMeters {
    /// Whether the machine is.
    pub(super) host: bool,
    /// The gateway, whose upstreams are.
    pub(super) gateway: Option<Arc<Gateway<Service>>>,
}

/// Measures until it is told to stop.
pub(super) async fn measure(service: Arc<Service>, meters: LoadMeters, mut done: watch::Receiver<bool>) {
    let mut host = meters.host.then(|| HostLoad::new("/"));
    let mut every = tokio::time::interval(EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stopped(&mut done) => return,
            _ = every.tick() => {}
        }
        let limiter = service.limiter();
        if !limiter.rules().is_elastic() {
            continue;
        }
        let (gauge, now) = (limiter.load(), service.now());
        if let Some(load) = host.as_mut().and_then(|host| host.read(now)) {
            report(gauge, HOST, load, now);
        }
        if let Some(gateway) = &meters.gateway {
            note_upstreams(gauge, &gateway.loads(), now);
        }
        if let AnyStore::Redis(store) = limiter.store() {
            let own = own_loads(gauge, now);
            if let Some(others) = store.share_load(&own).await {
                note_others(gauge, &others, service.now());
            }
        }
    }
}

/// The load of each domain; nothing if no limit goes by it.
pub(super) fn domain_loads(service: &Service) -> Vec<(String, f64)> {
    let (rules, gauge, now) = (service.limiter().rules(), service.limiter().load(), service.now());
    let domains = rules.domains().filter(|_| rules.is_elastic());
    domains.map(|domain| (domain.to_owned(), gauge.load(domain, now).get())).collect()
}

fn report(gauge: &LoadGauge, source: LoadSource<'_>, load: Load, now: Time) {
    if let Err(error) = gauge.report(source, load, Micros::from(EVERY), now) {
        tracing::warn!("the load of {} is left out: {error}", source.name);
    }
}

/// Notes how loaded the gateway's upstreams are, and forgets those that no route leads to any more.
fn note_upstreams(gauge: &LoadGauge, loads: &[GroupLoad], now: Time) {
    let name = |load: &GroupLoad| format!("{UPSTREAM}{}", load.group);
    for reading in gauge.readings(now).into_iter().filter(|reading| reading.source.starts_with(UPSTREAM)) {
        let (source, domain) = (&reading.source, reading.domain.as_deref());
        if !loads.iter().any(|load| name(load) == *source && domain == Some(&load.domain)) {
            gauge.forget(LoadSource { name: source, domain }, now);
        }
    }
    for load in loads {
        report(gauge, LoadSource { name: &name(load), domain: Some(&load.domain) }, load.load, now);
    }
}

/// What this node's own sources say: the largest by domain, and for all domains.
fn own_loads(gauge: &LoadGauge, now: Time) -> Vec<(Option<String>, Load)> {
    let mut loads: BTreeMap<Option<String>, Load> = BTreeMap::new();
    for reading in gauge.readings(now).into_iter().filter(|reading| reading.source != NODES) {
        let load = loads.entry(reading.domain).or_insert(Load::IDLE);
        *load = load.max(reading.load);
    }
    loads.into_iter().collect()
}

/// Notes what the other nodes say, and forgets what none of them says any more.
fn note_others(gauge: &LoadGauge, others: &[(Option<String>, Load)], now: Time) {
    for reading in gauge.readings(now).into_iter().filter(|reading| reading.source == NODES) {
        if !others.iter().any(|(domain, _)| *domain == reading.domain) {
            gauge.forget(LoadSource { name: NODES, domain: reading.domain.as_deref() }, now);
        }
    }
    for (domain, load) in others {
        report(gauge, LoadSource { name: NODES, domain: domain.as_deref() }, *load, now);
    }
}
