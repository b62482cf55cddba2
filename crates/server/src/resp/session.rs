//! A connection's session: its version, its name, whether it sent the password.
//!
//! Takes the bytes that were read, answers every whole command in them, and
//! says how many bytes that were.
//!
//! Invariants: without the password nothing is decided and nothing is told. All
//! commands of one read are decided at one instant.
//!
//! Deliberately not here: sockets and timers.

mod handshake;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use subtle::ConstantTimeEq as _;
use tollgate_core::Time;

use super::check::RespCheckRequest;
use super::commands::{self, CommandKind, RespCommand};
use super::frame::{self, CommandWords, FramingError, RespFrame};
use super::from_wire::ReadText;
use super::request::{Pipeline, PipelineParts, RespRequest};
use super::throttle::{Dialect, LimitCache, ThrottleRequest};
use super::to_wire::{RespVersion, RespWriter};
use crate::bounds::RESPONSE_PART;
use crate::service::Service;
use tollgate_settings::Secret;

/// A connection with so many wrong passwords is closed.
const WRONG_PASSWORDS_MAX: u32 = 8;

/// Numbers connections.
static LAST_ID: AtomicU64 = AtomicU64::new(0);

/// What all connections share.
#[derive(Debug)]
pub(super) struct RespContext {
    pub(super) service: Arc<Service>,
    /// What callers must send, if there is one.
    pub(super) password: Option<Secret>,
}

/// What is known about a connection.
#[derive(Debug)]
pub(super) struct RespSession {
    pub(super) context: Arc<RespContext>,
    pub(super) id: u64,
    pub(super) version: RespVersion,
    /// The name that the caller gave it; empty if none.
    pub(super) name: Vec<u8>,
    pub(super) limits: LimitCache,
    is_admitted: bool,
    wrong_passwords: u32,
}

/// What became of the bytes that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct InputProgress {
    /// How many bytes the whole commands took.
    pub(super) used: usize,
    /// How many commands that were.
    pub(super) commands: u64,
    /// The connection is to end.
    pub(super) is_over: bool,
    /// There may be more commands, and the replies so far are to be written first.
    pub(super) has_more: bool,
}

/// What a command leaves a connection in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionState {
    Open,
    Ended,
}

/// What to do about a command.
enum CommandAction<'a> {
    /// Decide.
    Decide(RespRequest<'a>),
    /// Run it; it asks for no decision.
    Run(&'static RespCommand),
    /// Reply with this error.
    Fail(String),
}

impl<'a> CommandAction<'a> {
    fn decide<E: ToString>(request: Result<RespRequest<'a>, E>) -> Self {
        request.map_or_else(|error| Self::Fail(error.to_string()), Self::Decide)
    }
}

impl RespSession {
    pub(super) fn new(context: Arc<RespContext>) -> Self {
        Self {
            is_admitted: context.password.is_none(),
            context,
            id: LAST_ID.fetch_add(1, Ordering::Relaxed) + 1,
            version: RespVersion::default(),
            name: Vec::new(),
            limits: LimitCache::default(),
            wrong_passwords: 0,
        }
    }

    /// Answers the whole commands of `input` as of `now`, until `out` is long.
    pub(super) async fn answer(&mut self, input: &[u8], now: Time, out: &mut Vec<u8>) -> InputProgress {
        let service = Arc::clone(&self.context.service);
        let (mut progress, mut pipeline) = (InputProgress::default(), Pipeline::default());
        let (mut words, text) = (CommandWords::new(), ReadText::new(input));
        while !progress.is_over {
            if out.len() >= RESPONSE_PART {
                progress.has_more = true;
                break;
            }
            words.clear();
            match frame::next(input.get(progress.used..).unwrap_or_default(), &mut words) {
                Ok(RespFrame::Partial) => break,
                Ok(RespFrame::Command(bytes)) => {
                    progress.used += bytes;
                    if words.is_empty() {
                        continue;
                    }
                    progress.commands += 1;
                    let mut writer = RespWriter::new(out, self.version);
                    match self.action(&words, &text, pipeline.parts()) {
                        CommandAction::Decide(request) => {
                            if pipeline.push(request) {
                                pipeline.flush(&service, now, &mut writer).await;
                            }
                        }
                        CommandAction::Run(command) => {
                            pipeline.flush(&service, now, &mut writer).await;
                            progress.is_over =
                                self.run(command, &words, now, &mut writer) == SessionState::Ended;
                        }
                        CommandAction::Fail(error) => {
                            pipeline.flush(&service, now, &mut writer).await;
                            writer.error(&error);
                        }
                    }
                }
                Err(error) => {
                    pipeline.flush(&service, now, &mut RespWriter::new(out, self.version)).await;
                    self.fail(&error, out);
                    progress.is_over = true;
                }
            }
        }
        pipeline.flush(&service, now, &mut RespWriter::new(out, self.version)).await;
        progress
    }

    /// Says why nothing more is read.
    fn fail(&self, error: &FramingError, out: &mut Vec<u8>) {
        RespWriter::new(out, self.version).error(&format_args!("ERR {error}"));
    }

    /// What to do about a command.
    fn action<'a>(
        &mut self,
        words: &[&'a [u8]],
        text: &ReadText<'a>,
        parts: &mut PipelineParts<'a>,
    ) -> CommandAction<'a> {
        let Some((name, _)) = words.split_first() else { return CommandAction::Fail(String::new()) };
        let found = commands::find(name);
        if !self.is_admitted && !found.is_some_and(|command| command.is_open) {
            return CommandAction::Fail("NOAUTH Authentication required; send AUTH password".to_owned());
        }
        let Some(command) = found else { return CommandAction::Fail(commands::unknown(name)) };
        let dialect = match command.kind {
            CommandKind::ClThrottle => Dialect::Cell,
            CommandKind::Throttle => Dialect::Crab,
            _ if !command.takes(words.len()) => return CommandAction::Fail(command.wrong_number()),
            CommandKind::Check => {
                let request = RespCheckRequest::new(words, text, &mut parts.entries);
                return CommandAction::decide(request.map(RespRequest::Check));
            }
            CommandKind::Auth
            | CommandKind::Client
            | CommandKind::Command
            | CommandKind::Echo
            | CommandKind::Hello
            | CommandKind::Info
            | CommandKind::Ping
            | CommandKind::Quit
            | CommandKind::Reset
            | CommandKind::Select => return CommandAction::Run(command),
        };
        let request = ThrottleRequest::new(dialect, words, text, &mut self.limits, &mut parts.limits);
        CommandAction::decide(request.map(RespRequest::Throttle))
    }

    /// Runs a command that asks for no decision.
    fn run(
        &mut self,
        command: &RespCommand,
        words: &[&[u8]],
        now: Time,
        writer: &mut RespWriter<'_>,
    ) -> SessionState {
        match command.kind {
            CommandKind::Auth => return handshake::auth(self, words, writer),
            CommandKind::Hello => return handshake::hello(self, words, writer),
            CommandKind::Client => handshake::client(self, words, writer),
            CommandKind::Command => commands::answer(words, writer),
            CommandKind::Echo | CommandKind::Ping => handshake::ping(words, command, writer),
            CommandKind::Info => handshake::info(self, words, now, writer),
            CommandKind::Select => handshake::select(words, writer),
            CommandKind::Reset => {
                self.reset();
                writer.simple("RESET");
            }
            CommandKind::Quit => {
                writer.ok();
                return SessionState::Ended;
            }
            // `action` has made requests of these.
            CommandKind::ClThrottle | CommandKind::Throttle | CommandKind::Check => {}
        }
        SessionState::Open
    }

    /// Whether the caller has sent the password, or needs none.
    pub(super) const fn is_admitted(&self) -> bool {
        self.is_admitted
    }

    /// Whether a password is right; any is where there is none.
    pub(super) fn authenticate(&mut self, user: &[u8], password: &[u8]) -> bool {
        let Some(right) = &self.context.password else { return user == b"default" };
        let is_right = bool::from(password.ct_eq(right.expose().as_bytes())) && user == b"default";
        self.is_admitted |= is_right;
        self.wrong_passwords += u32::from(!is_right);
        is_right
    }

    /// Whether the caller has sent too many wrong passwords.
    pub(super) const fn is_guessing(&self) -> bool {
        self.wrong_passwords >= WRONG_PASSWORDS_MAX
    }

    fn reset(&mut self) {
        self.is_admitted = self.context.password.is_none();
        self.version = RespVersion::default();
        self.name.clear();
    }
}

#[cfg(test)]
mod tests;
