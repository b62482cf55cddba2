//! Measures the load that elastic limits go by, and shares it with other nodes.
//!
//! Once a second, while any rule is elastic: the host is read, and what this node's sources say goes
//! to the shared store, if there is one, from where the loads of the other nodes come.
//!
//! Invariant: if the store cannot be asked, the other nodes go silent as any source does, and
//! count as full.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_core::{Micros, Time};
use tollgate_limiter::{Load, LoadGauge, LoadSource};

use crate::host_load::HostLoad;
use crate::service::Service;
use crate::shutdown::stopped;
use crate::store::AnyStore;

/// How often it is measured.
const EVERY: Duration = Duration::from_secs(1);
/// The machine that this runs on.
const HOST: LoadSource<'_> = LoadSource { name: "host", domain: None };
/// The name of what other nodes say.
const NODES: &str = "nodes";

/// Measures until it is told to stop. `host` if the machine is a source.
pub(super) async fn measure(service: Arc<Service>, host: bool, mut done: watch::Receiver<bool>) {
    let mut host = host.then(|| HostLoad::new("/"));
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
        if let AnyStore::Redis(store) = limiter.store() {
            let own = own_loads(gauge, now);
            if let Some(others) = store.share_load(&own).await {
                note_others(gauge, &others, service.now());
            }
        }
    }
}

fn report(gauge: &LoadGauge, source: LoadSource<'_>, load: Load, now: Time) {
    if let Err(error) = gauge.report(source, load, Micros::from(EVERY), now) {
        tracing::warn!("the load of {} is left out: {error}", source.name);
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
