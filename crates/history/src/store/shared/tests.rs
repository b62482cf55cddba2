//! Several processes, one history: sums are conserved, whoever leads and whoever dies.
//!
//! Method: three histories over one engine in memory that keeps editions as a
//! shared one does. They flush, lead, lose the lead, commit with fates, and start
//! again in random order; a plain map counts along.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;
use tollgate_core::Time;

use super::*;
use crate::engine::{Memory, Shared, Visit};
use crate::flush::Tally;
use crate::store::Bounds;
use crate::store::tests::{DAY_MIN, Fate, Model, START_MIN, label, outcome, told};
use tollgate_core::Outcome;

/// What all of them see.
#[derive(Debug, Default)]
struct Common {
    memory: Memory,
    edition: u64,
    leader: Option<usize>,
}

/// One process at it.
#[derive(Debug, Clone)]
struct Member {
    common: Arc<Mutex<Common>>,
    edition: Option<u64>,
    me: usize,
    fates: Vec<Fate>,
}

impl Member {
    fn new(common: &Arc<Mutex<Common>>, me: usize) -> Self {
        Self { common: Arc::clone(common), edition: None, me, fates: Vec::new() }
    }

    fn read<T>(&self, read: impl FnOnce(&Memory) -> Result<T>) -> Result<T> {
        let common = self.common.lock();
        if Some(common.edition) == self.edition { read(&common.memory) } else { Err(Error::Moved) }
    }
}

impl Engine for Member {
    fn get_many(&self, table: Table, keys: &[Vec<u8>], visit: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        self.read(|memory| memory.get_many(table, keys, visit))
    }

    fn scan(&self, table: Table, range: Range<&[u8]>, visit: &mut Visit<'_>) -> Result<()> {
        self.read(|memory| memory.scan(table, range, visit))
    }

    fn commit(&mut self, batch: &Batch) -> Result<()> {
        let mut common = self.common.lock();
        if Some(common.edition) != self.edition {
            return Err(Error::Moved);
        }
        let fate = self.fates.pop().unwrap_or(Fate::Done);
        if fate != Fate::FailsBefore {
            common.memory.commit(batch)?;
            common.edition += 1;
        }
        if fate != Fate::Done {
            return Err(Error::Corrupt { what: "the test says so" });
        }
        self.edition = Some(common.edition);
        Ok(())
    }

    fn shared(&mut self) -> Option<&mut dyn Shared> {
        Some(self)
    }
}

impl Shared for Member {
    fn post(&mut self, name: FlushName, bytes: &[u8]) -> Result<Appended> {
        let mut common = self.common.lock();
        let seen = common.memory.get(Table::Seen, &seen_key(name.instance))?;
        let is_folded =
            seen.and_then(|value| crate::store::read_seen(&value)).is_some_and(|seq| seq >= name.seq);
        if is_folded || common.memory.get(Table::Log, &name.key())?.is_some() {
            return Ok(Appended::Repeated);
        }
        let mut batch = Batch::default();
        batch.put(Table::Log, name.key().to_vec(), bytes.to_vec());
        common.memory.commit(&batch)?;
        Ok(Appended::Written)
    }

    fn posts(&self, is_wanted: &dyn Fn(&[u8]) -> bool, visit: &mut Visit<'_>) -> Result<()> {
        let (from, to) = table_range();
        let visit = &mut |key: &[u8], value: &[u8]| {
            if is_wanted(key) { visit(key, value) } else { ControlFlow::Continue(()) }
        };
        self.scan(Table::Log, &from..&to, visit)
    }

    fn lead(&mut self) -> Result<bool> {
        let mut common = self.common.lock();
        Ok(*common.leader.get_or_insert(self.me) == self.me)
    }

    fn renew(&mut self) -> Result<bool> {
        let newest = self.common.lock().edition;
        Ok(self.edition.replace(newest) != Some(newest))
    }
}

#[derive(Debug, Clone)]
enum Step {
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
    Commit(Fate),
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let late = prop_oneof![6 => -3_i32..3, 2 => -3_000_i32..10, 1 => -90_000_i32..100];
    let count = (late, 0_u8..8, 1_u64..1_000);
    let clock = prop_oneof![4 => 1_i32..20, 2 => 60_i32..3_000, 1 => 1_000_i32..60_000, 1 => -2_000_i32..0];
    let fate = prop_oneof![Just(Fate::FailsBefore), Just(Fate::FailsAfter)];
    let step = prop_oneof![
        5 => proptest::collection::vec(count, 0..8).prop_map(Step::Flush),
        1 => Just(Step::Again),
        3 => clock.prop_map(Step::Clock),
        4 => Just(Step::Maintain),
        1 => Just(Step::Usurp),
        1 => Just(Step::Restart),
        1 => Just(Step::Ask),
        1 => fate.prop_map(Step::Commit),
    ];
    proptest::collection::vec((0_usize..3, step), 1..60)
}

struct Process {
    history: History<Member>,
    instance: u8,
    seq: u64,
    last: Option<Flush>,
}

struct World {
    common: Arc<Mutex<Common>>,
    processes: Vec<Process>,
    model: Model,
    clock_min: i64,
    instances: u8,
}

impl World {
    fn new() -> Self {
        let common = Arc::default();
        let mut world = Self {
            common,
            processes: Vec::new(),
            model: Model::new(),
            clock_min: i64::from(START_MIN),
            instances: 0,
        };
        world.processes = (0..3).map(|me| world.process(me)).collect();
        world
    }

    fn process(&mut self, me: usize) -> Process {
        self.instances += 1;
        let history = History::open(Member::new(&self.common, me), Bounds::default()).unwrap();
        Process { history, instance: self.instances, seq: 0, last: None }
    }

    fn now(&self) -> Time {
        Time::from_secs(u64::try_from(self.clock_min).unwrap() * 60)
    }

    fn take(&mut self, who: usize, step: &Step) {
        let now = self.now();
        match step {
            Step::Flush(counts) => self.flush(who, counts),
            Step::Again => {
                let Process { history, last, .. } = &mut self.processes[who];
                if let Some(last) = last {
                    assert_eq!(history.append(last).unwrap(), Appended::Repeated);
                }
            }
            Step::Clock(by) => self.clock_min += i64::from(*by),
            // A failure leaves it half done: the next time goes on.
            Step::Maintain => drop(self.processes[who].history.maintain(now)),
            Step::Usurp => self.common.lock().leader = Some(who),
            Step::Restart => self.processes[who] = self.process(who),
            Step::Ask => {
                assert_eq!(self.processes[who].history.ask(|history| Ok(told(history))).unwrap(), self.model)
            }
            Step::Commit(fate) => self.processes[who].history.engine.fates.push(*fate),
        }
    }

    fn flush(&mut self, who: usize, counts: &[(i32, u8, u64)]) {
        let mut tally = Tally::default();
        for (late, which, count) in counts {
            let minute = u32::try_from(self.clock_min + i64::from(*late)).unwrap();
            tally.add(minute, label(*which), outcome(*count), *count);
            *self.model.entry((label(*which), minute / DAY_MIN)).or_default() += count;
        }
        let process = &mut self.processes[who];
        process.seq += 1;
        let name = FlushName { instance: Instance([process.instance; 16]), seq: process.seq };
        let flush = Flush { name, tally };
        assert_eq!(process.history.append(&flush).unwrap(), Appended::Written);
        process.last = Some(flush);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn sums_are_conserved_whoever_writes(steps in steps()) {
        let mut world = World::new();
        for (who, step) in &steps {
            world.take(*who, step);
        }
        for process in &mut world.processes {
            process.history.engine.fates.clear();
        }
        world.clock_min += 400 * i64::from(DAY_MIN);
        world.flush(1, &[(0, 6, 1)]);
        for who in 0..3 {
            world.take(who, &Step::Usurp);
            world.take(who, &Step::Maintain);
            world.take(who, &Step::Again);
            world.take(who, &Step::Ask);
        }
    }
}

fn two() -> (Arc<Mutex<Common>>, History<Member>, History<Member>) {
    let common = Arc::default();
    let [one, other] = [0, 1].map(|me| History::open(Member::new(&common, me), Bounds::default()).unwrap());
    (common, one, other)
}

fn flush_of(instance: u8, seq: u64, route: &str) -> Flush {
    let mut tally = Tally::default();
    tally.add_request(START_MIN, Some(route), Outcome::Allowed);
    Flush { name: FlushName { instance: Instance([instance; 16]), seq }, tally }
}

#[test]
fn a_label_goes_in_full_until_it_has_a_number() {
    let (common, mut one, mut other) = two();
    other.append(&flush_of(1, 1, "/a/long/route/of/its/own")).unwrap();
    let length = |seq: u64| {
        let key = FlushName { instance: Instance([1; 16]), seq }.key();
        common.lock().memory.get(Table::Log, &key).unwrap().unwrap().len()
    };
    let in_full = length(1);
    one.maintain(Time::from_secs(u64::from(START_MIN) * 60)).unwrap();
    other.append(&flush_of(1, 2, "/a/long/route/of/its/own")).unwrap();
    assert!(in_full > length(2) + 24, "{in_full} and then {}", length(2));
    let routes = other.ask(|history| Ok(history.names(crate::By::Route, "/", 10))).unwrap();
    assert_eq!(routes, ["/a/long/route/of/its/own"]);
}

#[test]
fn a_damaged_post_is_lost_alone_and_a_newer_one_is_left_to_newer_versions() {
    let (common, mut one, _) = two();
    one.append(&flush_of(1, 1, "/fine")).unwrap();
    let newer = FlushName { instance: Instance([2; 16]), seq: 1 }.key().to_vec();
    let mut batch = Batch::default();
    batch.put(Table::Log, newer.clone(), vec![post::VERSION + 1, 0, 0]);
    batch.put(Table::Log, FlushName { instance: Instance([3; 16]), seq: 1 }.key().to_vec(), vec![1, 2, 3]);
    batch.put(Table::Log, b"not even a name".to_vec(), vec![]);
    common.lock().memory.commit(&batch).unwrap();
    one.maintain(Time::from_secs(u64::from(START_MIN) * 60)).unwrap();
    let status = one.ask(History::status).unwrap();
    assert_eq!((status.damaged, status.series), (2, 1));
    let mut left = Vec::new();
    let (from, to) = table_range();
    let visit = &mut |key: &[u8], _: &[u8]| {
        left.push(key.to_vec());
        ControlFlow::Continue(())
    };
    common.lock().memory.scan(Table::Log, &from..&to, visit).unwrap();
    assert_eq!(left, [newer]);
}

#[test]
fn the_instances_that_are_silent_longest_are_forgotten() {
    let (common, mut one, _) = two();
    let mut batch = Batch::default();
    for n in 0..10_050_u32 {
        let mut value = 1_u64.to_be_bytes().to_vec();
        value.extend_from_slice(&n.to_be_bytes());
        let instance = Instance(u128::from(n + 1_000).to_be_bytes());
        batch.put(Table::Seen, seen_key(instance), value);
    }
    common.lock().memory.commit(&batch).unwrap();
    one.append(&flush_of(1, 1, "/a")).unwrap();
    one.maintain(Time::from_secs(u64::from(START_MIN) * 60)).unwrap();
    let left = one.ask(History::instances).unwrap();
    assert_eq!(left.len(), INSTANCES_MAX);
    let is_there =
        |n: u128| left.iter().any(|(instance, _)| *instance == Instance((n + 1_000).to_be_bytes()));
    assert_eq!([50, 51, 10_049].map(is_there), [false, true, true]);
}
