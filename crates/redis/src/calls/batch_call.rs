//! Several requests in one call of a script.
//!
//! Redis takes longer to start a script than to decide a charge in it, and a
//! client longer to send a command than to write its words. So requests that
//! arrive together share one call (`batcher` collects them). Each is
//! decided as if it had come alone, one after the other.
//!
//! In a cluster a script may declare keys of one slot only, but one without flags
//! may access all that its server has. So there a call for several requests sends
//! their keys undeclared, and a request whose keys are elsewhere is told so
//! (`StateBefore::Elsewhere`).

use std::borrow::Cow;

use redis::{Cmd, Value};
use smallvec::SmallVec;
use tollgate_core::Time;

use super::script::Script;
use super::script_args::ScriptArgs;
use super::script_reply::{ScriptReply, StateBefore};

/// Charges of a full call. Redis needs about half a millisecond for them, and
/// does nothing else meanwhile.
const CHARGES_MAX: usize = 64;
/// What `lua/store.lua` replies in place of a state that is not ours.
const FOREIGN: Value = Value::Int(0);
/// What it replies in place of a state that it cannot read.
const ELSEWHERE: Value = Value::Int(1);

/// How keys are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPassing {
    /// As keys: all of them are of one slot, or there are no slots.
    Declared,
    /// Among the arguments: they may be of several slots of one server.
    Undeclared,
}

/// Several requests in one call of a script.
#[derive(Debug)]
pub struct BatchCall {
    /// The script of all of them.
    pub script: Script,
    /// The time as text; empty for the server's own.
    now: String,
    passing: KeyPassing,
    keys: Vec<String>,
    charges: Vec<String>,
    charge_sets: Vec<String>,
    /// How many charges each request has.
    charge_counts: Vec<usize>,
}

impl BatchCall {
    /// A call for one request, at this time or else the server's own.
    pub fn new(args: ScriptArgs, passing: KeyPassing, now: Option<Time>) -> Self {
        let mut call = Self {
            script: args.script,
            now: now.map_or_else(String::new, |now| now.get().to_string()),
            passing,
            keys: Vec::new(),
            charges: Vec::new(),
            charge_sets: Vec::new(),
            charge_counts: Vec::new(),
        };
        call.add(args);
        call
    }

    /// Adds a request for the same script.
    pub fn add(&mut self, args: ScriptArgs) {
        self.charge_counts.push(args.keys.len());
        self.keys.extend(args.keys);
        self.charges.extend(args.charges);
        self.charge_sets.extend(args.charge_set);
    }

    /// Whether it takes no more requests.
    pub(crate) fn is_full(&self) -> bool {
        self.keys.len() >= CHARGES_MAX
    }

    /// How many requests it has.
    pub(crate) fn requests(&self) -> usize {
        self.charge_counts.len()
    }

    /// Whether its keys are sent undeclared.
    pub(crate) fn is_undeclared(&self) -> bool {
        self.passing == KeyPassing::Undeclared
    }

    /// A key for each charge.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// `KEYS` of the script.
    pub fn declared_keys(&self) -> &[String] {
        if self.passing == KeyPassing::Declared { &self.keys } else { &[] }
    }

    /// `ARGV` of the script.
    pub fn arguments(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let (undeclared, count): (&[String], _) = match self.passing {
            KeyPassing::Declared => (&[], None),
            KeyPassing::Undeclared => (&self.keys, Some(Cow::Owned(self.keys.len().to_string()))),
        };
        let words = std::iter::once(&self.now).chain(&self.charges).chain(&self.charge_sets);
        words.chain(undeclared).map(|word| Cow::Borrowed(word.as_str())).chain(count)
    }

    /// The command that names a script that the server has.
    pub(crate) fn evalsha(&self, sha: &str) -> Cmd {
        self.command("EVALSHA", sha)
    }

    /// The command with the whole script, which the server keeps.
    pub(crate) fn eval(&self) -> Cmd {
        self.command("EVAL", &self.script.text())
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(self.declared_keys().len()).arg(self.declared_keys());
        for argument in self.arguments() {
            command.arg(&*argument);
        }
        command
    }

    /// The reply for each request; none if this is not the reply of a script.
    pub fn read(&self, reply: Value) -> Option<Vec<ScriptReply>> {
        let Value::Array(values) = reply else { return None };
        if values.len() != self.keys.len() + 1 {
            return None;
        }
        let mut values = values.into_iter();
        let Value::Int(now) = values.next()? else { return None };
        let now = Time::new(u64::try_from(now).ok()?);
        let request = |charges: &usize| {
            let before: Option<SmallVec<_>> = values.by_ref().take(*charges).map(state_before).collect();
            Some(ScriptReply { now, before: before? })
        };
        self.charge_counts.iter().map(request).collect()
    }
}

fn state_before(value: Value) -> Option<StateBefore> {
    if let Value::BulkString(text) = value {
        return Some(StateBefore::Text(text));
    }
    if value == Value::Nil {
        return Some(StateBefore::Missing);
    }
    if value == ELSEWHERE {
        return Some(StateBefore::Elsewhere);
    }
    (value == FOREIGN).then_some(StateBefore::Foreign)
}
