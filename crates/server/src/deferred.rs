//! Requests that are sent later: the queue they are kept in, and the worker that sends them.
//!
//! The gateway and `/v1/defer` take requests in. The queue is opened once a rule in force says
//! `over_limit: defer`, or at the start if requests wait in the folder; from then on the worker sends
//! what is this node's to send.
//!
//! | module | what it holds |
//! |---|---|
//! | `worker` | whose turn it is, and what becomes of a turn |
//! | `attempt` | one turn: asks the limiter, sends, notes what became of it |
//!
//! Deliberately not here: keeping requests (`tollgate_defer`, `tollgate_redis`), and how they are sent
//! (`tollgate_gateway`).

mod attempt;
mod worker;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tollgate_core::RuleSet;
use tollgate_defer::{DeferError, DeferService, EmbeddedQueue};
use tollgate_gateway::Gateway;
use tollgate_metrics::{DeferStats, Metrics};
use tollgate_redis::deferred::RedisQueue;
use tollgate_settings::{DeferSettings, StoreSettings};

use crate::service::Service;
use crate::shutdown::stopped;
use worker::SendWorker;

/// How often it is tried to open the queue, while that fails.
const OPEN_AGAIN: Duration = Duration::from_secs(5);

/// Whether any rule puts requests off.
pub(crate) fn defers(rules: &RuleSet) -> bool {
    rules.domains().any(|domain| rules.defers(domain))
}

/// Where the queue is to be.
#[derive(Debug, Clone)]
pub(crate) struct QueuePlace {
    settings: DeferSettings,
    store: StoreSettings,
}

impl QueuePlace {
    pub(crate) const fn new(settings: DeferSettings, store: StoreSettings) -> Self {
        Self { settings, store }
    }

    /// Where that is.
    fn words(&self) -> String {
        match &self.store {
            StoreSettings::Memory(_) => format!("in {}", self.settings.folder.display()),
            StoreSettings::Redis(_) => "on Redis, for all nodes".to_owned(),
        }
    }

    /// Whether requests may wait from before the start.
    fn has_file(&self) -> bool {
        matches!(self.store, StoreSettings::Memory(_)) && EmbeddedQueue::exists(&self.settings.folder)
    }

    fn open(&self, service: &DeferService) -> Result<(), DeferError> {
        let DeferSettings { folder, config } = &self.settings;
        match &self.store {
            StoreSettings::Memory(_) => {
                std::fs::create_dir_all(folder).map_err(DeferError::store)?;
                service.open(EmbeddedQueue::open(folder, config.clone())?)
            }
            StoreSettings::Redis(redis) => {
                service.open(RedisQueue::new(redis, config.clone()).map_err(DeferError::store)?)
            }
        }
    }
}

/// Opens the queue once it is needed, and then sends until the server stops. `rules_loaded` tells when
/// to look whether it is.
pub(crate) async fn run(
    gateway: Arc<Gateway<Service>>,
    service: Arc<Service>,
    place: QueuePlace,
    rules_loaded: Arc<Notify>,
    mut done: watch::Receiver<bool>,
) {
    let Some(deferring) = service.deferring().cloned() else { return };
    let mut is_needed = place.has_file();
    let mut is_told = false;
    loop {
        is_needed |= defers(&service.limiter().rules());
        if is_needed {
            let (own, deferring) = (place.clone(), Arc::clone(&deferring));
            let opened = tokio::task::spawn_blocking(move || own.open(&deferring)).await;
            match opened {
                Ok(Ok(())) => {
                    tracing::info!("deferred requests are kept {}", place.words());
                    break;
                }
                Ok(Err(error)) if !std::mem::replace(&mut is_told, true) => {
                    tracing::warn!(%error, "requests over a limit are denied instead of deferred");
                }
                Ok(Err(_)) | Err(_) => {}
            }
        }
        let wait = if is_needed { OPEN_AGAIN } else { Duration::MAX };
        tokio::select! {
            () = stopped(&mut done) => return,
            () = rules_loaded.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
    SendWorker::new(gateway, service, deferring).run(done).await;
}

/// Has the metrics tell how requests that are sent later are doing.
pub(crate) fn watch_deferred(deferring: &Arc<DeferService>, metrics: &Metrics) {
    let weak = Arc::downgrade(deferring);
    metrics.watch_deferred(move || {
        let deferring = weak.upgrade()?;
        let counters = deferring.handle()?.counters();
        let size = counters.size();
        let events = [
            ("accepted", &counters.accepted),
            ("rejected", &counters.rejected),
            ("retried", &counters.retried),
            ("sent", &counters.done),
            ("failed", &counters.failed),
            ("expired", &counters.expired),
        ];
        Some(DeferStats {
            waiting: size.requests,
            waiting_bytes: size.bytes,
            events: events.map(|(name, counter)| (name, counter.load(Ordering::Relaxed))).to_vec(),
        })
    });
}
