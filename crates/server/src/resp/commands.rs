//! Every command: its name, its arguments, what it is for.
//!
//! `session` looks commands up here by name; `COMMAND` and the error for an
//! unknown command list them.

use super::from_wire::{self, Excerpt};
use super::to_wire::RespWriter;

/// Which command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandKind {
    ClThrottle,
    Throttle,
    Check,
    Auth,
    Client,
    Command,
    Echo,
    Hello,
    Info,
    Ping,
    Quit,
    Reset,
    Select,
}

/// A command.
#[derive(Debug)]
pub(super) struct RespCommand {
    pub(super) kind: CommandKind,
    /// In capitals.
    pub(super) name: &'static str,
    /// How many words it has with its name; if negative, at least so many.
    arity: i64,
    /// Whether the first word after its name is a key that it writes to.
    has_key: bool,
    /// Whether it needs no password.
    pub(super) is_open: bool,
    usage: &'static str,
    summary: &'static str,
}

const fn command(
    kind: CommandKind,
    name: &'static str,
    arity: i64,
    usage: &'static str,
    summary: &'static str,
) -> RespCommand {
    let has_key = matches!(kind, CommandKind::ClThrottle | CommandKind::Throttle);
    let is_open =
        matches!(kind, CommandKind::Auth | CommandKind::Hello | CommandKind::Quit | CommandKind::Reset);
    RespCommand { kind, name, arity, has_key, is_open, usage, summary }
}

/// All of them, the usual ones first.
pub(super) static ALL: [RespCommand; 13] = [
    command(
        CommandKind::ClThrottle,
        "CL.THROTTLE",
        -5,
        "key max_burst count period [quantity]",
        "Takes from a bucket of the caller's own, as redis-cell does",
    ),
    command(
        CommandKind::Throttle,
        "THROTTLE",
        -5,
        "key max_burst count period [quantity]",
        "Takes from a bucket of the caller's own, as throttlecrab does",
    ),
    command(
        CommandKind::Check,
        "TOLLGATE.CHECK",
        -4,
        "domain key value [key value ...] [COST n]",
        "Decides by the rules of a domain",
    ),
    command(CommandKind::Ping, "PING", -1, "[message]", "Answers"),
    command(CommandKind::Echo, "ECHO", 2, "message", "Answers with what was sent"),
    command(
        CommandKind::Hello,
        "HELLO",
        -1,
        "[2|3 [AUTH username password] [SETNAME name]]",
        "Chooses the version of the protocol",
    ),
    command(CommandKind::Auth, "AUTH", -2, "[username] password", "Authenticates the connection"),
    command(
        CommandKind::Client,
        "CLIENT",
        -2,
        "ID|INFO|GETNAME|SETNAME name|SETINFO attribute value|NO-EVICT on|NO-TOUCH on",
        "Reads or sets properties of this connection",
    ),
    command(
        CommandKind::Command,
        "COMMAND",
        -1,
        "[COUNT|LIST|INFO [name ...]|DOCS [name ...]]",
        "Lists the commands",
    ),
    command(CommandKind::Info, "INFO", -1, "[section ...]", "Returns information about this server"),
    command(CommandKind::Select, "SELECT", 2, "0", "Chooses the one database there is"),
    command(CommandKind::Reset, "RESET", 1, "", "Resets the connection"),
    command(CommandKind::Quit, "QUIT", -1, "", "Ends the connection"),
];

/// The command of that name, in any case.
pub(super) fn find(name: &[u8]) -> Option<&'static RespCommand> {
    // Clients send capitals nearly always, and these are compared several bytes at a time.
    let as_is = ALL.iter().find(|command| command.name.as_bytes() == name);
    as_is.or_else(|| ALL.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name)))
}

impl RespCommand {
    /// Whether it may have this many words.
    pub(super) fn takes(&self, words: usize) -> bool {
        let words = i64::try_from(words).unwrap_or(i64::MAX);
        if self.arity < 0 { words >= -self.arity } else { words == self.arity }
    }

    /// The error for a wrong number of words. Clients look for its beginning.
    pub(super) fn wrong_number(&self) -> String {
        let name = self.name.to_ascii_lowercase();
        format!("ERR wrong number of arguments for '{name}' command; send {} {}", self.name, self.usage)
    }

    fn write(&self, writer: &mut RespWriter<'_>) {
        writer.array(10);
        writer.text(&self.name.to_ascii_lowercase());
        writer.integer(self.arity);
        let flags: &[&'static str] = if self.has_key {
            &["write", "fast"]
        } else if self.is_open {
            &["loading", "stale", "fast", "no_auth"]
        } else {
            &["loading", "stale", "fast"]
        };
        writer.set(flags.len());
        for flag in flags {
            writer.simple(flag);
        }
        for _ in ["first key", "last key", "step"] {
            writer.integer(i64::from(self.has_key));
        }
        for _ in ["categories", "tips", "key specifications", "subcommands"] {
            writer.array(0);
        }
    }

    fn write_docs(&self, writer: &mut RespWriter<'_>) {
        writer.text(&self.name.to_ascii_lowercase());
        writer.map(4);
        let about = format!("{}: {} {}", self.summary, self.name, self.usage);
        let group = if self.kind == CommandKind::Check || self.has_key { "tollgate" } else { "connection" };
        let since = env!("CARGO_PKG_VERSION");
        for (key, value) in [("summary", about.trim_end()), ("since", since), ("group", group)] {
            writer.text(key);
            writer.text(value);
        }
        writer.text("complexity");
        writer.text("O(1)");
    }
}

/// The error for an unknown command.
pub(super) fn unknown(name: &[u8]) -> String {
    let hint = if [&b"MULTI"[..], b"EXEC"].iter().any(|word| word.eq_ignore_ascii_case(name)) {
        "pipeline without a transaction; "
    } else {
        ""
    };
    let known: Vec<&str> = ALL.iter().map(|command| command.name).collect();
    format!("ERR unknown command '{}'; {hint}there are {}", Excerpt(name), known.join(", "))
}

/// Answers `COMMAND`.
pub(super) fn answer(words: &[&[u8]], writer: &mut RespWriter<'_>) {
    let Some((sub, names)) = words.get(1..).and_then(|rest| rest.split_first()) else {
        writer.array(ALL.len());
        return ALL.iter().for_each(|command| command.write(writer));
    };
    match from_wire::upper(sub).as_slice() {
        b"COUNT" => writer.integer(i64::try_from(ALL.len()).unwrap_or(i64::MAX)),
        b"LIST" => {
            writer.array(ALL.len());
            ALL.iter().for_each(|command| writer.text(&command.name.to_ascii_lowercase()));
        }
        b"INFO" if names.is_empty() => {
            writer.array(ALL.len());
            ALL.iter().for_each(|command| command.write(writer));
        }
        b"INFO" => {
            writer.array(names.len());
            for name in names {
                match find(name) {
                    Some(command) => command.write(writer),
                    None => writer.null(),
                }
            }
        }
        b"DOCS" => {
            let is_named = |command: &&RespCommand| {
                names.is_empty()
                    || names.iter().any(|name| command.name.as_bytes().eq_ignore_ascii_case(name))
            };
            let named: Vec<&RespCommand> = ALL.iter().filter(is_named).collect();
            writer.map(named.len());
            named.iter().for_each(|command| command.write_docs(writer));
        }
        _ => {
            let known = "COUNT, LIST, INFO and DOCS";
            writer.error(&format!("ERR unknown subcommand '{}'; COMMAND has {known}", Excerpt(sub)));
        }
    }
}
