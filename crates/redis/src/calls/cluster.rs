//! A cluster: which server has which slot, and how that is found out.
//!
//! Any server can tell the map of slots. It is fetched when the first request
//! needs it, and again when a server redirects or fails, by one task at a time
//! and not more often than [`REFRESH_EVERY`].
//!
//! Invariants: every server has its own circuit breaker, so that the loss of one
//! master degrades only its slots; a call follows at most one redirection.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use redis::{Cmd, Value};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::batch_call::KeyPassing;
use super::batcher;
use super::connect::{ConnectTarget, Connector};
use super::outage_log::OutageLog;
use super::script_args::ScriptArgs;
use super::script_reply::ScriptReply;
use super::server::{ServerCall, StoreServer};
use crate::config::ServerAddress;
use crate::error::{FailureReport, ServerError, StoreFailure};
use crate::placement::keys::{self, SLOTS};
use crate::stats::Stats;

/// The map is not fetched more often.
const REFRESH_EVERY: Duration = Duration::from_millis(100);
/// The longest that one server is waited for while others can be asked for the map.
const MAP_TIMEOUT: Duration = Duration::from_millis(500);

/// A cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    seeds: Vec<ServerAddress>,
    connector: Connector,
    probe_key: String,
    stats: Arc<Stats>,
    map: ArcSwap<SlotMap>,
    refresh: Mutex<MapRefresh>,
    log: OutageLog,
    /// Since when no server says who has which slot; none while one does.
    unmapped_since: Mutex<Option<Instant>>,
}

/// Which server has which slot.
#[derive(Debug, Clone, Default)]
struct SlotMap {
    servers: Vec<(ServerAddress, Arc<StoreServer>)>,
    /// For each slot the index of its master among the servers.
    owners: Vec<Option<usize>>,
}

impl SlotMap {
    fn owner(&self, slot: u16) -> Option<&Arc<StoreServer>> {
        let index = (*self.owners.get(usize::from(slot))?)?;
        self.servers.get(index).map(|(_, server)| server)
    }
}

#[derive(Debug, Default)]
struct MapRefresh {
    running: Option<watch::Receiver<bool>>,
    not_before: Option<Instant>,
}

impl Cluster {
    pub(crate) fn new(
        seeds: Vec<ServerAddress>,
        connector: Connector,
        probe_key: String,
        stats: Arc<Stats>,
    ) -> Arc<Self> {
        Arc::new(Self {
            seeds,
            connector,
            probe_key,
            stats,
            map: ArcSwap::default(),
            refresh: Mutex::default(),
            log: OutageLog::default(),
            unmapped_since: Mutex::default(),
        })
    }

    /// Has a server decide a request, in one call with others for the same server. If
    /// it did nothing, the request is to be sent alone.
    pub(crate) async fn call_shared(
        self: &Arc<Self>,
        args: ScriptArgs,
        deadline: Instant,
    ) -> Result<Option<ScriptReply>, StoreFailure> {
        let slot = args.keys.first().map_or(0, |key| keys::slot(key));
        let server = self.owner(slot, deadline).await?;
        let reply = batcher::call(&server, args, KeyPassing::Undeclared, deadline).await;
        reply.inspect_err(|failure| self.failed(*failure))
    }

    /// Calls the server that has the slot.
    pub(crate) async fn call(
        self: &Arc<Self>,
        slot: u16,
        call: &ServerCall<'_>,
        deadline: Instant,
    ) -> Result<Value, StoreFailure> {
        let server = self.owner(slot, deadline).await?;
        match server.call(call, deadline).await {
            Ok(value) => Ok(value),
            Err(ServerError::Moved { slot, address }) => {
                self.stats.redirects.add(1);
                self.refresh_soon();
                let server = self.server_at(&address, Some(slot)).ok_or(StoreFailure::Other)?;
                server.call(call, deadline).await.map_err(unfollowed)
            }
            Err(ServerError::Ask { address }) => {
                self.stats.redirects.add(1);
                let server = self.server_at(&address, None).ok_or(StoreFailure::Other)?;
                server.call(&call.asking(), deadline).await.map_err(unfollowed)
            }
            Err(error) => {
                let failure = unfollowed(error);
                self.failed(failure);
                Err(failure)
            }
        }
    }

    /// A server has failed; another may have its slots by now.
    fn failed(self: &Arc<Self>, failure: StoreFailure) {
        if !matches!(failure, StoreFailure::BadState | StoreFailure::OutOfMemory) {
            self.refresh_soon();
        }
    }

    async fn owner(self: &Arc<Self>, slot: u16, deadline: Instant) -> Result<Arc<StoreServer>, StoreFailure> {
        if let Some(server) = self.map.load().owner(slot) {
            return Ok(Arc::clone(server));
        }
        let running = self.refresh_soon();
        if let Some(mut running) = running {
            let done = running.wait_for(|done| *done);
            let _waited = timeout_at(deadline, done).await.map_err(|_| StoreFailure::Timeout)?;
        }
        let map = self.map.load();
        map.owner(slot).map(Arc::clone).ok_or_else(|| {
            self.stats.note_failure(StoreFailure::ClusterDown);
            StoreFailure::ClusterDown
        })
    }

    /// The server at `address`, which has `slot` from now on.
    fn server_at(&self, address: &str, slot: Option<u16>) -> Option<Arc<StoreServer>> {
        let (host, port) = address.rsplit_once(':')?;
        let address = ServerAddress::Tcp { host: host.to_owned(), port: port.parse().ok()? };
        let known = |map: &SlotMap| map.servers.iter().position(|(other, _)| *other == address);
        let made = self.new_server(&address);
        self.map.rcu(|map| {
            let mut map = SlotMap::clone(map);
            let index = known(&map).unwrap_or_else(|| {
                map.servers.push((address.clone(), Arc::clone(&made)));
                map.servers.len() - 1
            });
            if let Some(owner) = slot.and_then(|slot| map.owners.get_mut(usize::from(slot))) {
                *owner = Some(index);
            }
            map
        });
        let map = self.map.load();
        known(&map).and_then(|index| map.servers.get(index)).map(|(_, server)| Arc::clone(server))
    }

    fn new_server(&self, address: &ServerAddress) -> Arc<StoreServer> {
        let target = ConnectTarget::Address(address.clone());
        StoreServer::new(target, self.connector.clone(), self.probe_key.clone(), Arc::clone(&self.stats))
    }

    /// Fetches the map in a task, unless that was done just now.
    fn refresh_soon(self: &Arc<Self>) -> Option<watch::Receiver<bool>> {
        let mut refresh = self.refresh.lock();
        if let Some(running) = refresh.running.as_ref().filter(|running| running.has_changed().is_ok()) {
            return Some(running.clone());
        }
        let now = Instant::now();
        if refresh.not_before.is_some_and(|not_before| now < not_before) {
            return None;
        }
        // With jitter, so that nodes do not ask together.
        let jitter_us = u64::try_from(REFRESH_EVERY.as_micros()).unwrap_or(0);
        refresh.not_before = Some(now + REFRESH_EVERY + Duration::from_micros(fastrand::u64(0..=jitter_us)));
        let (done, running) = watch::channel(false);
        refresh.running = Some(running.clone());
        let cluster = Arc::clone(self);
        tokio::spawn(async move {
            cluster.fetch_map().await;
            // Dropping it afterwards tells the next caller that this refresh is over.
            done.send_replace(true);
        });
        Some(running)
    }

    async fn fetch_map(&self) {
        let map = self.map.load_full();
        let (closed, open): (Vec<_>, Vec<_>) = map.servers.iter().partition(|(_, server)| !server.is_open());
        let mut known: Vec<&ServerAddress> = closed.iter().map(|(address, _)| address).collect();
        fastrand::shuffle(&mut known);
        known.extend(&self.seeds);
        known.extend(open.iter().map(|(address, _)| address));
        let mut failed = None;
        for address in known {
            let asked = timeout(MAP_TIMEOUT, self.ask_for_map(address)).await;
            match asked.unwrap_or_else(|_| Err(FailureReport::new(StoreFailure::Timeout, "no reply in time")))
            {
                Ok(slots) => {
                    self.map.store(Arc::new(self.map_of(slots, &map)));
                    self.map_found(address);
                    return;
                }
                Err(report) => failed = failed.or(Some((address, report))),
            }
        }
        // Where servers are known, each has a circuit breaker that tells about it.
        if let Some((address, report)) = failed.filter(|_| map.servers.is_empty()) {
            self.map_missing(address, report);
        }
    }

    /// No server says who has which slot, so that none can be asked.
    fn map_missing(&self, address: &ServerAddress, report: FailureReport) {
        let target = ConnectTarget::Address(address.clone());
        let is_first = {
            let mut since = self.unmapped_since.lock();
            let is_first = since.is_none();
            since.get_or_insert_with(Instant::now);
            is_first
        };
        if is_first {
            self.stats.opened.add(1);
            self.log.began(&target, &report);
        } else {
            self.log.goes_on(&target, &report);
        }
        self.stats.set_outage(target.to_string(), report);
    }

    fn map_found(&self, address: &ServerAddress) {
        let Some(since) = self.unmapped_since.lock().take() else { return };
        self.stats.closed.add(1);
        self.log.ended(&ConnectTarget::Address(address.clone()), since.elapsed());
    }

    async fn ask_for_map(&self, address: &ServerAddress) -> Result<Vec<SlotRange>, FailureReport> {
        let connection = self.connector.connect(address).await?;
        let mut slots = Cmd::new();
        slots.arg("CLUSTER").arg("SLOTS");
        let reply = connection.send(&slots).await.map_err(ServerError::report)?;
        let ranges = if let Value::Array(ranges) = reply { ranges } else { Vec::new() };
        let ranges: Vec<SlotRange> =
            ranges.into_iter().filter_map(|range| SlotRange::read(range, address)).collect();
        if ranges.is_empty() {
            return Err(FailureReport::new(StoreFailure::ClusterDown, "no slot has a server"));
        }
        Ok(ranges)
    }

    /// The map of these ranges, with the servers that are known already.
    fn map_of(&self, ranges: Vec<SlotRange>, before: &SlotMap) -> SlotMap {
        let mut map = SlotMap { servers: Vec::new(), owners: vec![None; usize::from(SLOTS)] };
        for SlotRange { first, last, master } in ranges {
            let known = map.servers.iter().position(|(address, _)| *address == master);
            let index = known.unwrap_or_else(|| {
                let kept = before.servers.iter().find(|(address, _)| *address == master);
                let server = kept.map_or_else(|| self.new_server(&master), |(_, server)| Arc::clone(server));
                map.servers.push((master, server));
                map.servers.len() - 1
            });
            for owner in map.owners.iter_mut().take(usize::from(last) + 1).skip(usize::from(first)) {
                *owner = Some(index);
            }
        }
        map
    }
}

/// A second redirection is not followed.
fn unfollowed(error: ServerError) -> StoreFailure {
    match error {
        ServerError::Failure(report) => report.failure,
        ServerError::NoScript => StoreFailure::Other,
        ServerError::Moved { .. } | ServerError::Ask { .. } => StoreFailure::Moving,
    }
}

/// A range of slots and its master.
#[derive(Debug, PartialEq, Eq)]
struct SlotRange {
    first: u16,
    last: u16,
    master: ServerAddress,
}

impl SlotRange {
    /// Reads one item of `CLUSTER SLOTS`, as `source` replied it.
    fn read(value: Value, source: &ServerAddress) -> Option<Self> {
        let Value::Array(items) = value else { return None };
        let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = items.as_slice() else {
            return None;
        };
        let [host, Value::Int(port), ..] = master.as_slice() else { return None };
        // A server that does not know its own name means the one it was reached by.
        let told = if let Value::BulkString(bytes) = host { str::from_utf8(bytes).ok()? } else { "" };
        let host = match source {
            ServerAddress::Tcp { host, .. } if told.is_empty() || told == "?" => host.clone(),
            ServerAddress::Tcp { .. } | ServerAddress::Unix { .. } => told.to_owned(),
        };
        let master = ServerAddress::Tcp { host, port: u16::try_from(*port).ok()? };
        let range = Self { first: u16::try_from(*first).ok()?, last: u16::try_from(*last).ok()?, master };
        (range.first <= range.last && range.last < SLOTS).then_some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> ServerAddress {
        ServerAddress::Tcp { host: host.into(), port }
    }

    fn item(host: Value, last: i64) -> Value {
        Value::Array(vec![Value::Int(5), Value::Int(last), Value::Array(vec![host, Value::Int(7000)])])
    }

    #[test]
    fn a_range_is_read_with_its_master() {
        let host = Value::BulkString(b"db-1".to_vec());
        let range = SlotRange::read(item(host, 9), &tcp("seed", 1));
        assert_eq!(range, Some(SlotRange { first: 5, last: 9, master: tcp("db-1", 7000) }));
        let unnamed = SlotRange::read(item(Value::Nil, 9), &tcp("seed", 1));
        assert_eq!(unnamed.map(|range| range.master), Some(tcp("seed", 7000)));
    }

    #[test]
    fn what_is_not_a_range_is_left_out() {
        for wrong in [Value::Nil, item(Value::Nil, 16_384), item(Value::Nil, 4), item(Value::Nil, -1)] {
            assert_eq!(SlotRange::read(wrong, &tcp("seed", 1)), None);
        }
    }
}
