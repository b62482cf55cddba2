//! Conversations, byte by byte, at any time one likes.

use std::fmt::Write as _;
use std::pin::pin;

use futures_util::FutureExt as _;
use tollgate_core::Micros;

use super::*;
use crate::testing::{self, START};

fn context(rules: &str, password: Option<&str>) -> Arc<RespContext> {
    Arc::new(RespContext { service: testing::service(rules), password: password.map(Secret::new) })
}

fn session() -> RespSession {
    RespSession::new(context("domain: none\n", None))
}

/// A command as clients send it.
fn command(text: &str) -> Vec<u8> {
    let words: Vec<&str> = text.split(' ').collect();
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        write!(bytes, "${}\r\n{word}\r\n", word.len()).expect("memory takes it");
    }
    bytes.into_bytes()
}

/// Counters in memory are never waited for; it only gives way to others.
fn answer(session: &mut RespSession, input: &[u8], now: Time, out: &mut Vec<u8>) -> InputProgress {
    let turns = input.len();
    let mut answering = pin!(session.answer(input, now, out));
    let mut turns = (0..=turns).filter_map(|_| answering.as_mut().now_or_never());
    turns.next().expect("nothing is waited for")
}

/// What is answered to one command at a time.
fn at(session: &mut RespSession, after: Micros, text: &str) -> String {
    let (bytes, mut out) = (command(text), Vec::new());
    let answered = answer(session, &bytes, START + after, &mut out);
    assert_eq!((answered.used, answered.commands), (bytes.len(), 1));
    String::from_utf8(out).expect("answers here are text")
}

fn ask(session: &mut RespSession, text: &str) -> String {
    at(session, Micros::ZERO, text)
}

/// An array of integers as it is sent.
fn integers(values: &[i64]) -> String {
    let mut text = format!("*{}\r\n", values.len());
    values.iter().for_each(|value| write!(text, ":{value}\r\n").expect("memory takes it"));
    text
}

#[test]
fn the_example_of_redis_cell_is_answered_to_the_byte() {
    let mut session = session();
    let reply = "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n";
    assert_eq!(ask(&mut session, "CL.THROTTLE user123 15 30 60"), reply);
    assert_eq!(ask(&mut session, "cl.throttle user124 15 30 60 1"), reply);
}

#[test]
fn cl_throttle_answers_as_redis_cell_does_at_every_instant() {
    // Milliseconds, quantity, then limited, remaining, retry after, reset after:
    // five tokens at one a second, worked out by hand from the promise.
    let table: [(u64, i64, [i64; 4]); 17] = [
        (0, 6, [1, 5, -1, 0]),
        (0, 1, [0, 4, -1, 1]),
        (0, 1, [0, 3, -1, 2]),
        (0, 1, [0, 2, -1, 3]),
        (0, 1, [0, 1, -1, 4]),
        (0, 1, [0, 0, -1, 5]),
        (0, 1, [1, 0, 1, 5]),
        (0, 0, [0, 0, -1, 5]),
        (1, 1, [1, 0, 1, 5]),
        (999, 5, [1, 0, 5, 5]),
        (1_000, 2, [1, 1, 1, 4]),
        (3_000, 1, [0, 2, -1, 3]),
        (3_100, 1, [0, 1, -1, 4]),
        (4_000, 1, [0, 1, -1, 4]),
        (8_000, 1, [0, 4, -1, 1]),
        (9_500, 2, [0, 3, -1, 2]),
        (9_500, 5, [1, 3, 2, 2]),
    ];
    let mut session = session();
    for (ms, quantity, [limited, remaining, retry_after, reset_after]) in table {
        let reply = at(&mut session, Micros::from_millis(ms), &format!("CL.THROTTLE k 4 1 1 {quantity}"));
        let expected = integers(&[limited, 5, remaining, retry_after, reset_after]);
        assert_eq!(reply, expected, "{quantity} at {ms} ms");
    }
}

#[test]
fn throttle_answers_in_the_order_of_throttlecrab() {
    let mut session = session();
    // Ten at once, one each 600 ms: allowed, limit, remaining, reset, retry.
    assert_eq!(ask(&mut session, "THROTTLE k 10 100 60"), integers(&[1, 10, 9, 1, 0]));
    assert_eq!(ask(&mut session, "throttle k 10 100 60 9"), integers(&[1, 10, 0, 6, 0]));
    assert_eq!(ask(&mut session, "THROTTLE k 10 100 60"), integers(&[0, 10, 0, 6, 1]));
    assert_eq!(ask(&mut session, "THROTTLE k 10 100 60 0"), integers(&[1, 10, 0, 6, 0]));
    assert_eq!(ask(&mut session, "THROTTLE k 10 100 60 11"), integers(&[0, 10, 0, 6, -1]));
}

#[test]
fn throttle_is_right_where_throttlecrab_is_wrong() {
    let mut session = session();
    let allowed = |session: &mut RespSession, after: Micros, text: &str| {
        let replies = (0..1_000).map(|_| at(session, after, text));
        replies.filter(|reply| reply.starts_with("*5\r\n:1\r\n")).count()
    };
    assert_eq!(allowed(&mut session, Micros::ZERO, "THROTTLE one 1 1 3600"), 1);
    for idle_ms in [12_000, 15_000, 17_900, 18_100] {
        let key = format!("THROTTLE idle{idle_ms} 10 1 1");
        assert_eq!(allowed(&mut session, Micros::ZERO, &key), 10);
        assert_eq!(allowed(&mut session, Micros::from_millis(idle_ms), &key), 10);
    }
}

#[test]
fn a_tenth_of_a_millisecond_is_no_second_for_redis_cell_and_one_for_whoever_waits() {
    let mut session = session();
    assert_eq!(ask(&mut session, "CL.THROTTLE a 0 10000 1"), integers(&[0, 1, 0, -1, 0]));
    assert_eq!(ask(&mut session, "CL.THROTTLE a 0 10000 1"), integers(&[1, 1, 0, 0, 0]));
    assert_eq!(ask(&mut session, "THROTTLE b 1 10000 1"), integers(&[1, 1, 0, 1, 0]));
    assert_eq!(ask(&mut session, "THROTTLE b 1 10000 1"), integers(&[0, 1, 0, 1, 1]));
}

#[test]
fn a_key_keeps_its_usage_when_count_or_burst_change() {
    let mut session = session();
    assert_eq!(ask(&mut session, "CL.THROTTLE k 9 10 10 5"), integers(&[0, 10, 5, -1, 5]));
    assert_eq!(ask(&mut session, "CL.THROTTLE k 4 10 10 1"), integers(&[1, 5, 0, 1, 5]));
    assert_eq!(ask(&mut session, "THROTTLE k 6 10 10 1"), integers(&[1, 6, 0, 6, 0]));
}

#[test]
fn wrong_numbers_are_told_in_the_words_of_the_peers() {
    let usage = "-Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]\r\n";
    let cases = [
        ("CL.THROTTLE", usage),
        ("CL.THROTTLE k 1 1", usage),
        ("CL.THROTTLE k 1 1 1 1 1", usage),
        ("CL.THROTTLE k 1.5 1 1", "-Cell error: Store error: Couldn't parse as integer: 1.5\r\n"),
        ("CL.THROTTLE k 1 1 1 x", "-Cell error: Store error: Couldn't parse as integer: x\r\n"),
        ("CL.THROTTLE k 1 0 60", "-Cell error: Store error: Zero rates are not supported\r\n"),
        ("CL.THROTTLE k 1 1 0", "-Cell error: Store error: Zero rates are not supported\r\n"),
        ("CL.THROTTLE k -1 1 1", "-ERR max_burst -1 is out of range; send 0 to 4294967294\r\n"),
        (
            "CL.THROTTLE k 4294967295 1 1",
            "-ERR max_burst 4294967295 is out of range; send 0 to 4294967294\r\n",
        ),
        ("CL.THROTTLE k 1 -1 1", "-ERR count -1 is out of range; send 1 to 4294967295\r\n"),
        ("CL.THROTTLE k 1 1 -1", "-ERR period -1 is out of range; send 1 to 4294967295\r\n"),
        ("CL.THROTTLE k 1 1 1 -2", "-ERR negative quantity: -2; send 0 to peek, or 1 and more to take\r\n"),
        (
            "THROTTLE k",
            "-ERR wrong number of arguments for 'throttle' command; send THROTTLE key max_burst count period [quantity]\r\n",
        ),
        ("THROTTLE k x 1 1", "-ERR invalid max_burst; send a whole number instead of 'x'\r\n"),
        ("THROTTLE k 1 x 1", "-ERR invalid count_per_period; send a whole number instead of 'x'\r\n"),
        (
            "THROTTLE k 0 1 1",
            "-ERR invalid rate limit parameters; send max_burst, count and period of 1 or more\r\n",
        ),
        ("THROTTLE k 1 1 1 -1", "-ERR negative quantity: -1; send 0 to peek, or 1 and more to take\r\n"),
    ];
    let mut session = session();
    for (text, reply) in cases {
        assert_eq!(ask(&mut session, text), reply, "{text}");
    }
    let long = ask(&mut session, "CL.THROTTLE k 4000000000 1 1000000000");
    assert!(
        long.starts_with("-ERR these numbers make no limit: a bucket of 4000000001 would take more"),
        "{long}"
    );
    assert_eq!(ask(&mut session, "PING"), "+PONG\r\n");
}

#[test]
fn a_key_is_text() {
    let mut out = Vec::new();
    let bytes = b"*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\n\xff\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n";
    answer(&mut session(), bytes, START, &mut out);
    assert_eq!(out, b"-ERR the key is not UTF-8; send text, or encode it as hex or base64\r\n");
}

#[test]
fn integers_are_as_large_as_they_get() {
    let mut session = session();
    let never = integers(&[1, 4_294_967_295, 4_294_967_295, -1, 0]);
    assert_eq!(ask(&mut session, "CL.THROTTLE k 4294967294 4294967295 1 9223372036854775807"), never);
}

const RULES: &str = "domain: shop
descriptors:
  - key: user_id
    rate_limit: { name: per_user, algorithm: token_bucket, requests_per_unit: 2, unit: second }
  - key: report
    rate_limit: { algorithm: leaky_bucket, requests_per_unit: 2, unit: second, burst: 1 }
  - key: plan
    value: free
    descriptors:
      - key: cost
        rate_limit: { requests_per_unit: 1, unit: hour, algorithm: sliding_log }
";

#[test]
fn a_check_is_an_array_in_resp2() {
    let mut session = RespSession::new(context(RULES, None));
    let user = "TOLLGATE.CHECK shop user_id 42";
    let flat = |verdict: &str, numbers: [i64; 4], rule: &str| {
        let numbers: String = numbers.iter().map(|number| format!(":{number}\r\n")).collect();
        format!("*6\r\n${}\r\n{verdict}\r\n{numbers}${}\r\n{rule}\r\n", verdict.len(), rule.len())
    };
    assert_eq!(ask(&mut session, user), flat("allow", [2, 1, -1, 500], "per_user"));
    assert_eq!(ask(&mut session, &format!("{user} cost 0")), flat("allow", [2, 1, -1, 500], "per_user"));
    assert_eq!(ask(&mut session, &format!("{user} COST 2")), flat("deny", [2, 1, 500, 500], "per_user"));
    assert_eq!(ask(&mut session, &format!("{user} COST 3")), flat("deny", [2, 1, -1, 500], "per_user"));
    assert_eq!(
        ask(&mut session, "tollgate.check shop report x"),
        flat("allow", [2, 1, -1, 500], "shop.report")
    );
    assert_eq!(
        ask(&mut session, "tollgate.check shop report x"),
        flat("delay", [2, 0, 500, 1_000], "shop.report")
    );
    assert_eq!(ask(&mut session, "tollgate.check shop nobody x"), flat("allow", [-1; 4], ""));
    let nested = "TOLLGATE.CHECK shop plan free cost 7 COST 1";
    assert_eq!(ask(&mut session, nested), flat("allow", [1, 0, -1, 3_600_000], "shop.plan_free.cost"));
}

#[test]
fn a_check_is_a_map_in_resp3() {
    let mut session = RespSession::new(context(RULES, None));
    ask(&mut session, "HELLO 3");
    let reply = "%7\r\n$7\r\nverdict\r\n$4\r\ndeny\r\n$5\r\nlimit\r\n:2\r\n$9\r\nremaining\r\n:2\r\n\
                 $14\r\nretry_after_ms\r\n_\r\n$7\r\nwait_ms\r\n_\r\n$14\r\nreset_after_ms\r\n:0\r\n\
                 $4\r\nrule\r\n$8\r\nper_user\r\n";
    assert_eq!(ask(&mut session, "TOLLGATE.CHECK shop user_id 42 COST 3"), reply);
    let reply = "%7\r\n$7\r\nverdict\r\n$5\r\nallow\r\n$5\r\nlimit\r\n_\r\n$9\r\nremaining\r\n_\r\n\
                 $14\r\nretry_after_ms\r\n_\r\n$7\r\nwait_ms\r\n_\r\n$14\r\nreset_after_ms\r\n_\r\n\
                 $4\r\nrule\r\n_\r\n";
    assert_eq!(ask(&mut session, "TOLLGATE.CHECK none a b"), reply);
}

#[test]
fn a_wrong_check_is_told_how_it_should_be() {
    let mut session = RespSession::new(context(RULES, None));
    let usage = "send TOLLGATE.CHECK domain key value [key value ...] [COST n]";
    let cases = [
        (
            "TOLLGATE.CHECK shop user_id".to_owned(),
            format!("ERR wrong number of arguments for 'tollgate.check' command; {usage}"),
        ),
        ("TOLLGATE.CHECK shop a b c".to_owned(), format!("ERR key 'c' has no value; {usage}")),
        (
            "TOLLGATE.CHECK shop a b COST -1".to_owned(),
            "ERR COST '-1' is not a cost; send a whole number of 0 or more".to_owned(),
        ),
        (
            format!("TOLLGATE.CHECK shop {}", ["k v"; 65].join(" ")),
            "ERR 65 entries are too many; send at most 64".to_owned(),
        ),
        (
            "TOLLGATE.CHECK  a b".to_owned(),
            "ERR the domain is empty; send the domain of a rule file".to_owned(),
        ),
    ];
    for (text, reply) in cases {
        assert_eq!(ask(&mut session, &text), format!("-{reply}\r\n"), "{text}");
    }
}

#[test]
fn what_clients_send_on_connect_is_answered() {
    let mut session = session();
    let id = session.id;
    let cases = [
        ("PING", "+PONG\r\n".to_owned()),
        ("ping hello", "$5\r\nhello\r\n".to_owned()),
        ("PING a b", "-ERR wrong number of arguments for 'ping' command; send PING [message]\r\n".to_owned()),
        ("ECHO hi", "$2\r\nhi\r\n".to_owned()),
        ("SELECT 0", "+OK\r\n".to_owned()),
        ("SELECT 1", "-ERR DB index is out of range; there is only database 0\r\n".to_owned()),
        ("SELECT x", "-ERR invalid DB index; there is only database 0\r\n".to_owned()),
        ("CLIENT SETINFO lib-name redis-py", "+OK\r\n".to_owned()),
        ("CLIENT GETNAME", "$-1\r\n".to_owned()),
        ("client setname me", "+OK\r\n".to_owned()),
        ("CLIENT GETNAME", "$2\r\nme\r\n".to_owned()),
        ("CLIENT ID", format!(":{id}\r\n")),
        ("CLIENT ID 3", "-ERR wrong number of arguments for 'client|id' command\r\n".to_owned()),
        (
            "CLIENT KILL x",
            "-ERR unknown subcommand 'KILL'; CLIENT has ID, INFO, GETNAME, SETNAME, SETINFO, NO-EVICT and NO-TOUCH\r\n"
                .to_owned(),
        ),
        ("COMMAND COUNT", ":13\r\n".to_owned()),
        ("COMMAND INFO nothing", "*1\r\n$-1\r\n".to_owned()),
        ("HELLO 4", "-NOPROTO unsupported protocol version; send 2 or 3\r\n".to_owned()),
        (
            "AUTH x",
            "-ERR AUTH <password> called without any password configured; leave it out\r\n".to_owned(),
        ),
        ("AUTH default x", "+OK\r\n".to_owned()),
        ("RESET", "+RESET\r\n".to_owned()),
        ("CLIENT GETNAME", "$-1\r\n".to_owned()),
    ];
    for (text, reply) in cases {
        assert_eq!(ask(&mut session, text), reply, "{text}");
    }
}

#[test]
fn hello_chooses_the_version_and_reset_takes_it_back() {
    let mut session = session();
    let fields = |id: u64, version: u8| {
        format!(
            "$6\r\nserver\r\n$8\r\ntollgate\r\n$7\r\nversion\r\n$5\r\n0.1.0\r\n$5\r\nproto\r\n:{version}\r\n\
             $2\r\nid\r\n:{id}\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n\
             $7\r\nmodules\r\n*0\r\n"
        )
    };
    let id = session.id;
    assert_eq!(ask(&mut session, "HELLO"), format!("*14\r\n{}", fields(id, 2)));
    assert_eq!(ask(&mut session, "HELLO 3 SETNAME me"), format!("%7\r\n{}", fields(id, 3)));
    assert_eq!(ask(&mut session, "CLIENT GETNAME"), "$2\r\nme\r\n");
    assert_eq!(ask(&mut session, "HELLO 9"), "-NOPROTO unsupported protocol version; send 2 or 3\r\n");
    assert_eq!(ask(&mut session, "COMMAND INFO x"), "*1\r\n_\r\n");
    assert_eq!(ask(&mut session, "RESET"), "+RESET\r\n");
    assert_eq!(ask(&mut session, "COMMAND INFO x"), "*1\r\n$-1\r\n");
    let wrong = "-ERR Syntax error in HELLO option 'BOO'; send AUTH username password or SETNAME name\r\n";
    assert_eq!(ask(&mut session, "HELLO 3 BOO"), wrong);
}

#[test]
fn every_command_is_described() {
    let mut session = session();
    let docs = ask(&mut session, "COMMAND DOCS cl.throttle");
    assert!(docs.starts_with("*2\r\n$11\r\ncl.throttle\r\n*8\r\n$7\r\nsummary\r\n"), "{docs}");
    let info = ask(&mut session, "COMMAND INFO CL.THROTTLE");
    let start = "*1\r\n*10\r\n$11\r\ncl.throttle\r\n:-5\r\n*2\r\n+write\r\n+fast\r\n:1\r\n:1\r\n:1\r\n";
    assert!(info.starts_with(start), "{info}");
    for text in ["COMMAND", "COMMAND INFO", "COMMAND LIST"] {
        assert!(ask(&mut session, text).starts_with("*13\r\n"), "{text}");
    }
    assert!(ask(&mut session, "COMMAND DOCS").starts_with("*26\r\n"));
    let told = ask(&mut session, "COMMAND GETKEYS x");
    assert_eq!(told, "-ERR unknown subcommand 'GETKEYS'; COMMAND has COUNT, LIST, INFO and DOCS\r\n");
}

#[test]
fn info_tells_what_is_asked_for() {
    let mut session = session();
    assert_eq!(ask(&mut session, "INFO persistence"), "$26\r\n# Persistence\r\nloading:0\r\n\r\n");
    let all = ask(&mut session, "INFO");
    assert!(all.contains("redis_version:7.2.0\r\n") && all.contains("\r\n\r\n# Keyspace\r\n"), "{all}");
    assert_eq!(ask(&mut session, "INFO nothing"), "$0\r\n\r\n");
    ask(&mut session, "HELLO 3");
    assert_eq!(ask(&mut session, "INFO persistence"), "=30\r\ntxt:# Persistence\r\nloading:0\r\n\r\n");
}

#[test]
fn an_unknown_command_is_told_what_there_is() {
    let mut session = session();
    let there_are = "there are CL.THROTTLE, THROTTLE, TOLLGATE.CHECK, PING, ECHO, HELLO, AUTH, CLIENT, COMMAND, \
                     INFO, SELECT, RESET, QUIT";
    assert_eq!(ask(&mut session, "GET x"), format!("-ERR unknown command 'GET'; {there_are}\r\n"));
    let multi = ask(&mut session, "MULTI");
    assert_eq!(
        multi,
        format!("-ERR unknown command 'MULTI'; pipeline without a transaction; {there_are}\r\n")
    );
    let long = ask(&mut session, &"x".repeat(1_000));
    assert!(long.starts_with(&format!("-ERR unknown command '{}…'", "x".repeat(64))), "{long}");
    let mut out = Vec::new();
    answer(&mut session, b"*1\r\n$5\r\na\r\n+b\r\n", START, &mut out);
    assert!(out.starts_with(b"-ERR unknown command 'a??+b'"));
}

#[test]
fn a_stranger_learns_nothing() {
    let mut session = RespSession::new(context(RULES, Some("open sesame")));
    let no = "-NOAUTH Authentication required; send AUTH password\r\n";
    for text in ["PING", "CL.THROTTLE k 1 1 1", "TOLLGATE.CHECK shop user_id 1", "INFO", "COMMAND", "BOO"] {
        assert_eq!(ask(&mut session, text), no, "{text}");
    }
    let hello = ask(&mut session, "HELLO 3");
    assert!(hello.starts_with("-NOAUTH HELLO must be called"), "{hello}");
    assert_eq!(ask(&mut session, "RESET"), "+RESET\r\n");
    assert!(!session.is_admitted());
}

#[test]
fn the_password_opens_in_all_three_ways() {
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled; the user is 'default'\r\n";
    for (bad, good, welcome) in [
        ("AUTH x", "AUTH sesame", "+OK\r\n"),
        ("AUTH root sesame", "AUTH default sesame", "+OK\r\n"),
        ("HELLO 3 AUTH default x", "HELLO 3 AUTH default sesame SETNAME me", "%7\r\n"),
    ] {
        let mut session = RespSession::new(context(RULES, Some("sesame")));
        assert_eq!(ask(&mut session, bad), wrong);
        assert!(!session.is_admitted());
        let reply = ask(&mut session, good);
        assert!(reply.starts_with(welcome), "{reply}");
        assert_eq!(ask(&mut session, "PING"), "+PONG\r\n");
    }
}

#[test]
fn whoever_guesses_is_cut_off() {
    let mut session = RespSession::new(context(RULES, Some("sesame")));
    let mut out = Vec::new();
    let answered = answer(&mut session, &command("AUTH x").repeat(20), START, &mut out);
    assert_eq!((answered.commands, answered.is_over), (u64::from(WRONG_PASSWORDS_MAX), true));
}

#[test]
fn a_pipeline_is_answered_in_order_and_up_to_its_last_whole_command() {
    let mut session = session();
    let whole = [command("PING"), b"ECHO hi\r\n".to_vec(), command("CL.THROTTLE k 1 1 1")].concat();
    let mut out = Vec::new();
    let answered = answer(&mut session, &[&whole[..], b"*1\r\n$4\r\nPI"].concat(), START, &mut out);
    assert_eq!(answered, InputProgress { used: whole.len(), commands: 3, ..InputProgress::default() });
    assert_eq!(out, b"+PONG\r\n$2\r\nhi\r\n*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:1\r\n");
}

#[test]
fn nothing_is_answered_after_quit_or_after_framing_is_lost() {
    for (last, told) in [
        (&b"QUIT\r\n"[..], &b"+PONG\r\n+OK\r\n"[..]),
        (b"*x\r\n", b"+PONG\r\n-ERR Protocol error: a length must be a number and CRLF\r\n"),
    ] {
        let mut out = Vec::new();
        let bytes = [&command("PING")[..], last, &command("PING")].concat();
        assert!(answer(&mut session(), &bytes, START, &mut out).is_over);
        assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(told));
    }
}

#[test]
fn long_replies_are_written_before_more_are_made() {
    let (mut session, mut out) = (session(), Vec::new());
    let input = b"COMMAND\r\n".repeat(1_000);
    let (mut used, mut commands) = (0, 0);
    loop {
        let progress = answer(&mut session, &input[used..], START, &mut out);
        assert!(out.len() < 2 * RESPONSE_PART, "{} bytes wait", out.len());
        (used, commands) = (used + progress.used, commands + progress.commands);
        out.clear();
        if !progress.has_more {
            break;
        }
    }
    assert_eq!((used, commands), (input.len(), 1_000));
}

/// A `TOLLGATE.CHECK` of a user whose name is these bytes.
fn check_of(user: &[u8]) -> Vec<u8> {
    let head = format!("*4\r\n$14\r\nTOLLGATE.CHECK\r\n$4\r\nshop\r\n$7\r\nuser_id\r\n${}\r\n", user.len());
    [head.as_bytes(), user, b"\r\n"].concat()
}

/// Commands of a pipeline are read as one text and decided together, and their limits are told from their words.
#[test]
fn a_pipeline_gets_the_bytes_of_one_command_at_a_time() {
    let words = [
        "TOLLGATE.CHECK shop user_id 1",
        "TOLLGATE.CHECK shop user_id 1 COST 0",
        "TOLLGATE.CHECK shop user_id",
        "tollgate.check shop report é",
        "TOLLGATE.CHECK shop plan free cost 7",
        "TOLLGATE.CHECK none a b c d e f g h i j",
        "THROTTLE k 5 5 60",
        "THROTTLE k 5 5 60 0",
        "CL.THROTTLE k 5 5 60",
        "THROTTLE k 5 5 60 x",
        "THROTTLE k 5 5 60 -1",
        // Ten, one and ten again, of as many bytes as are kept and of one more.
        "THROTTLE l 00000000000000010 5 60",
        "THROTTLE l 0000000000000001 5 60",
        "THROTTLE l 00000000000000010 5 60",
        "THROTTLE k 0 5 60",
        "PING",
        "THROTTLE k 5 5 60",
    ];
    let odd = [check_of(b"\xff"), check_of("é€".as_bytes()), check_of(b"\xc3"), check_of(b"")];
    let commands: Vec<Vec<u8>> = words.iter().map(|text| command(text)).chain(odd).collect();
    for hello in ["HELLO 2", "HELLO 3"] {
        let (mut together, mut alone) =
            (RespSession::new(context(RULES, None)), RespSession::new(context(RULES, None)));
        ask(&mut together, hello);
        ask(&mut alone, hello);
        let (input, mut expected) = (commands.concat().repeat(12), Vec::new());
        for bytes in commands.iter().cycle().take(12 * commands.len()) {
            let mut out = Vec::new();
            answer(&mut alone, bytes, START, &mut out);
            expected.extend(out);
        }
        let (mut used, mut replies) = (0, Vec::new());
        while used < input.len() {
            let mut out = Vec::new();
            used += answer(&mut together, &input[used..], START, &mut out).used;
            replies.extend(out);
        }
        let [replies, expected] = [&replies, &expected].map(|bytes| String::from_utf8_lossy(bytes));
        for (reply, expected) in replies.lines().zip(expected.lines()) {
            assert_eq!(reply, expected);
        }
        assert_eq!(replies.len(), expected.len());
    }
}
