//! A cluster: which server has which slot, and how that is found out.
//!
//! The map of slots comes from any server that tells it. It is fetched when the
//! first request needs it, and again whenever a server redirects or is in
//! trouble, by one task at a time and not more often than [`REFRESH_EVERY`].
//!
//! Invariants: every server has its own breaker, so that the loss of one master
//! degrades its slots alone; a call follows at most one redirection.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use redis::{Cmd, Value};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use crate::config::Address;
use crate::dial::{Dialer, Target};
use crate::error::{Refusal, Trouble};
use crate::keys::SLOTS;
use crate::node::{Ask, Node};
use crate::stats::Stats;

/// The map is fetched no more often, whatever happens.
const REFRESH_EVERY: Duration = Duration::from_millis(100);
/// No server is waited for longer while there are others to ask for the map.
const MAP_TIMEOUT: Duration = Duration::from_millis(500);

/// A cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    seeds: Vec<Address>,
    dialer: Dialer,
    probe_key: String,
    stats: Arc<Stats>,
    map: ArcSwap<Map>,
    refresh: Mutex<Refresh>,
}

/// Which server has which slot.
#[derive(Debug, Clone, Default)]
struct Map {
    nodes: Vec<(Address, Arc<Node>)>,
    /// For each slot the place of its master among the nodes.
    owners: Vec<Option<usize>>,
}

impl Map {
    fn owner(&self, slot: u16) -> Option<&Arc<Node>> {
        let place = (*self.owners.get(usize::from(slot))?)?;
        self.nodes.get(place).map(|(_, node)| node)
    }
}

#[derive(Debug, Default)]
struct Refresh {
    running: Option<watch::Receiver<bool>>,
    not_before: Option<Instant>,
}

impl Cluster {
    pub(crate) fn new(
        seeds: Vec<Address>,
        dialer: Dialer,
        probe_key: String,
        stats: Arc<Stats>,
    ) -> Arc<Self> {
        let (map, refresh) = (ArcSwap::default(), Mutex::default());
        Arc::new(Self { seeds, dialer, probe_key, stats, map, refresh })
    }

    /// Asks whichever server has the slot.
    pub(crate) async fn call(
        self: &Arc<Self>,
        slot: u16,
        ask: &Ask<'_>,
        deadline: Instant,
    ) -> Result<Value, Trouble> {
        let node = self.owner(slot, deadline).await?;
        match node.call(ask, deadline).await {
            Ok(value) => Ok(value),
            Err(Refusal::Moved { slot, address }) => {
                self.stats.redirects.add(1);
                self.refresh_soon();
                let node = self.node_at(&address, Some(slot)).ok_or(Trouble::Other)?;
                node.call(ask, deadline).await.map_err(unfollowed)
            }
            Err(Refusal::Ask { address }) => {
                self.stats.redirects.add(1);
                let node = self.node_at(&address, None).ok_or(Trouble::Other)?;
                node.call(&ask.once(), deadline).await.map_err(unfollowed)
            }
            Err(refusal) => {
                let trouble = unfollowed(refusal);
                if !matches!(trouble, Trouble::BadState | Trouble::OutOfMemory) {
                    self.refresh_soon();
                }
                Err(trouble)
            }
        }
    }

    async fn owner(self: &Arc<Self>, slot: u16, deadline: Instant) -> Result<Arc<Node>, Trouble> {
        if let Some(node) = self.map.load().owner(slot) {
            return Ok(Arc::clone(node));
        }
        let running = self.refresh_soon();
        if let Some(mut running) = running {
            let done = running.wait_for(|done| *done);
            let _waited = timeout_at(deadline, done).await.map_err(|_| Trouble::Timeout)?;
        }
        let map = self.map.load();
        map.owner(slot).map(Arc::clone).ok_or_else(|| {
            self.stats.note_trouble(Trouble::ClusterDown);
            Trouble::ClusterDown
        })
    }

    /// The server at `address`, which is from now on asked for `slot`.
    fn node_at(&self, address: &str, slot: Option<u16>) -> Option<Arc<Node>> {
        let (host, port) = address.rsplit_once(':')?;
        let address = Address::Tcp { host: host.to_owned(), port: port.parse().ok()? };
        let known = |map: &Map| map.nodes.iter().position(|(other, _)| *other == address);
        let made = self.node(&address);
        self.map.rcu(|map| {
            let mut map = Map::clone(map);
            let place = known(&map).unwrap_or_else(|| {
                map.nodes.push((address.clone(), Arc::clone(&made)));
                map.nodes.len() - 1
            });
            if let Some(owner) = slot.and_then(|slot| map.owners.get_mut(usize::from(slot))) {
                *owner = Some(place);
            }
            map
        });
        let map = self.map.load();
        known(&map).and_then(|place| map.nodes.get(place)).map(|(_, node)| Arc::clone(node))
    }

    fn node(&self, address: &Address) -> Arc<Node> {
        let target = Target::Address(address.clone());
        Node::new(target, self.dialer.clone(), self.probe_key.clone(), Arc::clone(&self.stats))
    }

    /// Has the map fetched again, unless it just was.
    fn refresh_soon(self: &Arc<Self>) -> Option<watch::Receiver<bool>> {
        let mut refresh = self.refresh.lock();
        if let Some(running) = refresh.running.as_ref().filter(|running| running.has_changed().is_ok()) {
            return Some(running.clone());
        }
        let now = Instant::now();
        if refresh.not_before.is_some_and(|not_before| now < not_before) {
            return None;
        }
        // By chance up to twice as long, so that nodes do not ask together.
        let pause_us = u64::try_from(REFRESH_EVERY.as_micros()).unwrap_or(0);
        refresh.not_before = Some(now + REFRESH_EVERY + Duration::from_micros(fastrand::u64(0..=pause_us)));
        let (done, running) = watch::channel(false);
        refresh.running = Some(running.clone());
        let cluster = Arc::clone(self);
        tokio::spawn(async move {
            cluster.fetch_map().await;
            // Dropped behind this, which tells the next one that it is over.
            done.send_replace(true);
        });
        Some(running)
    }

    async fn fetch_map(&self) {
        let map = self.map.load_full();
        let (well, ill): (Vec<_>, Vec<_>) = map.nodes.iter().partition(|(_, node)| !node.is_open());
        let mut known: Vec<&Address> = well.iter().map(|(address, _)| address).collect();
        fastrand::shuffle(&mut known);
        known.extend(&self.seeds);
        known.extend(ill.iter().map(|(address, _)| address));
        for address in known {
            if let Ok(Some(slots)) = timeout(MAP_TIMEOUT, self.ask_for_map(address)).await {
                self.map.store(Arc::new(self.map_of(slots, &map)));
                return;
            }
        }
    }

    async fn ask_for_map(&self, address: &Address) -> Option<Vec<Range>> {
        let link = self.dialer.connect(address).await.ok()?;
        let mut slots = Cmd::new();
        slots.arg("CLUSTER").arg("SLOTS");
        let Ok(Value::Array(ranges)) = link.send(&slots).await else { return None };
        let ranges: Vec<Range> = ranges.into_iter().filter_map(|range| Range::read(range, address)).collect();
        (!ranges.is_empty()).then_some(ranges)
    }

    /// The map of these ranges, with the servers that are known already.
    fn map_of(&self, ranges: Vec<Range>, before: &Map) -> Map {
        let mut map = Map { nodes: Vec::new(), owners: vec![None; usize::from(SLOTS)] };
        for Range { first, last, master } in ranges {
            let known = map.nodes.iter().position(|(address, _)| *address == master);
            let place = known.unwrap_or_else(|| {
                let kept = before.nodes.iter().find(|(address, _)| *address == master);
                let node = kept.map_or_else(|| self.node(&master), |(_, node)| Arc::clone(node));
                map.nodes.push((master, node));
                map.nodes.len() - 1
            });
            for owner in map.owners.iter_mut().take(usize::from(last) + 1).skip(usize::from(first)) {
                *owner = Some(place);
            }
        }
        map
    }
}

/// A redirection that follows a redirection is not followed.
fn unfollowed(refusal: Refusal) -> Trouble {
    match refusal {
        Refusal::Trouble(trouble) => trouble,
        Refusal::NoScript => Trouble::Other,
        Refusal::Moved { .. } | Refusal::Ask { .. } => Trouble::Moving,
    }
}

/// Slots in a row and their master.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
    master: Address,
}

impl Range {
    /// Reads one item of `CLUSTER SLOTS`, as told by `teller`.
    fn read(value: Value, teller: &Address) -> Option<Self> {
        let Value::Array(items) = value else { return None };
        let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = items.as_slice() else {
            return None;
        };
        let [host, Value::Int(port), ..] = master.as_slice() else { return None };
        // A server that does not know its own name means the one it was asked by.
        let told = if let Value::BulkString(bytes) = host { str::from_utf8(bytes).ok()? } else { "" };
        let host = match teller {
            Address::Tcp { host, .. } if told.is_empty() || told == "?" => host.clone(),
            Address::Tcp { .. } | Address::Unix { .. } => told.to_owned(),
        };
        let master = Address::Tcp { host, port: u16::try_from(*port).ok()? };
        let range = Self { first: u16::try_from(*first).ok()?, last: u16::try_from(*last).ok()?, master };
        (range.first <= range.last && range.last < SLOTS).then_some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.into(), port }
    }

    fn told(host: Value, last: i64) -> Value {
        Value::Array(vec![Value::Int(5), Value::Int(last), Value::Array(vec![host, Value::Int(7000)])])
    }

    #[test]
    fn a_range_is_read_with_its_master() {
        let host = Value::BulkString(b"db-1".to_vec());
        let range = Range::read(told(host, 9), &tcp("seed", 1));
        assert_eq!(range, Some(Range { first: 5, last: 9, master: tcp("db-1", 7000) }));
        let unnamed = Range::read(told(Value::Nil, 9), &tcp("seed", 1));
        assert_eq!(unnamed.map(|range| range.master), Some(tcp("seed", 7000)));
    }

    #[test]
    fn what_is_not_a_range_is_left_out() {
        for wrong in [Value::Nil, told(Value::Nil, 16_384), told(Value::Nil, 4), told(Value::Nil, -1)] {
            assert_eq!(Range::read(wrong, &tcp("seed", 1)), None);
        }
    }
}
