//! The script in process, step by step beside the maths it mirrors.
//!
//! The engine runs a whole script on Lua 5.1 with a table in place of the
//! server's keys: that for one charge of the algorithm, or that for several. After every step the text it keeps must be the text that
//! `tollgate-core` would keep, its verdict the same, and the decision that is
//! worked out again from what it saw the same too. The suites then hold it to
//! the oracles as well.

use std::rc::Rc;

use mlua::{Function, Lua, Table};
use tollgate_core::{Change, Charge, Decision, Entry, Key, Limit, Mode, Operation, State, Time, decide};
use tollgate_limiter::Batch;
use tollgate_redis::codec::{self, Seen, When};
use tollgate_redis::script::Script;
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
struct Scripts {
    lua: Rc<Lua>,
    /// By number.
    functions: Rc<[Function]>,
    kept: Table,
    which: Which,
}

/// Which script decides a charge that is alone.
#[derive(Clone, Copy)]
enum Which {
    One,
    Several,
}

const BOTH: [Which; 2] = [Which::One, Which::Several];

impl Scripts {
    fn new(which: Which) -> Self {
        let lua = Lua::new();
        let functions: String =
            Script::all().map(|script| format!("function(KEYS, ARGV) {} end, ", script.text())).collect();
        let text = format!("{KEYS_IN_A_TABLE} return {{ {functions} }}, kept");
        let (functions, kept): (Vec<Function>, Table) = lua.load(text).eval().unwrap();
        Self { lua: Rc::new(lua), functions: functions.into(), kept, which }
    }

    /// Hands engines on these to a suite.
    fn pass(suite: &str, all: &[Which], run: impl Fn(&dyn Fn(Limit) -> LuaEngine) -> Result<u64, String>) {
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

    fn function(&self, batch: &Batch<'_>) -> &Function {
        let script = match self.which {
            Which::One => Script::of(batch),
            Which::Several => Script::SEVERAL,
        };
        &self.functions[script.number()]
    }
}

struct LuaEngine {
    script: Scripts,
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
        let arguments = arguments.iter().map(|argument| lua.create_string(argument).unwrap());
        let arguments = lua.create_sequence_from(arguments).unwrap();
        let reply: Table = self.script.function(&batch).call((keys, arguments)).unwrap();
        let seen = Time::new(reply.get(1).unwrap());
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
        Scripts::pass("small cases", &[Which::One], run);
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
