//! Several nodes write one history on real servers, and it adds up.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_core::Time;
use tollgate_history::query::{SeriesQuery, TimeRange, TopQuery};
use tollgate_history::{
    AppendResult, Bounds, Error, Flush, FlushId, History, InstanceId, Label, Outcome, SeriesKind,
    SharedHistory, TrafficCounts,
};
use tollgate_redis::RedisConfig;
use tollgate_redis::history::RedisTables;
use tollgate_testkit::redis::wait_until;
use tollgate_testkit::{RedisCluster, RedisServer};

use crate::log::XorShift;

const ALWAYS: TimeRange = TimeRange { from_s: 0, to_s: 1 << 40 };
const START_MIN: u32 = 20_001 * 1_440 + 720;
pub(crate) const LOCK: &str = "h1:{history}:lock";

pub(crate) fn open(url: &str) -> Result<SharedHistory<RedisTables>, Error> {
    let config = RedisConfig::new(url.parse().unwrap());
    SharedHistory::open(RedisTables::new(&config).unwrap(), Bounds::default())
}

/// A node, and what it has counted.
struct WriterNode {
    history: SharedHistory<RedisTables>,
    instance: InstanceId,
    seq: u64,
}

struct NodesWorld {
    nodes: Vec<WriterNode>,
    truth: BTreeMap<String, u64>,
    minute: u32,
    random: XorShift,
}

impl NodesWorld {
    fn new(url: &str) -> Self {
        let node = |n| WriterNode { history: open(url).unwrap(), instance: InstanceId([n; 16]), seq: 0 };
        let random = XorShift(u64::from(std::process::id()) * 2 + 1);
        Self { nodes: (1..=3).map(node).collect(), truth: BTreeMap::new(), minute: START_MIN, random }
    }

    fn flush(&mut self, who: usize) -> Flush {
        let WriterNode { instance, seq, .. } = &mut self.nodes[who];
        *seq += 1;
        let mut counts = TrafficCounts::default();
        for _ in 0..20 {
            let (route, count) = (format!("/{}", self.random.below(30)), 1 + self.random.below(9));
            let late = u32::try_from(self.random.below(3) * self.random.below(100)).unwrap();
            counts.add(self.minute - late, Label::Requests, Outcome::Allowed, count);
            counts.add(self.minute - late, Label::Route(route.as_str().into()), Outcome::Allowed, count);
            *self.truth.entry(route).or_default() += count;
        }
        Flush { id: FlushId { instance: *instance, seq: *seq }, counts }
    }

    /// Some hours, days and weeks, in which everybody writes and leads in turn.
    fn live(&mut self, rounds: u64, lose_the_lead: impl Fn()) {
        for round in 0..rounds {
            let who = usize::try_from(self.random.below(3)).unwrap();
            let flush = self.flush(who);
            let history = &mut self.nodes[who].history;
            assert_eq!(history.append(&flush).unwrap(), AppendResult::Written);
            if round % 4 == 0 {
                assert_eq!(history.append(&flush).unwrap(), AppendResult::Repeated);
            }
            if round % 3 == 0 {
                lose_the_lead();
            }
            let steps = [1, 7, 61, 700, 1_440, 12_000];
            self.minute += steps[usize::try_from(self.random.below(6)).unwrap()];
            self.nodes[who].history.maintain(Time::from_secs(u64::from(self.minute) * 60)).unwrap();
        }
    }

    /// Gives every node the time to compact, so that the leader does it.
    fn compact(&mut self) {
        self.minute += 5;
        for node in &mut self.nodes {
            node.history.maintain(Time::from_secs(u64::from(self.minute) * 60)).unwrap();
        }
    }

    fn everybody_tells_the_truth(&mut self) {
        let all: u64 = self.truth.values().sum();
        for node in &mut self.nodes {
            assert_eq!(node.history.read(|reader| reader.summary(ALWAYS)).unwrap().total, all);
            let query = TopQuery::new(SeriesKind::Route, ALWAYS, 100);
            let top = node.history.read(|reader| reader.top(&query)).unwrap();
            let rows = top.rows.into_iter().map(|row| (row.name, row.total)).collect::<BTreeMap<_, _>>();
            assert_eq!((&rows, top.other.total), (&self.truth, 0));
            for name in ["/0", "/7"] {
                let query =
                    SeriesQuery { name: Some(name.into()), ..SeriesQuery::new(SeriesKind::Route, ALWAYS) };
                let told = node.history.read(|reader| reader.series(&query)).unwrap().total;
                assert_eq!(told, self.truth.get(name).copied().unwrap_or(0));
            }
        }
    }
}

#[test]
fn nodes_on_one_redis_add_up() {
    let server = RedisServer::start();
    let mut world = NodesWorld::new(&server.url());
    world.live(60, || {
        server.cli(&["del", LOCK]);
    });
    world.everybody_tells_the_truth();
    assert_eq!(server.cli(&["exists", "h1:{history}:redo"]), "0", "nothing is left lying about");
}

#[test]
fn nodes_on_a_cluster_add_up_also_after_a_failover() {
    let mut cluster = RedisCluster::start();
    let mut world = NodesWorld::new(&cluster.url());
    world.live(25, || {
        cluster.servers[0].cli(&["-c", "del", LOCK]);
    });
    let slot: u16 = cluster.servers[0].cli(&["cluster", "keyslot", LOCK]).parse().unwrap();
    let master = cluster.master_of(slot).unwrap();
    // What a replica does not have yet is lost with its master, which is Redis' promise and not ours.
    let is_replicated = || {
        let about = cluster.servers[master].cli(&["info", "replication"]);
        let field = |name: &str| {
            let at = about.find(name)? + name.len();
            about[at..].split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
        };
        matches!((field("master_repl_offset:"), field(",offset=")), (Some(all), Some(theirs)) if all == theirs)
    };
    wait_until("the replica has everything", Duration::from_secs(20), is_replicated);
    cluster.servers[master].kill();
    let is_back =
        || (0..cluster.servers.len()).any(|server| server != master && cluster.is_master_of(server, slot));
    wait_until("a replica takes over", Duration::from_secs(60), is_back);
    for node in &mut world.nodes {
        let answers = || node.history.refresh().is_ok();
        wait_until("the history is back", Duration::from_secs(30), answers);
    }
    world.everybody_tells_the_truth();
    let alive = usize::from(master == 0);
    world.live(10, || {
        cluster.servers[alive].cli(&["-c", "del", LOCK]);
    });
    world.everybody_tells_the_truth();
}

#[test]
fn what_is_not_ours_is_told_and_left_alone() {
    let server = RedisServer::start();
    server.cli(&["set", "h1:{history}:l", "somebody's"]);
    let error = open(&server.url()).unwrap_err();
    assert!(error.full().contains("keeps something else under the keys h1:{history}:"), "{}", error.full());
    server.cli(&["del", "h1:{history}:l"]);
    server.cli(&["set", "h1:{history}:root", "somebody's"]);
    let error = open(&server.url()).unwrap_err();
    assert_eq!(error.full(), "the history is damaged: the root is not one of ours");
    assert_eq!(server.cli(&["get", "h1:{history}:root"]), "somebody's");
    server.cli(&["set", "h1:{history}:root", "\u{2}newer"]);
    assert!(matches!(open(&server.url()), Err(Error::TooNew { found: 2, known: 1 })));
}

#[test]
fn damaged_rows_are_lost_alone() {
    let server = RedisServer::start();
    let mut world = NodesWorld::new(&server.url());
    world.live(10, || ());
    for (key, field) in [("h1:{history}:l", "what is this"), ("h1:{history}:l", "and this?")] {
        server.cli(&["hset", key, field, "garbage"]);
    }
    world.live(10, || ());
    world.compact();
    world.everybody_tells_the_truth();
    let damaged = |node: &WriterNode| node.history.reader().unwrap().status().unwrap().damaged;
    let damaged: u64 = world.nodes.iter().map(damaged).sum();
    assert!(damaged >= 2, "{damaged}");
    assert_eq!(server.cli(&["hexists", "h1:{history}:l", "what is this"]), "0", "and are gone");
    let blocks = server.cli(&["--scan", "--pattern", "h1:{history}:b:*"]);
    for hash in blocks.lines() {
        let spoil = "return redis.call('HSET', KEYS[1], string.rep('\\0', 4), 'garbage')";
        assert_eq!(server.cli(&["eval", spoil, "1", hash]), "0", "there was a block");
    }
    let error = world.nodes[0].history.read(|reader| reader.summary(ALWAYS)).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "whoever asks for it is told: {error}");
    world.minute += 100 * 1_440;
    for _ in 0..10 {
        world.live(1, || {
            server.cli(&["del", LOCK]);
        });
    }
    let node = &mut world.nodes[0].history;
    let since = TimeRange { from_s: u64::from(world.minute - 60 * 1_440) * 60, to_s: ALWAYS.to_s };
    assert!(node.read(|reader| reader.summary(since)).unwrap().total > 0, "and what came since is there");
}

#[test]
fn a_server_that_hangs_or_is_gone_is_told_in_time_and_found_again() {
    let mut server = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut world = NodesWorld::new(&server.url());
    world.live(5, || ());
    let flush = world.flush(0);
    server.freeze();
    let error = world.nodes[0].history.append(&flush).unwrap_err();
    assert!(error.full().contains("could not be asked (timeout)"), "{}", error.full());
    server.thaw();
    server.kill();
    let error = world.nodes[0].history.append(&flush).unwrap_err();
    assert!(error.full().contains("could not be asked ("), "{}", error.full());
    server.restart();
    let history = &mut world.nodes[0].history;
    wait_until("the flush is written", Duration::from_secs(30), || history.append(&flush).is_ok());
    wait_until("all are back", Duration::from_secs(30), || {
        world.nodes.iter_mut().all(|node| node.history.refresh().is_ok())
    });
    world.everybody_tells_the_truth();
}
