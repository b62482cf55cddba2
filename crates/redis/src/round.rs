//! Requests that go to a server in one call of a script.
//!
//! Redis takes longer to start a script than to decide a charge in it, and a
//! client longer to send a command than to write its words. Requests that come
//! at the same moment therefore share one call: a round. They stay apart: each
//! is decided as if it had come alone, one after the other.

use redis::{Cmd, Value};
use smallvec::SmallVec;
use tollgate_core::Time;

use crate::codec::{Before, Seen};
use crate::question::Question;
use crate::script::Script;

/// Charges of a full round. A server that decides them does nothing else for
/// about half a millisecond.
pub(crate) const CHARGES_MAX: usize = 64;
/// What `lua/store.lua` tells in place of a state that is not ours.
const FOREIGN: Value = Value::Int(0);

/// Requests that go to a server in one call.
#[derive(Debug)]
pub struct Round {
    /// The script of all of them.
    pub script: Script,
    /// The time as text; empty for the server's own.
    now: String,
    keys: Vec<String>,
    asks: Vec<String>,
    together: Vec<String>,
    /// How many charges each request has.
    charges: Vec<usize>,
}

impl Round {
    /// The round of one request, at this time or else the server's own.
    pub fn new(question: Question, now: Option<Time>) -> Self {
        let now = now.map_or_else(String::new, |now| now.get().to_string());
        let (keys, asks, together, charges) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut round = Self { script: question.script, now, keys, asks, together, charges };
        round.add(question);
        round
    }

    /// Takes one more request, for the same script.
    pub fn add(&mut self, question: Question) {
        self.charges.push(question.keys.len());
        self.keys.extend(question.keys);
        self.asks.extend(question.asks);
        self.together.extend(question.together);
    }

    /// Whether it takes no more.
    pub(crate) fn is_full(&self) -> bool {
        self.keys.len() >= CHARGES_MAX
    }

    /// How many requests it carries.
    pub(crate) fn requests(&self) -> usize {
        self.charges.len()
    }

    /// One for each charge.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// What else the script is told.
    pub fn arguments(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.now).chain(&self.asks).chain(&self.together)
    }

    /// The call by the name that the server has for the script.
    pub(crate) fn by_name(&self, sha: &str) -> Cmd {
        self.command("EVALSHA", sha)
    }

    /// The call with the whole script, which the server keeps from then on.
    pub(crate) fn by_text(&self) -> Cmd {
        self.command("EVAL", &self.script.text())
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(self.keys.len());
        for argument in self.keys.iter().chain(self.arguments()) {
            command.arg(argument);
        }
        command
    }

    /// What the script saw of each request; none if this is not its answer.
    pub fn read(&self, answer: Value) -> Option<Vec<Seen>> {
        let Value::Array(values) = answer else { return None };
        if values.len() != self.keys.len() + 1 {
            return None;
        }
        let mut values = values.into_iter();
        let Value::Int(now) = values.next()? else { return None };
        let now = Time::new(u64::try_from(now).ok()?);
        let request = |charges: &usize| {
            let before: Option<SmallVec<_>> = values.by_ref().take(*charges).map(before).collect();
            Some(Seen { now, before: before? })
        };
        self.charges.iter().map(request).collect()
    }
}

fn before(value: Value) -> Option<Before> {
    if let Value::BulkString(text) = value {
        return Some(Before::Text(text));
    }
    if value == Value::Nil {
        return Some(Before::Nothing);
    }
    (value == FOREIGN).then_some(Before::Foreign)
}
