//! Several processes, one history: sums are conserved, whoever leads and whoever dies.
//!
//! Method: three histories over tables in memory that keep generations as shared ones
//! do. They flush, lead, lose the lead, commit with faults, and start again in random
//! order; a plain map counts along.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;
use tollgate_core::Outcome;

use super::*;
use crate::flush::TrafficCounts;
use crate::store::tests::{CommitFault, DAY_MIN, DailyCounts, START_MIN, label, outcome, told};
use crate::tables::{GetVisitor, MemoryTables, ScanVisitor, Tables};

/// What all of them see.
#[derive(Debug, Default)]
struct CommonTables {
    memory: MemoryTables,
    generation: u64,
    leader: Option<usize>,
}

/// One process at it.
#[derive(Debug, Clone)]
struct MemberTables {
    common: Arc<Mutex<CommonTables>>,
    generation: Option<u64>,
    me: usize,
    faults: Vec<CommitFault>,
}

impl MemberTables {
    fn new(common: &Arc<Mutex<CommonTables>>, me: usize) -> Self {
        Self { common: Arc::clone(common), generation: None, me, faults: Vec::new() }
    }

    fn read<T>(&self, read: impl FnOnce(&MemoryTables) -> Result<T>) -> Result<T> {
        let common = self.common.lock();
        if Some(common.generation) == self.generation { read(&common.memory) } else { Err(Error::Stale) }
    }
}

impl Tables for MemberTables {
    fn get_many(&self, table: TableId, keys: &[Vec<u8>], visit: &mut GetVisitor<'_>) -> Result<()> {
        self.read(|memory| memory.get_many(table, keys, visit))
    }

    fn scan(&self, table: TableId, range: Range<&[u8]>, visit: &mut ScanVisitor<'_>) -> Result<()> {
        self.read(|memory| memory.scan(table, range, visit))
    }

    fn commit(&mut self, batch: &WriteBatch) -> Result<()> {
        let mut common = self.common.lock();
        if Some(common.generation) != self.generation {
            return Err(Error::Stale);
        }
        let fault = self.faults.pop().unwrap_or(CommitFault::Done);
        if fault != CommitFault::FailsBefore {
            common.memory.commit(batch)?;
            common.generation += 1;
        }
        if fault != CommitFault::Done {
            return Err(Error::Corrupt { what: "the test says so" });
        }
        self.generation = Some(common.generation);
        Ok(())
    }
}

impl SharedTables for MemberTables {
    fn append(&mut self, id: FlushId, bytes: &[u8]) -> Result<AppendResult> {
        let mut common = self.common.lock();
        let is_compacted = last_flush(&common.memory, id.instance)?.is_some_and(|seq| seq >= id.seq);
        if is_compacted || common.memory.get(TableId::Log, &id.key())?.is_some() {
            return Ok(AppendResult::Repeated);
        }
        let mut batch = WriteBatch::default();
        batch.put(TableId::Log, id.key().to_vec(), bytes.to_vec());
        common.memory.commit(&batch)?;
        Ok(AppendResult::Written)
    }

    fn log_entries(&self, is_wanted: &dyn Fn(&[u8]) -> bool, visit: &mut ScanVisitor<'_>) -> Result<()> {
        let visit = &mut |key: &[u8], value: &[u8]| {
            if is_wanted(key) { visit(key, value) } else { Ok(ControlFlow::Continue(())) }
        };
        self.scan_all(TableId::Log, visit)
    }

    fn clock(&self) -> Result<Time> {
        Ok(Time::from_secs(1 << 33))
    }

    fn try_lead(&mut self) -> Result<bool> {
        let mut common = self.common.lock();
        Ok(*common.leader.get_or_insert(self.me) == self.me)
    }

    fn refresh(&mut self) -> Result<bool> {
        let newest = self.common.lock().generation;
        Ok(self.generation.replace(newest) != Some(newest))
    }
}

#[derive(Debug, Clone)]
enum SharedStep {
    /// Counts in minutes relative to the clock.
    Flush(Vec<(i32, u8, u64)>),
    /// The last flush is sent once more.
    Again,
    /// The clock goes on, or back.
    Clock(i32),
    Maintain,
    /// It thinks that it leads, though another does.
    Usurp,
    Restart,
    /// Somebody asks it.
    Ask,
    /// The next commit.
    Commit(CommitFault),
}

fn steps() -> impl Strategy<Value = Vec<(usize, SharedStep)>> {
    let late = prop_oneof![6 => -3_i32..3, 2 => -3_000_i32..10, 1 => -90_000_i32..100];
    let count = (late, 0_u8..8, 1_u64..1_000);
    let clock = prop_oneof![4 => 1_i32..20, 2 => 60_i32..3_000, 1 => 1_000_i32..60_000, 1 => -2_000_i32..0];
    let fault = prop_oneof![Just(CommitFault::FailsBefore), Just(CommitFault::FailsAfter)];
    let step = prop_oneof![
        5 => proptest::collection::vec(count, 0..8).prop_map(SharedStep::Flush),
        1 => Just(SharedStep::Again),
        3 => clock.prop_map(SharedStep::Clock),
        4 => Just(SharedStep::Maintain),
        1 => Just(SharedStep::Usurp),
        1 => Just(SharedStep::Restart),
        1 => Just(SharedStep::Ask),
        1 => fault.prop_map(SharedStep::Commit),
    ];
    proptest::collection::vec((0_usize..3, step), 1..60)
}

struct MemberProcess {
    history: SharedHistory<MemberTables>,
    instance: u8,
    seq: u64,
    last: Option<Flush>,
}

struct SharedWorld {
    common: Arc<Mutex<CommonTables>>,
    processes: Vec<MemberProcess>,
    model: DailyCounts,
    clock_min: i64,
    instances: u8,
}

impl SharedWorld {
    fn new() -> Self {
        let common = Arc::default();
        let mut world = Self {
            common,
            processes: Vec::new(),
            model: DailyCounts::new(),
            clock_min: i64::from(START_MIN),
            instances: 0,
        };
        world.processes = (0..3).map(|me| world.process(me)).collect();
        world
    }

    fn process(&mut self, me: usize) -> MemberProcess {
        self.instances += 1;
        let history = SharedHistory::open(MemberTables::new(&self.common, me), Bounds::default()).unwrap();
        MemberProcess { history, instance: self.instances, seq: 0, last: None }
    }

    fn now(&self) -> Time {
        Time::from_secs(u64::try_from(self.clock_min).unwrap() * 60)
    }

    fn take(&mut self, who: usize, step: &SharedStep) {
        let now = self.now();
        match step {
            SharedStep::Flush(counts) => self.flush(who, counts),
            SharedStep::Again => {
                let MemberProcess { history, last, .. } = &mut self.processes[who];
                if let Some(last) = last {
                    assert_eq!(history.append(last).unwrap(), AppendResult::Repeated);
                }
            }
            SharedStep::Clock(by) => self.clock_min += i64::from(*by),
            // A failure leaves it half done: the next time goes on.
            SharedStep::Maintain => drop(self.processes[who].history.maintain(now)),
            SharedStep::Usurp => self.common.lock().leader = Some(who),
            SharedStep::Restart => self.processes[who] = self.process(who),
            SharedStep::Ask => {
                assert_eq!(self.processes[who].history.read(|reader| Ok(told(reader))).unwrap(), self.model)
            }
            SharedStep::Commit(fault) => self.processes[who].history.core.tables.faults.push(*fault),
        }
    }

    fn flush(&mut self, who: usize, minutes: &[(i32, u8, u64)]) {
        let mut counts = TrafficCounts::default();
        for (late, which, count) in minutes {
            let minute = u32::try_from(self.clock_min + i64::from(*late)).unwrap();
            counts.add(minute, label(*which), outcome(*count), *count);
            *self.model.entry((label(*which), minute / DAY_MIN)).or_default() += count;
        }
        let process = &mut self.processes[who];
        process.seq += 1;
        let id = FlushId { instance: InstanceId([process.instance; 16]), seq: process.seq };
        let flush = Flush { id, counts };
        assert_eq!(process.history.append(&flush).unwrap(), AppendResult::Written);
        process.last = Some(flush);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn sums_are_conserved_whoever_writes(steps in steps()) {
        let mut world = SharedWorld::new();
        for (who, step) in &steps {
            world.take(*who, step);
        }
        for process in &mut world.processes {
            process.history.core.tables.faults.clear();
        }
        world.clock_min += 400 * i64::from(DAY_MIN);
        world.flush(1, &[(0, 6, 1)]);
        for who in 0..3 {
            world.take(who, &SharedStep::Usurp);
            world.take(who, &SharedStep::Maintain);
            world.take(who, &SharedStep::Again);
            world.take(who, &SharedStep::Ask);
        }
    }
}

fn two() -> (Arc<Mutex<CommonTables>>, SharedHistory<MemberTables>, SharedHistory<MemberTables>) {
    let common = Arc::default();
    let [one, other] =
        [0, 1].map(|me| SharedHistory::open(MemberTables::new(&common, me), Bounds::default()).unwrap());
    (common, one, other)
}

fn flush_of(instance: u8, seq: u64, route: &str) -> Flush {
    let mut counts = TrafficCounts::default();
    counts.add_request(START_MIN, Some(route), Outcome::Allowed);
    Flush { id: FlushId { instance: InstanceId([instance; 16]), seq }, counts }
}

#[test]
fn a_label_goes_in_full_until_it_has_a_number() {
    let (common, mut one, mut other) = two();
    other.append(&flush_of(1, 1, "/a/long/route/of/its/own")).unwrap();
    let length = |seq: u64| {
        let key = FlushId { instance: InstanceId([1; 16]), seq }.key();
        common.lock().memory.get(TableId::Log, &key).unwrap().unwrap().len()
    };
    let in_full = length(1);
    one.maintain(Time::from_secs(u64::from(START_MIN) * 60)).unwrap();
    other.append(&flush_of(1, 2, "/a/long/route/of/its/own")).unwrap();
    assert!(in_full > length(2) + 24, "{in_full} and then {}", length(2));
    let routes = other.read(|reader| Ok(reader.names(crate::SeriesKind::Route, "/", 10))).unwrap();
    assert_eq!(routes, ["/a/long/route/of/its/own"]);
}

#[test]
fn a_damaged_entry_is_lost_alone_and_a_newer_one_is_left_to_newer_versions() {
    let (common, mut one, _) = two();
    one.append(&flush_of(1, 1, "/fine")).unwrap();
    let newer = FlushId { instance: InstanceId([2; 16]), seq: 1 }.key().to_vec();
    let mut batch = WriteBatch::default();
    batch.put(TableId::Log, newer.clone(), vec![log_entry::VERSION + 1, 0, 0]);
    batch.put(TableId::Log, FlushId { instance: InstanceId([3; 16]), seq: 1 }.key().to_vec(), vec![1, 2, 3]);
    batch.put(TableId::Log, b"not even a name".to_vec(), vec![]);
    common.lock().memory.commit(&batch).unwrap();
    one.maintain(Time::from_secs(u64::from(START_MIN) * 60)).unwrap();
    let status = one.read(|reader| reader.status()).unwrap();
    assert_eq!((status.damaged, status.series), (2, 1));
    let mut left = Vec::new();
    let visit = &mut |key: &[u8], _: &[u8]| {
        left.push(key.to_vec());
        Ok(ControlFlow::Continue(()))
    };
    common.lock().memory.scan_all(TableId::Log, visit).unwrap();
    assert_eq!(left, [newer]);
}

#[test]
fn the_instances_that_are_silent_longest_are_forgotten() {
    let (common, mut one, _) = two();
    let mut batch = WriteBatch::default();
    for n in 0..10_050_u32 {
        let instance = InstanceId(u128::from(n + 1_000).to_be_bytes());
        put_last_flush(&mut batch, FlushId { instance, seq: 1 }, Some(n));
    }
    common.lock().memory.commit(&batch).unwrap();
    one.append(&flush_of(1, 1, "/a")).unwrap();
    one.maintain(Time::from_secs(u64::from(START_MIN) * 60)).unwrap();
    let left = one.read(|reader| reader.instances()).unwrap();
    assert_eq!(left.len(), INSTANCES_MAX);
    let is_there =
        |n: u128| left.iter().any(|(instance, _)| *instance == InstanceId((n + 1_000).to_be_bytes()));
    assert_eq!([50, 51, 10_049].map(is_there), [false, true, true]);
}
