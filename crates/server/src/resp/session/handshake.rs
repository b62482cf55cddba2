//! What ordinary clients send on connect and in between.
//!
//! Replies are those of Redis as far as clients look at them, so that no client
//! needs special settings.

use tollgate_core::Time;

use super::super::commands::RespCommand;
use super::super::from_wire::{self, Excerpt};
use super::super::to_wire::{RespVersion, RespWriter};
use super::{RespSession, SessionState};

/// Clients take the version of Redis for what a server can do; this is the first
/// that has all that they may send on connect.
const REDIS_VERSION: &str = "7.2.0";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Bytes of the name that a caller gives its connection.
const NAME_MAX: usize = 256;

/// `PING [message]` and `ECHO message`.
pub(super) fn ping(words: &[&[u8]], command: &RespCommand, writer: &mut RespWriter<'_>) {
    match words {
        [_] => writer.simple("PONG"),
        [_, message] => writer.bulk(message),
        _ => writer.error(&command.wrong_number()),
    }
}

/// `AUTH [username] password`.
pub(super) fn auth(session: &mut RespSession, words: &[&[u8]], writer: &mut RespWriter<'_>) -> SessionState {
    let (user, password) = match words {
        [_, password] => (&b"default"[..], *password),
        [_, user, password] => (*user, *password),
        _ => {
            writer.error(&"ERR wrong number of arguments for 'auth' command; send AUTH [username] password");
            return SessionState::Open;
        }
    };
    if session.context.password.is_none() && words.len() == 2 {
        writer.error(&"ERR AUTH <password> called without any password configured; leave it out");
        return SessionState::Open;
    }
    let is_right = session.authenticate(user, password);
    authenticated(session, is_right, writer, |writer| writer.ok())
}

/// The reply to a password.
fn authenticated(
    session: &RespSession,
    is_right: bool,
    writer: &mut RespWriter<'_>,
    welcome: impl FnOnce(&mut RespWriter<'_>),
) -> SessionState {
    if is_right {
        welcome(writer);
        return SessionState::Open;
    }
    writer.error(&"WRONGPASS invalid username-password pair or user is disabled; the user is 'default'");
    if session.is_guessing() { SessionState::Ended } else { SessionState::Open }
}

/// `HELLO [2|3 [AUTH username password] [SETNAME name]]`.
pub(super) fn hello(session: &mut RespSession, words: &[&[u8]], writer: &mut RespWriter<'_>) -> SessionState {
    let mut options = words.get(2..).unwrap_or_default();
    let version = match words.get(1).map(|word| from_wire::integer(word)) {
        None => session.version,
        Some(Some(2)) => RespVersion::Resp2,
        Some(Some(3)) => RespVersion::Resp3,
        Some(_) => {
            writer.error(&"NOPROTO unsupported protocol version; send 2 or 3");
            return SessionState::Open;
        }
    };
    let mut name = None;
    loop {
        match options {
            [] => break,
            [option, user, password, rest @ ..] if option.eq_ignore_ascii_case(b"auth") => {
                if !session.authenticate(user, password) {
                    return authenticated(session, false, writer, |_| ());
                }
                options = rest;
            }
            [option, text, rest @ ..] if option.eq_ignore_ascii_case(b"setname") => {
                name = Some(*text);
                options = rest;
            }
            [option, ..] => {
                let option = Excerpt(option);
                writer.error(&format_args!(
                    "ERR Syntax error in HELLO option '{option}'; send AUTH username password or SETNAME name"
                ));
                return SessionState::Open;
            }
        }
    }
    if !session.is_admitted() {
        writer.error(&"NOAUTH HELLO must be called with the client already authenticated; send HELLO 3 AUTH default password");
        return SessionState::Open;
    }
    if name.is_none_or(|name| set_name(session, name, writer)) {
        session.version = version;
        writer.switch_to(version);
        welcome(session, writer);
    }
    SessionState::Open
}

fn welcome(session: &RespSession, writer: &mut RespWriter<'_>) {
    writer.map(7);
    writer.text("server");
    writer.text("tollgate");
    writer.text("version");
    writer.text(VERSION);
    writer.text("proto");
    writer.integer(session.version.number());
    writer.text("id");
    writer.integer(i64::try_from(session.id).unwrap_or(i64::MAX));
    for (key, value) in [("mode", "standalone"), ("role", "master")] {
        writer.text(key);
        writer.text(value);
    }
    writer.text("modules");
    writer.array(0);
}

/// Names the connection, or says why not.
fn set_name(session: &mut RespSession, name: &[u8], writer: &mut RespWriter<'_>) -> bool {
    let is_right = name.len() <= NAME_MAX && name.iter().all(u8::is_ascii_graphic);
    if is_right {
        session.name = name.to_vec();
    } else {
        writer.error(&format_args!(
            "ERR Client names cannot contain spaces, newlines or special characters; \
             send at most {NAME_MAX} printable ones"
        ));
    }
    is_right
}

/// `CLIENT …`.
pub(super) fn client(session: &mut RespSession, words: &[&[u8]], writer: &mut RespWriter<'_>) {
    let [_, sub, rest @ ..] = words else { return };
    match (from_wire::upper(sub).as_slice(), rest) {
        (b"ID", []) => writer.integer(i64::try_from(session.id).unwrap_or(i64::MAX)),
        (b"GETNAME", []) if session.name.is_empty() => writer.null(),
        (b"GETNAME", []) => writer.bulk(&session.name),
        (b"SETNAME", [name]) => {
            if set_name(session, name, writer) {
                writer.ok();
            }
        }
        // We keep nothing about the caller's library.
        (b"SETINFO", [_, _]) | (b"NO-EVICT" | b"NO-TOUCH", [_]) => writer.ok(),
        (b"INFO", []) => {
            let name = String::from_utf8_lossy(&session.name);
            let (id, version) = (session.id, session.version.number());
            writer.verbatim(&format!("id={id} name={name} db=0 resp={version}\n"));
        }
        (b"ID" | b"GETNAME" | b"SETNAME" | b"SETINFO" | b"NO-EVICT" | b"NO-TOUCH" | b"INFO", _) => {
            let sub = Excerpt(sub).to_string().to_ascii_lowercase();
            writer.error(&format_args!("ERR wrong number of arguments for 'client|{sub}' command"));
        }
        _ => {
            let known = "ID, INFO, GETNAME, SETNAME, SETINFO, NO-EVICT and NO-TOUCH";
            writer.error(&format_args!("ERR unknown subcommand '{}'; CLIENT has {known}", Excerpt(sub)));
        }
    }
}

/// `SELECT 0`.
pub(super) fn select(words: &[&[u8]], writer: &mut RespWriter<'_>) {
    match words.get(1).map(|word| from_wire::integer(word)) {
        Some(Some(0)) => writer.ok(),
        Some(Some(_)) => writer.error(&"ERR DB index is out of range; there is only database 0"),
        _ => writer.error(&"ERR invalid DB index; there is only database 0"),
    }
}

/// `INFO [section …]`.
pub(super) fn info(session: &RespSession, words: &[&[u8]], now: Time, writer: &mut RespWriter<'_>) {
    let sections = words.get(1..).unwrap_or_default();
    let is_wanted = |section: &str| {
        let all = [&b"all"[..], b"default", b"everything"];
        sections.is_empty()
            || sections.iter().any(|word| {
                word.eq_ignore_ascii_case(section.as_bytes())
                    || all.iter().any(|all| all.eq_ignore_ascii_case(word))
            })
    };
    let service = &session.context.service;
    let usage = service.limiter().store().stats().usage;
    let mut text = String::new();
    let all_sections = [
        (
            "Server",
            format!(
                "redis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\ntollgate_version:{VERSION}\r\n\
                 process_id:{}\r\nserver_time_usec:{}\r\n",
                std::process::id(),
                now.get()
            ),
        ),
        ("Memory", format!("used_memory:{}\r\n", usage.slot_bytes + usage.log_bytes)),
        ("Persistence", "loading:0\r\n".to_owned()),
        ("Stats", format!("evicted_keys:{}\r\n", usage.evicted)),
        ("Replication", "role:master\r\nconnected_slaves:0\r\n".to_owned()),
        ("Cluster", "cluster_enabled:0\r\n".to_owned()),
        ("Keyspace", format!("db0:keys={},expires={},avg_ttl=0\r\n", usage.keys, usage.keys)),
    ];
    for (title, lines) in all_sections.iter().filter(|(title, _)| is_wanted(title)) {
        let gap = if text.is_empty() { "" } else { "\r\n" };
        text.extend([gap, "# ", title, "\r\n", lines]);
    }
    writer.verbatim(&text);
}
