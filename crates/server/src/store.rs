//! Where counters live: in the memory of this process, or on servers that
//! several nodes share.
//!
//! The settings choose; everything else asks [`AnyStore`] and does not know.
//!
//! Invariant: counters in memory are decided without waiting and without an
//! allocation; the limiter boxes what a remote store needs for a request.

use tollgate_core::{Key, Time};
use tollgate_limiter::{ChargeSet, MemoryStore, Store, StoreReply};
use tollgate_metrics::{NodeStats, RemoteStats, StoreStats};
use tollgate_redis::{RedisStore, Stats, StoreFailure, StoreNode};
use tollgate_settings::StoreSettings;

use crate::error::Error;

/// Where counters live.
#[derive(Debug)]
pub enum AnyStore {
    /// In the memory of this process.
    Memory(MemoryStore),
    /// On servers that several nodes share.
    Redis(Box<RedisStore>),
}

impl AnyStore {
    /// The store that the settings choose. Nothing is connected to yet.
    ///
    /// # Errors
    /// If certificates or keys for TLS cannot be used.
    pub fn new(settings: &StoreSettings) -> Result<Self, Error> {
        match settings {
            StoreSettings::Memory(capacity) => Ok(Self::Memory(MemoryStore::new(*capacity))),
            StoreSettings::Redis(config) => {
                let store = RedisStore::new((**config).clone()).map_err(Error::Store)?;
                Ok(Self::Redis(Box::new(store)))
            }
        }
    }

    /// Tells the nodes that share it that this one is there.
    pub fn announce(&self) {
        if let Self::Redis(store) = self {
            store.announce();
        }
    }

    /// Whether a decision may have to wait for a server.
    pub const fn is_remote(&self) -> bool {
        matches!(self, Self::Redis(_))
    }

    /// How it is doing, as the metrics show it.
    pub fn stats(&self) -> StoreStats {
        match self {
            Self::Memory(store) => StoreStats { usage: store.usage(), remote: None },
            Self::Redis(store) => {
                StoreStats { usage: store.local_usage(), remote: Some(remote_stats(store.stats())) }
            }
        }
    }

    /// Drops keys that have run out.
    pub fn sweep(&self, now: Time) {
        match self {
            Self::Memory(store) => store.sweep(now),
            Self::Redis(store) => store.sweep_local(now),
        }
    }

    /// Which server cannot be asked and why; none if all can.
    pub fn outage(&self) -> Option<String> {
        match self {
            Self::Memory(_) => None,
            Self::Redis(store) => store.stats().outage(),
        }
    }

    /// Asks the servers whether they answer; true if there are none to ask.
    pub async fn is_well(&self) -> bool {
        match self {
            Self::Memory(_) => true,
            Self::Redis(store) => store.is_well().await,
        }
    }
}

impl Store for AnyStore {
    async fn check(&self, set: &ChargeSet<'_>, now: Time) -> StoreReply {
        match self {
            Self::Memory(store) => Store::check(store, set, now).await,
            Self::Redis(store) => store.check(set, now).await,
        }
    }

    fn memory(&self) -> Option<&MemoryStore> {
        match self {
            Self::Memory(store) => Some(store),
            Self::Redis(_) => None,
        }
    }

    async fn reset(&self, key: &Key<'_>, now: Time) -> bool {
        match self {
            Self::Memory(store) => store.forget(key),
            Self::Redis(store) => Box::pin(store.reset(key, now)).await,
        }
    }
}

fn node_stats(node: StoreNode) -> NodeStats {
    let StoreNode { name, age, is_this } = node;
    NodeStats { name, age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX), is_this }
}

fn remote_stats(stats: &Stats) -> RemoteStats {
    RemoteStats {
        is_degraded: stats.is_degraded(),
        nodes: stats.nodes(),
        node_list: stats.node_list().into_iter().map(node_stats).collect(),
        requests: stats.requests.get(),
        degraded: stats.degraded.get(),
        denials_remembered: stats.denials_remembered.get(),
        connections: stats.connections.get(),
        opened: stats.opened.get(),
        script_loads: stats.script_loads.get(),
        redirects: stats.redirects.get(),
        given_back: stats.given_back.get(),
        discarded: stats.discarded.get(),
        failures: StoreFailure::ALL
            .iter()
            .map(|failure| (failure.name(), stats.failures(*failure)))
            .collect(),
        round_trips: stats.round_trips().collect(),
        round_trip_sum_us: stats.round_trip_sum_us(),
    }
}
