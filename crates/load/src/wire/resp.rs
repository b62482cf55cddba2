//! `TOLLGATE.CHECK` over RESP2.

use super::{Broken, Heard, Verdict, Wire, shown};
use crate::door::Password;
use crate::plan::Plan;
use crate::template::Template;

/// A line of an answer is not longer.
const LINE_MAX: usize = 64 << 10;

/// One connection's worth.
#[derive(Debug)]
pub(crate) struct Resp {
    template: Template,
    answered: u64,
    password: Option<Password>,
    /// Whether the answer to the password is still to come.
    is_stranger: bool,
}

impl Resp {
    pub(crate) fn new(plan: &Plan) -> Self {
        let password = plan.door.password.clone();
        let build = |entries: Vec<(String, String)>| {
            let mut words = vec!["TOLLGATE.CHECK".to_owned(), plan.question.domain.clone()];
            words.extend(entries.into_iter().flat_map(|(key, value)| [key, value]));
            words.extend(["COST".to_owned(), plan.question.cost.to_string()]);
            command(&words)
        };
        let template = Template::new(&plan.question, plan.keys, build);
        Self { template, answered: 0, is_stranger: password.is_some(), password }
    }

    /// What an array of six begins with is the verdict.
    fn verdict(value: &[u8]) -> Verdict {
        match value {
            [b'*', b'6', b'\r', b'\n', b'$', rest @ ..] => match rest {
                [b'5', b'\r', b'\n', b'a', b'l', b'l', b'o', b'w', ..] => Verdict::Allow,
                [b'5', b'\r', b'\n', b'd', b'e', b'l', b'a', b'y', ..] => Verdict::Delay,
                [b'4', b'\r', b'\n', b'd', b'e', b'n', b'y', ..] => Verdict::Deny,
                _ => Verdict::Error(shown(value)),
            },
            [b'-', text @ ..] => Verdict::Error(String::from_utf8_lossy(text.trim_ascii()).into_owned()),
            _ => Verdict::Error(shown(value)),
        }
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

impl Wire for Resp {
    fn hello(&mut self, out: &mut Vec<u8>) {
        if let Some(Password(password)) = &self.password {
            out.extend(command(&["AUTH".to_owned(), password.clone()]));
        }
    }

    fn ask(&mut self, _number: u64, key: u32, out: &mut Vec<u8>) {
        self.template.write(key, out);
    }

    fn hear(&mut self, bytes: &[u8], _out: &mut Vec<u8>) -> Result<Heard, Broken> {
        let Some(length) = length(bytes)? else { return Ok(Heard::Part) };
        if std::mem::take(&mut self.is_stranger) && bytes.starts_with(b"+OK") {
            return Ok(Heard::Aside { length });
        }
        let verdict = Self::verdict(bytes.get(..length).unwrap_or(bytes));
        let number = self.answered;
        self.answered += 1;
        Ok(Heard::Answer { length, number, verdict })
    }
}

/// How long the value at the beginning is; none if it is not all there.
fn length(bytes: &[u8]) -> Result<Option<usize>, Broken> {
    // One value more for each element of an array.
    let (mut at, mut values) = (0, 1_usize);
    while values > 0 {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            let kind = rest.first().is_none_or(|kind| b"*$:+-".contains(kind));
            return if kind && rest.len() < LINE_MAX { Ok(None) } else { Err(Broken::Foreign(shown(rest))) };
        };
        let line = rest.get(1..end).unwrap_or_default().trim_ascii();
        let number = || std::str::from_utf8(line).ok().and_then(|text| text.parse::<i64>().ok());
        let foreign = || Broken::Foreign(shown(rest));
        values -= 1;
        at += end + 1;
        match rest.first() {
            Some(b'*') => {
                let count = number().and_then(|count| usize::try_from(count.max(0)).ok());
                values = values.saturating_add(count.ok_or_else(foreign)?);
            }
            Some(b'$') => {
                // What is null has no bytes, and no line end behind them.
                let count = usize::try_from(number().ok_or_else(foreign)?);
                at = count.map_or(at, |count| at.saturating_add(count).saturating_add(2));
            }
            Some(b':' | b'+' | b'-') => {}
            _ => return Err(foreign()),
        }
    }
    Ok((at <= bytes.len()).then_some(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::Door;
    use crate::plan::Protocol;
    use crate::plan::tests::plan;

    fn resp() -> Resp {
        Resp::new(&plan(Protocol::Resp))
    }

    #[test]
    fn a_command_is_framed_as_clients_do() {
        let mut out = Vec::new();
        resp().ask(0, 7, &mut out);
        let command = "*6\r\n$14\r\nTOLLGATE.CHECK\r\n$4\r\nshop\r\n$7\r\nuser_id\r\n$3\r\nu07\r\n$4\r\nCOST\r\n$1\r\n1\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), command);
    }

    #[test]
    fn answers_are_taken_apart_wherever_they_are_cut() {
        let answers = [
            ("*6\r\n$5\r\nallow\r\n:2\r\n:1\r\n:-1\r\n:3\r\n$1\r\nr\r\n", Verdict::Allow),
            ("*6\r\n$4\r\ndeny\r\n:2\r\n:0\r\n:9\r\n:3\r\n$-1\r\n", Verdict::Deny),
            ("-ERR no\r\n", Verdict::Error("ERR no".to_owned())),
            ("*6\r\n$5\r\ndelay\r\n:2\r\n:0\r\n:9\r\n:3\r\n$0\r\n\r\n", Verdict::Delay),
        ];
        for (text, verdict) in answers {
            let bytes = [text.as_bytes(), b"*6\r\n"].concat();
            for cut in 0..text.len() {
                assert_eq!(resp().hear(&bytes[..cut], &mut Vec::new()), Ok(Heard::Part), "{text:?} at {cut}");
            }
            let answer = Heard::Answer { length: text.len(), number: 0, verdict };
            assert_eq!(resp().hear(&bytes, &mut Vec::new()), Ok(answer));
        }
    }

    #[test]
    fn a_password_comes_first_and_its_answer_is_none() {
        let door = Door { password: Some(Password("open sesame".to_owned())), tls: None };
        let resp = || Resp::new(&Plan { door: door.clone(), ..plan(Protocol::Resp) });
        let (mut out, mut right, mut wrong) = (Vec::new(), resp(), resp());
        right.hello(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "*2\r\n$4\r\nAUTH\r\n$11\r\nopen sesame\r\n");
        assert_eq!(right.hear(b"+OK\r\n", &mut Vec::new()), Ok(Heard::Aside { length: 5 }));
        let verdict = Verdict::Error("WRONGPASS no".to_owned());
        let told = Heard::Answer { length: 15, number: 0, verdict };
        assert_eq!(wrong.hear(b"-WRONGPASS no\r\n", &mut Vec::new()), Ok(told));
        assert_eq!(format!("{:?}", door.password), "Some(…)");
    }

    #[test]
    fn what_is_not_resp_is_foreign() {
        for bytes in [&b"HTTP/1.1 400 Bad Request\r\n"[..], b"\0\0\x12\x04", b"*x\r\n"] {
            assert!(matches!(resp().hear(bytes, &mut Vec::new()), Err(Broken::Foreign(_))), "{bytes:?}");
        }
    }
}
