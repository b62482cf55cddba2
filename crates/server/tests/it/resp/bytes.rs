//! Bytes in, bytes out: whole, in pieces, and wrong.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::support::{Caller, RULES, address, command, setup, values_in};
use crate::support::{Server, http};

/// A conversation about a key of its own, and what is answered to it.
fn conversation(key: &str) -> (Vec<u8>, String) {
    let said = [
        command("PING"),
        command(&format!("CL.THROTTLE {key} 15 30 86400")),
        b"ECHO typed\r\n".to_vec(),
        command(&format!("THROTTLE {key}+ 16 1 86400 20")),
        command("GET x"),
        command("SELECT 0"),
        command("TOLLGATE.CHECK shop user_id 42 COST 3"),
        command("COMMAND INFO nothing"),
        command("RESET"),
    ];
    let heard = "+PONG\r\n*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2880\r\n$5\r\ntyped\r\n\
                 *5\r\n:0\r\n:16\r\n:16\r\n:0\r\n:-1\r\n\
                 -ERR unknown command 'GET'; there are CL.THROTTLE, THROTTLE, TOLLGATE.CHECK, PING, ECHO, HELLO, \
                 AUTH, CLIENT, COMMAND, INFO, SELECT, RESET, QUIT\r\n\
                 +OK\r\n*6\r\n$4\r\ndeny\r\n:2\r\n:2\r\n:-1\r\n:0\r\n$8\r\nper_user\r\n*1\r\n$-1\r\n+RESET\r\n";
    (said.concat(), heard.to_owned())
}

#[tokio::test]
async fn a_conversation_may_be_cut_anywhere() {
    let server = setup().start().await;
    let length = conversation("k000").0.len();
    for cut in 0..length {
        let (said, heard) = conversation(&format!("k{cut:03}"));
        let mut caller = Caller::new(&server).await;
        let (first, second) = said.split_at(cut);
        caller.send(first).await;
        tokio::task::yield_now().await;
        caller.expect(second, &heard).await;
    }
}

#[tokio::test]
async fn a_conversation_may_come_byte_by_byte() {
    let server = setup().start().await;
    let (said, heard) = conversation("slow");
    let mut caller = Caller::new(&server).await;
    for byte in said {
        caller.send(&[byte]).await;
    }
    caller.expect(b"", &heard).await;
}

/// Commands of one kind that follow each other are decided together; nobody can tell.
#[tokio::test]
async fn a_pipeline_is_decided_in_order_whatever_its_commands_are() {
    let server = setup().start().await;
    let user = |user: &str| command(&format!("TOLLGATE.CHECK shop user_id {user}"));
    let nobody = b"*4\r\n$14\r\nTOLLGATE.CHECK\r\n$0\r\n\r\n$7\r\nuser_id\r\n$1\r\n7\r\n".to_vec();
    let throttle = command("THROTTLE together 1 1 86400");
    let said = [
        user("7"),
        user("8"),
        user("7"),
        user("7"),
        throttle.clone(),
        throttle,
        user("7"),
        nobody,
        user("8"),
    ];
    let mut caller = Caller::new(&server).await;
    caller.send(&[said.concat(), command("QUIT")].concat()).await;
    let heard = caller.last_words().await;
    let is_telling = |line: &&str| ["allow", "deny", "+OK"].contains(line) || line.starts_with(['-', '*']);
    let mut told = heard.lines().filter(is_telling);
    let mut expect = |lines: &[&str]| {
        for line in lines {
            assert_eq!(told.next(), Some(*line), "{heard}");
        }
    };
    expect(&["*6", "allow", "*6", "allow", "*6", "allow", "*6", "deny"]);
    expect(&["*5", "*5", "*6", "deny"]);
    expect(&["-ERR the domain is empty; send the domain of a rule file", "*6", "allow", "+OK"]);
    assert!(heard.contains("*5\r\n:1\r\n:1\r\n:0\r\n:86400\r\n:0\r\n*5\r\n:0\r\n"), "one passes: {heard}");
}

#[tokio::test]
async fn ten_thousand_commands_at_once_are_answered_in_order() {
    let server = setup().start().await;
    let caller = Caller::new(&server).await;
    let said: Vec<u8> = (0..10_000).flat_map(|_| command("CL.THROTTLE k 9999 1 86400")).collect();
    let heard: String = (0..10_000_i64)
        .map(|n| {
            // One a day: what comes back in the meantime is nothing.
            format!("*5\r\n:0\r\n:10000\r\n:{}\r\n:-1\r\n:{}\r\n", 9_999 - n, (n + 1) * 86_400)
        })
        .collect();
    let (mut reading, mut writing) = caller.0.into_split();
    let sent = tokio::spawn(async move { writing.write_all(&said).await.map(|()| writing) });
    let mut bytes = vec![0; heard.len()];
    reading.read_exact(&mut bytes).await.expect("all are answered");
    drop(sent.await.expect("sending goes on").expect("all are sent"));
    let answers = String::from_utf8(bytes).expect("it is text");
    let wrong = answers.split('*').zip(heard.split('*')).find(|(answer, heard)| answer != heard);
    assert_eq!(wrong, None);
}

#[tokio::test]
async fn a_caller_who_does_not_listen_gets_all_answers_later() {
    let server = setup().start().await;
    let mut caller = Caller::new(&server).await;
    let word = "x".repeat(60_000);
    let (said, echo) = (command(&format!("ECHO {word}")), format!("${}\r\n{word}\r\n", word.len()));
    for _ in 0..3 {
        caller.send(&said).await;
    }
    caller.expect(b"", &echo.repeat(3)).await;
}

#[tokio::test]
async fn what_is_not_the_protocol_is_told_and_cut_off() {
    let server = setup().start().await;
    let nested = b"*1\r\n".repeat(50_000);
    let line = [b'x'; 5_000];
    let cases: [(&[u8], &str); 10] = [
        (b"*x\r\n", "a length must be a number and CRLF"),
        (b"*1000000000\r\n", "an array of 1000000000 is too long; send at most 256 words"),
        (b"*1\r\n$1000000000\r\n", "a word of 1000000000 bytes is too long; send at most 65536"),
        (b"*1\r\n$99999999999999999999\r\n", "a length must be a number and CRLF"),
        (b"*1\r\n$4\r\nPINGPING\r\n", "a bulk string must end with CRLF where its length says"),
        (b"*2\r\n$4\r\nPING\r\n+OK\r\n", "expected '$', got '+'; a command is an array of bulk strings"),
        (&nested, "expected '$', got '*'; a command is an array of bulk strings"),
        (&line, "a line of more than 4096 bytes is too long"),
        (b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", "this is RESP and not HTTP; --http says where that is"),
        (b"\x16\x03\x01\x00\xa5\x01", "this looks like TLS, but this port does not speak it"),
    ];
    for (said, reason) in cases {
        let mut caller = Caller::new(&server).await;
        caller.send(&command("PING")).await;
        // Whoever has heard enough may close while we still talk.
        drop(caller.0.write_all(said).await);
        assert_eq!(caller.last_words().await, format!("+PONG\r\n-ERR Protocol error: {reason}\r\n"));
    }
    Caller::new(&server).await.expect(&command("PING"), "+PONG\r\n").await;
}

#[tokio::test]
async fn a_wrong_command_leaves_the_connection_usable() {
    let server = setup().start().await;
    let mut caller = Caller::new(&server).await;
    for (said, heard) in [
        (
            "CL.THROTTLE k 1 1",
            "-Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]\r\n",
        ),
        ("ECHO", "-ERR wrong number of arguments for 'echo' command; send ECHO message\r\n"),
        (
            "TOLLGATE.CHECK shop a b COST x",
            "-ERR COST 'x' is not a cost; send a whole number of 0 or more\r\n",
        ),
        ("PING", "+PONG\r\n"),
    ] {
        caller.expect(&command(said), heard).await;
    }
}

#[tokio::test]
async fn another_library_reads_every_reply_in_both_versions() {
    let server = setup().start().await;
    for version in ["2", "3"] {
        let mut caller = Caller::new(&server).await;
        let texts = [
            &format!("HELLO {version}"),
            "COMMAND",
            "COMMAND DOCS",
            "COMMAND LIST",
            "COMMAND INFO ping nothing",
            "INFO",
            "CLIENT INFO",
            "CLIENT GETNAME",
            "TOLLGATE.CHECK shop user_id 7",
            "TOLLGATE.CHECK shop nobody 7",
            "CL.THROTTLE k 1 1 1",
            "THROTTLE k 1 1 1",
            "FOO",
            "QUIT",
        ];
        for text in texts {
            caller.send(&command(text)).await;
        }
        let heard = caller.last_words().await;
        assert_eq!(values_in(heard.as_bytes(), version == "3"), texts.len(), "{heard}");
    }
}

#[tokio::test]
async fn quit_ends_the_connection_after_its_answer() {
    let server = setup().start().await;
    let mut caller = Caller::new(&server).await;
    caller.send(&[command("PING"), command("QUIT"), command("PING")].concat()).await;
    assert_eq!(caller.last_words().await, "+PONG\r\n+OK\r\n");
}

#[tokio::test]
async fn commands_are_counted_and_timed() {
    let server = setup().start().await;
    let mut caller = Caller::new(&server).await;
    let denied = "*5\r\n:1\r\n:1\r\n:1\r\n:-1\r\n:0\r\n";
    caller.expect(&command("CL.THROTTLE k 0 1 1 2").repeat(3), &denied.repeat(3)).await;
    let (_, page) = http::get(server.addresses.admin, "/metrics").await;
    assert!(page.contains("tollgate_request_duration_seconds_count{interface=\"resp\"} 3\n"), "{page}");
    assert!(page.contains("tollgate_requests_total{outcome=\"denied\"} 3\n"), "{page}");
}

#[tokio::test]
async fn a_server_that_stops_answers_what_has_arrived_and_goes() {
    let server: Server = setup().start().await;
    let mut idle = Caller::new(&server).await;
    let mut half = Caller::new(&server).await;
    idle.expect(&command("PING"), "+PONG\r\n").await;
    half.expect(&[command("PING"), b"*1\r\n$4\r\nPI".to_vec()].concat(), "+PONG\r\n").await;
    server.control().stop();
    assert_eq!((idle.last_words().await, half.last_words().await), (String::new(), String::new()));
    drop((idle, half));
    server.stop().expect("it ends well");
}

#[tokio::test]
async fn there_is_no_such_port_unless_asked_for() {
    let server = Server::with(RULES).await;
    assert_eq!(server.addresses.resp, None);
    let asked = setup().start().await;
    assert!(address(&asked).port() > 0);
}
