//! The script in process, step by step beside the maths it mirrors.
//!
//! The engine runs the whole script on Lua 5.1 with a table in place of the
//! server's keys. After every step the text it keeps must be the text that
//! `tollgate-core` would keep, its verdict the same, and the decision that is
//! worked out again from what it saw the same too. The suites then hold it to
//! the oracles as well.

use std::rc::Rc;

use mlua::{Function, Lua, Table};
use tollgate_core::{Change, Charge, Decision, Entry, Key, Limit, Mode, Operation, State, Time, decide};
use tollgate_limiter::Batch;
use tollgate_redis::codec::{self, Seen, When};
use tollgate_redis::script;
use tollgate_testkit::exhaustive::{self, Scope};
use tollgate_testkit::{Engine, boundaries, random, vectors};

/// Reads and writes a table as the server reads and writes its keys.
const KEYS_IN_A_TABLE: &str = "
    local kept = {}
    local redis = {}
    function redis.call(command, key, value)
        if command == 'GET' then return kept[key] or false end
        if command == 'SET' then kept[key] = value return 'OK' end
        if command == 'DEL' then kept[key] = nil return 1 end
        error('unexpected ' .. command)
    end
";

#[derive(Clone)]
struct Script {
    lua: Rc<Lua>,
    check: Function,
    kept: Table,
}

impl Script {
    fn new() -> Self {
        let lua = Lua::new();
        let (algorithms, together) = (script::ALGORITHMS, script::TOGETHER);
        let text = format!("{KEYS_IN_A_TABLE} {algorithms} return function(KEYS, ARGV) {together} end, kept");
        let (check, kept) = lua.load(text).eval().unwrap();
        Self { lua: Rc::new(lua), check, kept }
    }

    fn engine(&self, limit: Limit) -> LuaEngine {
        self.kept.clear().unwrap();
        LuaEngine { script: self.clone(), limit, core: None }
    }
}

struct LuaEngine {
    script: Script,
    limit: Limit,
    core: Option<State>,
}

const KEY: &str = "the key";

impl LuaEngine {
    fn run(&self, now: Time, operation: Operation, cost: u64) -> (bool, Decision) {
        let entries = [Entry { key: "k", value: "v" }];
        let key = Key { domain: "d", entries: &entries, shared: &[], limit: &self.limit, ordinal: 0 };
        let mut batch = Batch::default();
        batch.charges.push(Charge { descriptor: 0, rule: None, key, mode: Mode::Enforce, operation, cost });
        let arguments = codec::arguments(&batch, When { now: Some(now), ..When::default() });
        let lua = &self.script.lua;
        let keys = lua.create_sequence_from([KEY]).unwrap();
        let arguments = lua.create_sequence_from(arguments).unwrap();
        let reply: Table = self.script.check.call((keys, arguments)).unwrap();
        let seen: Time = Time::new(reply.get::<String>(1).unwrap().parse().unwrap());
        let denied = reply.get::<u64>(2).unwrap() == 1;
        let before = match reply.get::<mlua::Value>(3).unwrap() {
            mlua::Value::String(text) => Some(text.as_bytes().to_vec()),
            _ => None,
        };
        let outcome = codec::decide(&batch, &Seen { now: seen, before: vec![before] }, &[KEY.into()]);
        (denied, outcome.unwrap().decisions[0])
    }

    fn kept(&self) -> Option<Vec<u8>> {
        let text: Option<mlua::LuaString> = self.script.kept.get(KEY).unwrap();
        text.map(|text| text.as_bytes().to_vec())
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
        let (denied, decision) = self.run(now, operation, cost);
        assert_eq!(denied, expected.verdict.is_deny(), "{step}");
        assert_eq!(decision, expected, "{step}");
        let text = self.core.as_ref().map(|state| {
            let mut text = Vec::new();
            state.write_text(self.limit.algorithm(), &mut text);
            text
        });
        let show =
            |text: &Option<Vec<u8>>| text.as_deref().map(|text| String::from_utf8_lossy(text).into_owned());
        assert_eq!(show(&self.kept()), show(&text), "{step}");
        decision
    }

    fn reset(&mut self) {
        self.core = None;
        self.script.kept.clear().unwrap();
    }
}

fn passed<E: std::fmt::Display>(suite: &str, outcome: Result<u64, E>) {
    match outcome {
        Ok(steps) => println!("{suite} in Lua: {steps} steps compared"),
        Err(failure) => panic!("{suite}: {failure}"),
    }
}

#[test]
fn the_vectors_are_decided_as_written() {
    let script = Script::new();
    let groups = vectors::load(&vectors::folder()).unwrap_or_else(|error| panic!("{error}"));
    passed("vectors", vectors::run(&|limit| script.engine(limit), &groups));
}

#[test]
fn small_cases_are_decided_as_in_rust() {
    let script = Script::new();
    let engines = |limit| script.engine(limit);
    passed("two steps", exhaustive::run(&engines, &Scope { depth: 2, ..Scope::wide().unwrap() }));
    passed("three steps", exhaustive::run(&engines, &Scope { depth: 3, ..Scope::deep().unwrap() }));
}

#[test]
fn the_largest_and_the_smallest_are_decided_as_in_rust() {
    let script = Script::new();
    let limits = boundaries::limits().unwrap();
    passed("boundaries", boundaries::run(&|limit| script.engine(limit), &limits, 97));
}

#[test]
fn random_sequences_are_decided_as_in_rust() {
    let script = Script::new();
    passed("random", random::beside_the_oracle(&|limit| script.engine(limit), 200));
}
