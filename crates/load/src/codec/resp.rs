//! `TOLLGATE.CHECK`, or any other command, over RESP2.

use super::{Codec, ConnectionFailure, Decoded, ResponseVerdict, shown};
use crate::plan::{DescriptorCheck, KEY, Plan};
use crate::template::RequestTemplate;
use crate::transport::Password;

/// A line of a reply is not longer.
const LINE_MAX: usize = 64 << 10;

/// One connection's worth.
#[derive(Debug)]
pub(crate) struct RespCodec {
    template: RequestTemplate,
    verdict: fn(&[u8]) -> ResponseVerdict,
    replies: u64,
    password: Option<Password>,
    /// Whether the reply to the password is still to come.
    awaits_login: bool,
}

impl RespCodec {
    pub(crate) fn check(plan: &Plan, check: &DescriptorCheck) -> Self {
        let build = |key: &str| {
            let mut words = vec!["TOLLGATE.CHECK".to_owned(), check.domain.clone()];
            words.extend(check.entries_with(key).into_iter().flat_map(|(key, value)| [key, value]));
            words.extend(["COST".to_owned(), check.cost.to_string()]);
            command(&words)
        };
        Self::new(plan, RequestTemplate::new(plan.keys.count, build), check_verdict)
    }

    pub(crate) fn command(plan: &Plan, words: &[String]) -> Self {
        let build = |key: &str| command(&words.iter().map(|word| word.replace(KEY, key)).collect::<Vec<_>>());
        Self::new(plan, RequestTemplate::new(plan.keys.count, build), command_verdict)
    }

    fn new(plan: &Plan, template: RequestTemplate, verdict: fn(&[u8]) -> ResponseVerdict) -> Self {
        let password = plan.connect.password.clone();
        Self { template, verdict, replies: 0, awaits_login: password.is_some(), password }
    }
}

/// An array of six begins with the verdict.
fn check_verdict(reply: &[u8]) -> ResponseVerdict {
    let Some(rest) = reply.strip_prefix(b"*6\r\n$") else {
        return match command_verdict(reply) {
            error @ ResponseVerdict::Error(_) => error,
            ResponseVerdict::Allow
            | ResponseVerdict::Unlimited
            | ResponseVerdict::Delay
            | ResponseVerdict::Deny => ResponseVerdict::Error(shown(reply)),
        };
    };
    match rest {
        // In the place of the limit.
        _ if rest.starts_with(b"5\r\nallow\r\n:-1\r\n") => ResponseVerdict::Unlimited,
        _ if rest.starts_with(b"5\r\nallow") => ResponseVerdict::Allow,
        _ if rest.starts_with(b"5\r\ndelay") => ResponseVerdict::Delay,
        _ if rest.starts_with(b"4\r\ndeny") => ResponseVerdict::Deny,
        _ => ResponseVerdict::Error(shown(reply)),
    }
}

fn command_verdict(reply: &[u8]) -> ResponseVerdict {
    match reply {
        [b'-', text @ ..] => ResponseVerdict::Error(String::from_utf8_lossy(text.trim_ascii()).into_owned()),
        _ => ResponseVerdict::Allow,
    }
}

/// A command as clients send it.
fn command(words: &[String]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

impl Codec for RespCodec {
    fn open(&mut self, out: &mut Vec<u8>) {
        if let Some(Password(password)) = &self.password {
            out.extend(command(&["AUTH".to_owned(), password.clone()]));
        }
    }

    fn encode(&mut self, _number: u64, key: u32, out: &mut Vec<u8>) {
        self.template.write(key, out);
    }

    fn decode(&mut self, bytes: &[u8], _out: &mut Vec<u8>) -> Result<Decoded, ConnectionFailure> {
        let Some(length) = length(bytes)? else { return Ok(Decoded::Incomplete) };
        if std::mem::take(&mut self.awaits_login) && bytes.starts_with(b"+OK") {
            return Ok(Decoded::Control { length });
        }
        let verdict = (self.verdict)(bytes.get(..length).unwrap_or(bytes));
        let number = self.replies;
        self.replies += 1;
        Ok(Decoded::Response { length, number, verdict })
    }
}

/// How long the value at the beginning is; none if it is not all there.
fn length(bytes: &[u8]) -> Result<Option<usize>, ConnectionFailure> {
    // One value more for each element of an array.
    let (mut at, mut values) = (0, 1_usize);
    while values > 0 {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            let kind = rest.first().is_none_or(|kind| b"*$:+-".contains(kind));
            return if kind && rest.len() < LINE_MAX {
                Ok(None)
            } else {
                Err(ConnectionFailure::WrongProtocol(shown(rest)))
            };
        };
        let line = rest.get(1..end).unwrap_or_default().trim_ascii();
        let number = || std::str::from_utf8(line).ok().and_then(|text| text.parse::<i64>().ok());
        let wrong_protocol = || ConnectionFailure::WrongProtocol(shown(rest));
        values -= 1;
        at += end + 1;
        match rest.first() {
            Some(b'*') => {
                let count = number().and_then(|count| usize::try_from(count.max(0)).ok());
                values = values.saturating_add(count.ok_or_else(wrong_protocol)?);
            }
            Some(b'$') => {
                // What is null has no bytes, and no line end behind them.
                let count = usize::try_from(number().ok_or_else(wrong_protocol)?);
                at = count.map_or(at, |count| at.saturating_add(count).saturating_add(2));
            }
            Some(b':' | b'+' | b'-') => {}
            _ => return Err(wrong_protocol()),
        }
    }
    Ok((at <= bytes.len()).then_some(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests;
    use crate::protocol::LoadProtocol;
    use crate::transport::ConnectOptions;

    fn plan() -> Plan {
        tests::plan(LoadProtocol::Resp)
    }

    fn resp() -> RespCodec {
        RespCodec::check(&plan(), &tests::check())
    }

    #[test]
    fn a_command_is_framed_as_clients_do() {
        let mut out = Vec::new();
        resp().encode(0, 7, &mut out);
        let command = "*6\r\n$14\r\nTOLLGATE.CHECK\r\n$4\r\nshop\r\n$7\r\nuser_id\r\n$3\r\nu07\r\n$4\r\nCOST\r\n$1\r\n1\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), command);
    }

    #[test]
    fn replies_are_decoded_wherever_they_are_cut() {
        let answers = [
            ("*6\r\n$5\r\nallow\r\n:2\r\n:1\r\n:-1\r\n:3\r\n$1\r\nr\r\n", ResponseVerdict::Allow),
            ("*6\r\n$4\r\ndeny\r\n:2\r\n:0\r\n:9\r\n:3\r\n$-1\r\n", ResponseVerdict::Deny),
            ("-ERR no\r\n", ResponseVerdict::Error("ERR no".to_owned())),
            ("*6\r\n$5\r\ndelay\r\n:2\r\n:0\r\n:9\r\n:3\r\n$0\r\n\r\n", ResponseVerdict::Delay),
        ];
        for (text, verdict) in answers {
            let bytes = [text.as_bytes(), b"*6\r\n"].concat();
            for cut in 0..text.len() {
                assert_eq!(
                    resp().decode(&bytes[..cut], &mut Vec::new()),
                    Ok(Decoded::Incomplete),
                    "{text:?} at {cut}"
                );
            }
            let answer = Decoded::Response { length: text.len(), number: 0, verdict };
            assert_eq!(resp().decode(&bytes, &mut Vec::new()), Ok(answer));
        }
    }

    #[test]
    fn any_other_command_is_allowed_unless_its_reply_is_an_error() {
        let mut resp = RespCodec::command(&plan(), &["INCR".to_owned(), "user:{key}".to_owned()]);
        let mut out = Vec::new();
        resp.encode(0, 7, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "*2\r\n$4\r\nINCR\r\n$7\r\nuser:07\r\n");
        let mut verdict = |reply: &[u8]| match resp.decode(reply, &mut Vec::new()) {
            Ok(Decoded::Response { verdict, .. }) => verdict,
            other => panic!("{other:?}"),
        };
        assert_eq!(verdict(b":1\r\n"), ResponseVerdict::Allow);
        assert_eq!(verdict(b"*1\r\n:0\r\n"), ResponseVerdict::Allow);
        assert_eq!(verdict(b"-ERR no\r\n"), ResponseVerdict::Error("ERR no".to_owned()));
    }

    #[test]
    fn a_password_comes_first_and_its_reply_is_no_response() {
        let connect = ConnectOptions { password: Some(Password("open sesame".to_owned())), tls: None };
        let resp = || RespCodec::check(&Plan { connect: connect.clone(), ..plan() }, &tests::check());
        let (mut out, mut right, mut wrong) = (Vec::new(), resp(), resp());
        right.open(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "*2\r\n$4\r\nAUTH\r\n$11\r\nopen sesame\r\n");
        assert_eq!(right.decode(b"+OK\r\n", &mut Vec::new()), Ok(Decoded::Control { length: 5 }));
        let verdict = ResponseVerdict::Error("WRONGPASS no".to_owned());
        let told = Decoded::Response { length: 15, number: 0, verdict };
        assert_eq!(wrong.decode(b"-WRONGPASS no\r\n", &mut Vec::new()), Ok(told));
        assert_eq!(format!("{:?}", connect.password), "Some(…)");
    }

    #[test]
    fn what_is_not_resp_is_the_wrong_protocol() {
        for bytes in [&b"HTTP/1.1 400 Bad Request\r\n"[..], b"\0\0\x12\x04", b"*x\r\n"] {
            assert!(
                matches!(resp().decode(bytes, &mut Vec::new()), Err(ConnectionFailure::WrongProtocol(_))),
                "{bytes:?}"
            );
        }
    }
}
