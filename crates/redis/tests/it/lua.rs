//! The scripts in process, step by step beside the maths that they mirror.
//!
//! The engine runs a whole script on Lua 5.1 with a table in place of the
//! server's keys: the one for single charges of the algorithm, or the one for
//! charge sets. After every step it must keep the text that `tollgate-core`
//! would keep, and the replay of its reply must give the same decision. The
//! suites then hold it to the oracles as well.

use std::collections::HashMap;
use std::rc::Rc;

use mlua::{Function, Lua, Table};
use redis::Value;
use smallvec::smallvec;
use tollgate_core::rule::Elastic;
use tollgate_core::{
    Change, Charge, Decision, Entry, Key, Limit, Micros, Mode, Operation, Penalty, PenaltyStep, Shape, State,
    Time, decide,
};
use tollgate_limiter::ChargeSet;
use tollgate_redis::calls::batch_call::{BatchCall, KeyPassing};
use tollgate_redis::calls::script::Script;
use tollgate_redis::calls::script_args::ScriptArgs;
use tollgate_redis::calls::script_reply::{Replay, ScriptReply, StateBefore};
use tollgate_testkit::exhaustive::{self, Scope};
use tollgate_testkit::{Engine, boundaries, penalty, random, vectors};

use crate::support::every_algorithm;

/// Reads and writes a table as the server reads and writes its keys.
const KEYS_IN_A_TABLE: &str = "
    local kept, ends, clock = {}, {}, { us = 0 }
    local redis = {}
    function redis.pcall(command, key)
        if type(kept[key]) == 'table' then return { err = 'WRONGTYPE' } end
        if kept[key] == true then return { err = 'ERR a non local key' } end
        return redis.call(command, key)
    end
    function redis.call(command, key, value, option, life_ms)
        if command == 'GET' then return kept[key] or false end
        if command == 'SET' then
            if option == 'PX' then
                ends[key] = clock.us + tonumber(life_ms) * 1000
            elseif option ~= 'KEEPTTL' or not ends[key] then
                error('a key without an end')
            end
            kept[key] = value
            return 'OK'
        end
        if command == 'DEL' then kept[key], ends[key] = nil, nil return 1 end
        if command == 'TIME' then return { math.floor(clock.us / 1000000), clock.us % 1000000 } end
        error('unexpected ' .. command)
    end
";

#[derive(Clone)]
struct Scripts {
    lua: Rc<Lua>,
    /// In the order of `Script::ALL`.
    functions: Rc<[Function]>,
    kept: Table,
    /// By key, when the server removes it, in microseconds.
    ends: Table,
    /// The server's, as `us`.
    clock: Table,
    which: ScriptKind,
}

/// ScriptKind script decides a charge that is alone.
#[derive(Clone, Copy)]
enum ScriptKind {
    SingleCharges,
    ChargeSets,
}

const MODES: [Mode; 4] = [Mode::Enforce, Mode::Shadow, Mode::Quota, Mode::ShadowQuota];
const BOTH: [ScriptKind; 2] = [ScriptKind::SingleCharges, ScriptKind::ChargeSets];

impl Scripts {
    fn new(which: ScriptKind) -> Self {
        let lua = Lua::new();
        let functions: String = Script::ALL
            .into_iter()
            .map(|script| format!("function(KEYS, ARGV) {} end, ", script.text()))
            .collect();
        let text = format!("{KEYS_IN_A_TABLE} return {{ {functions} }}, kept, ends, clock");
        let (functions, kept, ends, clock): (Vec<Function>, _, _, _) = lua.load(text).eval().unwrap();
        Self { lua: Rc::new(lua), functions: functions.into(), kept, ends, clock, which }
    }

    /// Hands engines on these to a suite.
    fn pass(
        suite: &str,
        all: &[ScriptKind],
        run: impl Fn(&dyn Fn(Limit) -> LuaEngine) -> Result<u64, String>,
    ) {
        for which in all {
            let scripts = Self::new(*which);
            match run(&|limit| scripts.engine(limit)) {
                Ok(steps) => println!("{suite} in Lua: {steps} steps compared"),
                Err(failure) => panic!("{suite}: {failure}"),
            }
        }
    }

    fn engine(&self, limit: Limit) -> LuaEngine {
        self.kept.clear().unwrap();
        LuaEngine { script: self.clone(), limit, core: None }
    }

    /// The arguments for a charge of `cost` under `key`.
    fn args(&self, key: &str, limit: &Limit, operation: Operation, cost: u64) -> ScriptArgs {
        let (charge_set, keys) = (charge_set(limit, operation, cost), smallvec![key.to_owned()]);
        match self.which {
            ScriptKind::SingleCharges => ScriptArgs::new(&charge_set, keys, None),
            ScriptKind::ChargeSets => ScriptArgs::for_charge_set(&charge_set, keys, None),
        }
    }

    fn run(&self, call: &BatchCall) -> Vec<ScriptReply> {
        let lua = &self.lua;
        let keys = lua.create_sequence_from(call.declared_keys().iter().map(String::as_str)).unwrap();
        let arguments = lua.create_sequence_from(call.arguments().map(|word| word.into_owned())).unwrap();
        let script = Script::ALL.iter().position(|script| *script == call.script).unwrap();
        let reply: Table = self.functions[script].call((keys, arguments)).unwrap();
        let values = (1..=call.keys().len() + 1).map(|index| match reply.get(index).unwrap() {
            mlua::Value::String(text) => Value::BulkString(text.as_bytes().to_vec()),
            other => lua.coerce_integer(other).unwrap().map_or(Value::Nil, Value::Int),
        });
        call.read(Value::Array(values.collect())).expect("a reply")
    }

    fn kept(&self, name: &str) -> Option<Vec<u8>> {
        let text: Option<mlua::LuaString> = self.kept.get(name).unwrap();
        text.map(|text| text.as_bytes().to_vec())
    }
}

fn charge_set(limit: &Limit, operation: Operation, cost: u64) -> ChargeSet<'_> {
    const ENTRIES: &[Entry<'static>] = &[Entry { key: "k", value: "v" }];
    let key = Key { domain: "d", entries: ENTRIES, shared: &[], limit, ordinal: 0 };
    let charge = Charge { descriptor: 0, rule: None, key, mode: Mode::Enforce, operation, cost };
    ChargeSet { charges: smallvec![charge], ..ChargeSet::default() }
}

fn text(state: &State, limit: &Limit) -> Vec<u8> {
    let mut text = Vec::new();
    state.write_text(limit, &mut text);
    text
}

struct LuaEngine {
    script: Scripts,
    limit: Limit,
    core: Option<State>,
}

const KEY: &str = "the key";
const OPERATIONS: [Operation; 4] = [Operation::Check, Operation::Peek, Operation::Report, Operation::Refund];

impl LuaEngine {
    fn run(&self, now: Time, operation: Operation, cost: u64) -> Decision {
        let args = self.script.args(KEY, &self.limit, operation, cost);
        let reply = self.script.run(&BatchCall::new(args, KeyPassing::Declared, Some(now))).remove(0);
        Replay::new(&charge_set(&self.limit, operation, cost), &reply, &[KEY.into()]).unwrap().decisions[0]
    }
}

impl Engine for LuaEngine {
    fn decide(&mut self, now: Time, operation: Operation, cost: u64) -> Decision {
        let (expected, change) =
            decide(self.core.as_ref().map(State::as_ref), &self.limit, now, operation, cost);
        match change {
            Change::Keep => {}
            Change::Put(state) => self.core = Some(state),
            Change::Remove => self.core = None,
        }
        let step = format!("{:?} {now:?} {operation:?} {cost}", self.limit);
        let decision = self.run(now, operation, cost);
        assert_eq!(decision, expected, "{step}");
        let text = self.core.as_ref().map(|state| text(state, &self.limit));
        let show =
            |text: &Option<Vec<u8>>| text.as_deref().map(|text| String::from_utf8_lossy(text).into_owned());
        assert_eq!(show(&self.script.kept(KEY)), show(&text), "{step}");
        decision
    }

    fn reset(&mut self) {
        self.core = None;
        self.script.kept.clear().unwrap();
    }
}

#[test]
fn the_vectors_are_decided_as_written() {
    let groups = vectors::load(&vectors::folder()).unwrap_or_else(|error| panic!("{error}"));
    Scripts::pass("vectors", &BOTH, |engines| {
        vectors::run(&engines, &groups).map_err(|failure| failure.to_string())
    });
}

#[test]
fn small_cases_are_decided_as_in_rust() {
    let scopes = [Scope { depth: 2, ..Scope::wide().unwrap() }, Scope { depth: 3, ..Scope::deep().unwrap() }];
    for scope in &scopes {
        let run = |engines: &dyn Fn(Limit) -> LuaEngine| {
            exhaustive::run(&engines, scope).map_err(|failure| failure.to_string())
        };
        Scripts::pass("small cases", &[ScriptKind::SingleCharges], run);
    }
}

#[test]
fn the_largest_and_the_smallest_are_decided_as_in_rust() {
    let limits = boundaries::limits().unwrap();
    Scripts::pass("boundaries", &BOTH, |engines| {
        boundaries::run(&engines, &limits, 97).map_err(|failure| failure.to_string())
    });
}

#[test]
fn random_sequences_are_decided_as_in_rust() {
    Scripts::pass("random", &BOTH, |engines| {
        random::beside_the_oracle(&engines, 200).map_err(|failure| failure.to_string())
    });
}

#[test]
fn allowances_that_come_and_go_are_decided_as_in_rust() {
    let mut dice = fastrand::Rng::with_seed(14);
    for which in BOTH {
        let scripts = Scripts::new(which);
        for limit in every_algorithm(20) {
            let elastic = Elastic::new(&limit, 37, 70).unwrap();
            let mut engine = scripts.engine(elastic.limit);
            let mut now = Time::from_secs(1_000);
            for _ in 0..400 {
                now = now + Micros::new(dice.u64(0..400_000_000));
                engine.limit = if dice.bool() { elastic.limit } else { elastic.withdrawn() };
                // It compares decision and state with those of Rust.
                engine.decide(now, OPERATIONS[dice.usize(0..4)], dice.u64(0..5));
            }
        }
    }
}

/// By the server's clock, which may step back, and which removes keys: a key whose time to live was left alone, too,
/// lives for as long as its state counts.
#[test]
fn a_key_lives_for_as_long_as_its_state_counts() {
    let mut dice = fastrand::Rng::with_seed(17);
    for (limit, which) in every_algorithm(9).into_iter().flat_map(|limit| BOTH.map(|which| (limit, which))) {
        let (scripts, mut core) = (Scripts::new(which), None);
        let (mut now, mut kept_ends) = (Time::from_secs(1_800_000_000), 0);
        for _ in 0..2_000 {
            let step = Micros::new(dice.u64(0..900_000_000));
            now = if dice.u8(0..8) == 0 { Time::new(now.get() - step.get() / 900) } else { now + step };
            scripts.clock.set("us", now.get()).unwrap();
            let end: Option<u64> = scripts.ends.get(KEY).unwrap();
            if end.is_some_and(|end| end <= now.get()) {
                scripts.kept.set(KEY, mlua::Nil).unwrap();
                scripts.ends.set(KEY, mlua::Nil).unwrap();
            }
            let (operation, cost) = (*dice.choice(&OPERATIONS).unwrap(), dice.u64(0..4));
            let call = BatchCall::new(scripts.args(KEY, &limit, operation, cost), KeyPassing::Declared, None);
            let reply = scripts.run(&call).remove(0);
            assert_eq!(reply.now, now);
            let replay = Replay::new(&charge_set(&limit, operation, cost), &reply, &[KEY.into()]).unwrap();
            let (expected, change) = decide(core.as_ref().map(State::as_ref), &limit, now, operation, cost);
            assert_eq!(replay.decisions[0], expected, "{limit:?} {now:?} {operation:?} {cost}");
            match change {
                Change::Keep => {}
                Change::Put(state) => core = Some(state),
                Change::Remove => core = None,
            }
            let live = core.as_ref().filter(|state| state.deadline() > now);
            let ends: Option<u64> = scripts.ends.get(KEY).unwrap();
            if let Some(state) = live {
                assert_eq!(scripts.kept(KEY), Some(text(state, &limit)), "{limit:?} {now:?}");
                assert!(ends >= Some(state.deadline().get()), "{limit:?} {now:?}: {ends:?} {state:?}");
            }
            kept_ends += u32::from(end.is_some() && ends == end);
        }
        assert!(kept_ends > 100, "{limit:?}: {kept_ends}");
    }
}

#[test]
fn the_requests_of_a_batch_are_decided_one_after_the_other() {
    let names = ["a", "b", "c"];
    let mut dice = fastrand::Rng::with_seed(20);
    for (limit, which) in every_algorithm(9).into_iter().flat_map(|limit| BOTH.map(|which| (limit, which))) {
        let scripts = Scripts::new(which);
        let mut core: HashMap<&str, State> = HashMap::new();
        let mut now = Time::new(1_000_000_000_000);
        for _ in 0..200 {
            now = now + Micros::new(dice.u64(0..900_000_000));
            let asked: Vec<_> = (0..dice.usize(1..9))
                .map(|_| (names[dice.usize(0..3)], dice.choice(OPERATIONS).unwrap(), dice.u64(0..4)))
                .collect();
            let args = |&(name, operation, cost): &(_, _, _)| scripts.args(name, &limit, operation, cost);
            let passing = *dice.choice(&[KeyPassing::Declared, KeyPassing::Undeclared]).unwrap();
            let mut call = BatchCall::new(args(&asked[0]), passing, Some(now));
            asked.iter().skip(1).for_each(|asked| call.add(args(asked)));
            for (reply, (name, operation, cost)) in scripts.run(&call).into_iter().zip(&asked) {
                let before = core.get(name);
                let expected =
                    before.map_or(StateBefore::Missing, |state| StateBefore::Text(text(state, &limit)));
                assert_eq!(reply, ScriptReply { now, before: smallvec![expected] }, "{limit:?} {asked:?}");
                match decide(before.map(State::as_ref), &limit, now, *operation, *cost).1 {
                    Change::Keep => {}
                    Change::Put(state) => drop(core.insert(name, state)),
                    Change::Remove => drop(core.remove(name)),
                }
            }
            for name in names {
                let expected = core.get(name).map(|state| text(state, &limit));
                assert_eq!(scripts.kept(name), expected, "{limit:?} {asked:?}");
            }
        }
    }
}

/// The script of charge sets over a limit that denies everything, so that every
/// check is a strike; the text that it keeps is that of the memory's state.
fn penalty_engine(scripts: &Scripts, penalty: Penalty) -> impl FnMut(Time, PenaltyStep) -> Micros + use<> {
    scripts.kept.clear().unwrap();
    let scripts = scripts.clone();
    let limit = Limit::new(0, Micros::SECOND, Shape::FixedWindow).unwrap().with_penalty(Some(penalty));
    let mut core: Option<State> = None;
    move |now, step| {
        let operation = match step {
            PenaltyStep::Look => Operation::Peek,
            PenaltyStep::Strike => Operation::Check,
        };
        let mut set = charge_set(&limit, operation, 1);
        let charge = set.charges[0].penalty(operation).unwrap();
        set.charges.push(charge);
        let keys = ["limit".to_owned(), "penalty".to_owned()];
        let args = ScriptArgs::new(&set, smallvec![keys[0].clone(), keys[1].clone()], None);
        let reply = scripts.run(&BatchCall::new(args, KeyPassing::Declared, Some(now))).remove(0);
        let decisions = Replay::new(&set, &reply, &keys).unwrap().decisions;
        let before = core.as_ref().map(State::as_ref);
        let (expected, change) = match step {
            PenaltyStep::Look => charge.decide(before, now),
            PenaltyStep::Strike => charge.strike(before, now),
        };
        if let Change::Put(state) = change {
            core = Some(state);
        }
        assert_eq!(decisions[1], expected, "{penalty} {now:?} {step:?}");
        let text = core.as_ref().map(|state| {
            let mut text = Vec::new();
            charge.write_state(state, &mut text);
            String::from_utf8(text).unwrap()
        });
        let kept = scripts.kept("penalty").map(|kept| String::from_utf8(kept).unwrap());
        assert_eq!(kept, text, "{penalty} {now:?} {step:?}");
        decisions[1].blocked_for
    }
}

#[test]
fn penalties_are_decided_as_by_the_oracle() {
    let scripts = Scripts::new(ScriptKind::ChargeSets);
    let steps = penalty::beside_the_oracle(|penalty| penalty_engine(&scripts, penalty), 3, 200);
    println!("penalties in Lua: {} steps compared", steps.unwrap_or_else(|failure| panic!("{failure}")));
    let outcome = penalty::never_longer_than_its_length(|penalty| penalty_engine(&scripts, penalty), 200);
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn what_is_not_ours_spoils_no_other_request_of_its_batch() {
    let garbage = ["", "x", "1 ", "1 2 3 4:\u{ff}", "1 99999999999999999999 1 1:", "-1 -1", "nan inf"];
    for (limit, which) in every_algorithm(9).into_iter().flat_map(|limit| BOTH.map(|which| (limit, which))) {
        let scripts = Scripts::new(which);
        let now = Time::new(1_000_000_000_000);
        for garbage in garbage.map(Some).into_iter().chain([None]) {
            for (operation, cost) in OPERATIONS.into_iter().flat_map(|each| [(each, 1), (each, 9)]) {
                scripts.kept.clear().unwrap();
                match garbage {
                    Some(garbage) => scripts.kept.set("bad", garbage).unwrap(),
                    // What is no text at the server is a table here.
                    None => scripts.kept.set("bad", scripts.lua.create_table().unwrap()).unwrap(),
                }
                let args = |name| scripts.args(name, &limit, operation, cost);
                let mut call = BatchCall::new(args("first"), KeyPassing::Declared, Some(now));
                call.add(args("bad"));
                call.add(args("last"));
                let step = format!("{limit:?} {garbage:?} {operation:?} {cost}");
                let [first, bad, last] = scripts.run(&call).try_into().unwrap();
                assert_ne!(bad.before[0], StateBefore::Missing, "{step}");
                assert_eq!(
                    (&first.before[0], &last.before[0]),
                    (&StateBefore::Missing, &StateBefore::Missing),
                    "{step}"
                );
                assert_eq!(scripts.kept("first"), scripts.kept("last"), "{step}");
                let counts = matches!(operation, Operation::Check | Operation::Report);
                assert_eq!(scripts.kept("last").is_some(), counts, "{step}");
            }
        }
    }
}

#[test]
fn a_request_whose_keys_are_elsewhere_does_nothing_and_spoils_no_other() {
    for (limit, which) in every_algorithm(9).into_iter().flat_map(|limit| BOTH.map(|which| (limit, which))) {
        let scripts = Scripts::new(which);
        let now = Time::new(1_000_000_000_000);
        for (operation, mode) in OPERATIONS.into_iter().flat_map(|each| MODES.map(|mode| (each, mode))) {
            let step = format!("{limit:?} {operation:?} {mode:?}");
            scripts.kept.clear().unwrap();
            // What the server does not have is `true` here.
            scripts.kept.set("gone", true).unwrap();
            let single = |name| scripts.args(name, &limit, operation, 1);
            let several = |names: [&str; 2]| {
                let mut set = charge_set(&limit, operation, 1);
                set.charges.push(set.charges[0]);
                set.charges.iter_mut().for_each(|charge| charge.mode = mode);
                ScriptArgs::for_charge_set(&set, names.map(str::to_owned).into_iter().collect(), None)
            };
            let mut call = BatchCall::new(single("first"), KeyPassing::Undeclared, Some(now));
            call.add(single("gone"));
            call.add(single("last"));
            let elsewhere: Vec<_> = scripts.run(&call).iter().map(ScriptReply::is_elsewhere).collect();
            assert_eq!(elsewhere, [false, true, false], "{step}");
            let counts = matches!(operation, Operation::Check | Operation::Report);
            assert_eq!(scripts.kept("first").is_some(), counts, "{step}");
            assert_eq!(scripts.kept("last"), scripts.kept("first"), "{step}");
            let mut call = BatchCall::new(several(["here", "gone"]), KeyPassing::Undeclared, Some(now));
            call.add(several(["gone", "here"]));
            call.add(several(["one", "two"]));
            let elsewhere: Vec<_> = scripts.run(&call).iter().map(ScriptReply::is_elsewhere).collect();
            assert_eq!(elsewhere, [true, true, false], "{step}");
            assert_eq!(scripts.kept("here"), None, "all or nothing: {step}");
            assert_eq!(scripts.kept("two").is_some(), counts, "{step}");
        }
    }
}
