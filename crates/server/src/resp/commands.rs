//! Every command: its name, what it takes, what it is for.
//!
//! `session` finds a command here by its name; `COMMAND` tells clients what
//! there is, and an unknown command is answered with this list.

use super::from_wire::{self, Shown};
use super::to_wire::Writer;

/// Which command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
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
pub(super) struct Command {
    pub(super) kind: Kind,
    /// In capitals.
    pub(super) name: &'static str,
    /// How many words it has, its name included; if negative, at least so many.
    arity: i64,
    /// Whether the first word after its name is a key that it writes to.
    has_key: bool,
    /// Whether it may be asked before the password is known.
    pub(super) is_open: bool,
    usage: &'static str,
    summary: &'static str,
}

const fn command(
    kind: Kind,
    name: &'static str,
    arity: i64,
    usage: &'static str,
    summary: &'static str,
) -> Command {
    let has_key = matches!(kind, Kind::ClThrottle | Kind::Throttle);
    let is_open = matches!(kind, Kind::Auth | Kind::Hello | Kind::Quit | Kind::Reset);
    Command { kind, name, arity, has_key, is_open, usage, summary }
}

/// All of them, the usual ones first.
pub(super) const ALL: [Command; 13] = [
    command(
        Kind::ClThrottle,
        "CL.THROTTLE",
        -5,
        "key max_burst count period [quantity]",
        "Takes from a bucket of the caller's own, as redis-cell does",
    ),
    command(
        Kind::Throttle,
        "THROTTLE",
        -5,
        "key max_burst count period [quantity]",
        "Takes from a bucket of the caller's own, as throttlecrab does",
    ),
    command(
        Kind::Check,
        "TOLLGATE.CHECK",
        -4,
        "domain key value [key value ...] [COST n]",
        "Decides by the rules of a domain",
    ),
    command(Kind::Ping, "PING", -1, "[message]", "Answers"),
    command(Kind::Echo, "ECHO", 2, "message", "Answers with what was sent"),
    command(
        Kind::Hello,
        "HELLO",
        -1,
        "[2|3 [AUTH username password] [SETNAME name]]",
        "Chooses the version of the protocol",
    ),
    command(Kind::Auth, "AUTH", -2, "[username] password", "Shows the password"),
    command(
        Kind::Client,
        "CLIENT",
        -2,
        "ID|INFO|GETNAME|SETNAME name|SETINFO attribute value|NO-EVICT on|NO-TOUCH on",
        "Tells and asks about this connection",
    ),
    command(
        Kind::Command,
        "COMMAND",
        -1,
        "[COUNT|LIST|INFO [name ...]|DOCS [name ...]]",
        "Tells which commands there are",
    ),
    command(Kind::Info, "INFO", -1, "[section ...]", "Tells about this server"),
    command(Kind::Select, "SELECT", 2, "0", "Chooses the one database there is"),
    command(Kind::Reset, "RESET", 1, "", "Makes the connection as good as new"),
    command(Kind::Quit, "QUIT", -1, "", "Ends the connection"),
];

/// The command of that name, in capitals or not.
pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    ALL.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}

impl Command {
    /// Whether it may have so many words.
    pub(super) fn takes(&self, words: usize) -> bool {
        let words = i64::try_from(words).unwrap_or(i64::MAX);
        if self.arity < 0 { words >= -self.arity } else { words == self.arity }
    }

    /// The error for a wrong number of words. Clients look for its beginning.
    pub(super) fn wrong_number(&self) -> String {
        let name = self.name.to_ascii_lowercase();
        format!("ERR wrong number of arguments for '{name}' command; send {} {}", self.name, self.usage)
    }

    fn write(&self, writer: &mut Writer<'_>) {
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

    fn write_docs(&self, writer: &mut Writer<'_>) {
        writer.text(&self.name.to_ascii_lowercase());
        writer.map(4);
        let about = format!("{}: {} {}", self.summary, self.name, self.usage);
        let group = if self.kind == Kind::Check || self.has_key { "tollgate" } else { "connection" };
        let since = env!("CARGO_PKG_VERSION");
        for (key, value) in [("summary", about.trim_end()), ("since", since), ("group", group)] {
            writer.text(key);
            writer.text(value);
        }
        writer.text("complexity");
        writer.text("O(1)");
    }
}

/// The error for a command that there is not.
pub(super) fn unknown(name: &[u8]) -> String {
    let hint = if [&b"MULTI"[..], b"EXEC"].iter().any(|word| word.eq_ignore_ascii_case(name)) {
        "pipeline without a transaction; "
    } else {
        ""
    };
    let known: Vec<&str> = ALL.iter().map(|command| command.name).collect();
    format!("ERR unknown command '{}'; {hint}there are {}", Shown(name), known.join(", "))
}

/// Answers `COMMAND`.
pub(super) fn answer(words: &[&[u8]], writer: &mut Writer<'_>) {
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
            let is_asked = |command: &&Command| {
                names.is_empty()
                    || names.iter().any(|name| command.name.as_bytes().eq_ignore_ascii_case(name))
            };
            let asked: Vec<&Command> = ALL.iter().filter(is_asked).collect();
            writer.map(asked.len());
            asked.iter().for_each(|command| command.write_docs(writer));
        }
        _ => {
            let known = "COUNT, LIST, INFO and DOCS";
            writer.error(&format!("ERR unknown subcommand '{}'; COMMAND has {known}", Shown(sub)));
        }
    }
}
