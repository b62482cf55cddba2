//! What a connection has said so far, and who may ask what.
//!
//! Takes the bytes that were read, answers every whole command in them, and
//! says how many bytes that were.
//!
//! Invariants: before the password is known, nothing is decided and nothing is
//! told. All commands of a read are decided at one instant.
//!
//! Deliberately not here: sockets and timers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use subtle::ConstantTimeEq as _;
use tollgate_core::Time;

use super::commands::{self, Command, Kind};
use super::frame::{self, Broken, Next};
use super::question::{Question, Run};
use super::throttle::{Dialect, LastLimit};
use super::to_wire::{Protocol, Writer};
use super::{check, greet, throttle};
use crate::service::Service;
use tollgate_settings::Secret;

/// Whoever shows so many wrong passwords on one connection is guessing.
const WRONG_PASSWORDS_MAX: u32 = 8;

/// Numbers connections.
static LAST_ID: AtomicU64 = AtomicU64::new(0);

/// What all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) service: Arc<Service>,
    /// What callers must show, if set.
    pub(super) password: Option<Secret>,
}

/// One connection's conversation.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) id: u64,
    pub(super) protocol: Protocol,
    /// The name the caller gave it; empty if none.
    pub(super) name: Vec<u8>,
    pub(super) last_limit: LastLimit,
    is_admitted: bool,
    wrong_passwords: u32,
}

/// What became of the bytes that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Answered {
    /// How many bytes the whole commands took.
    pub(super) used: usize,
    /// How many commands that were.
    pub(super) commands: u64,
    /// Nothing more is to be read.
    pub(super) is_over: bool,
}

/// What comes after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    GoOn,
    End,
}

/// What is to be done about a command.
enum Turn<'a> {
    /// It asks for a decision.
    Ask(Question<'a>),
    /// It asks for something else.
    Do(&'static Command),
    /// It makes no sense, or is not for this caller.
    Refuse(String),
}

impl<'a> Turn<'a> {
    fn asking<E: ToString>(asked: Result<Question<'a>, E>) -> Self {
        asked.map_or_else(|refusal| Self::Refuse(refusal.to_string()), Self::Ask)
    }
}

impl Session {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            is_admitted: shared.password.is_none(),
            shared,
            id: LAST_ID.fetch_add(1, Ordering::Relaxed) + 1,
            protocol: Protocol::default(),
            name: Vec::new(),
            last_limit: LastLimit::default(),
            wrong_passwords: 0,
        }
    }

    /// Answers every whole command of `input`, as of `now`.
    pub(super) async fn answer(&mut self, input: &[u8], now: Time, out: &mut Vec<u8>) -> Answered {
        let service = Arc::clone(&self.shared.service);
        let (mut answered, mut run) = (Answered::default(), Run::default());
        while !answered.is_over {
            match frame::next(input.get(answered.used..).unwrap_or_default()) {
                Ok(Next::Partial) => break,
                Ok(Next::Command(words, bytes)) => {
                    answered.used += bytes;
                    if words.is_empty() {
                        continue;
                    }
                    answered.commands += 1;
                    let mut writer = Writer::new(out, self.protocol);
                    match self.turn(&words) {
                        Turn::Ask(question) => run.ask(question, &service, now, &mut writer).await,
                        Turn::Do(command) => {
                            run.settle(&service, now, &mut writer).await;
                            answered.is_over = self.take(command, &words, now, &mut writer) == After::End;
                        }
                        Turn::Refuse(error) => {
                            run.settle(&service, now, &mut writer).await;
                            writer.error(&error);
                        }
                    }
                }
                Err(broken) => {
                    run.settle(&service, now, &mut Writer::new(out, self.protocol)).await;
                    self.refuse(&broken, out);
                    answered.is_over = true;
                }
            }
        }
        run.settle(&service, now, &mut Writer::new(out, self.protocol)).await;
        answered
    }

    /// Tells why nothing more is read.
    pub(super) fn refuse(&self, broken: &Broken, out: &mut Vec<u8>) {
        Writer::new(out, self.protocol).error(&format_args!("ERR {broken}"));
    }

    /// What is to be done about a command.
    fn turn<'a>(&mut self, words: &[&'a [u8]]) -> Turn<'a> {
        let Some((name, _)) = words.split_first() else { return Turn::Refuse(String::new()) };
        let found = commands::find(name);
        if !self.is_admitted && !found.is_some_and(|command| command.is_open) {
            return Turn::Refuse("NOAUTH Authentication required; send AUTH password".to_owned());
        }
        let Some(command) = found else { return Turn::Refuse(commands::unknown(name)) };
        let dialect = match command.kind {
            Kind::ClThrottle => Dialect::Cell,
            Kind::Throttle => Dialect::Crab,
            _ if !command.takes(words.len()) => return Turn::Refuse(command.wrong_number()),
            Kind::Check => return Turn::asking(check::Asked::new(words).map(Question::Check)),
            Kind::Auth
            | Kind::Client
            | Kind::Command
            | Kind::Echo
            | Kind::Hello
            | Kind::Info
            | Kind::Ping
            | Kind::Quit
            | Kind::Reset
            | Kind::Select => return Turn::Do(command),
        };
        let asked = throttle::Asked::new(dialect, words, &mut self.last_limit);
        Turn::asking(asked.map(Question::Throttle))
    }

    /// Does what asks for no decision.
    fn take(&mut self, command: &Command, words: &[&[u8]], now: Time, writer: &mut Writer<'_>) -> After {
        match command.kind {
            Kind::Auth => return greet::auth(self, words, writer),
            Kind::Hello => return greet::hello(self, words, writer),
            Kind::Client => greet::client(self, words, writer),
            Kind::Command => commands::answer(words, writer),
            Kind::Echo | Kind::Ping => greet::ping(words, command, writer),
            Kind::Info => greet::info(self, words, now, writer),
            Kind::Select => greet::select(words, writer),
            Kind::Reset => {
                self.reset();
                writer.simple("RESET");
            }
            Kind::Quit => {
                writer.ok();
                return After::End;
            }
            // They ask for decisions.
            Kind::ClThrottle | Kind::Throttle | Kind::Check => {}
        }
        After::GoOn
    }

    /// Whether this caller need show no password, or has.
    pub(super) const fn is_admitted(&self) -> bool {
        self.is_admitted
    }

    /// Takes a password; whether it is the right one, if there is one at all.
    pub(super) fn show(&mut self, user: &[u8], password: &[u8]) -> bool {
        let Some(right) = &self.shared.password else { return user == b"default" };
        let is_right = bool::from(password.ct_eq(right.expose().as_bytes())) && user == b"default";
        self.is_admitted |= is_right;
        self.wrong_passwords += u32::from(!is_right);
        is_right
    }

    /// Whether this caller has shown too many wrong passwords.
    pub(super) const fn is_guessing(&self) -> bool {
        self.wrong_passwords >= WRONG_PASSWORDS_MAX
    }

    fn reset(&mut self) {
        self.is_admitted = self.shared.password.is_none();
        self.protocol = Protocol::default();
        self.name.clear();
    }
}

#[cfg(test)]
mod tests;
