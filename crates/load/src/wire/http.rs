//! `POST /v1/check` over HTTP/1.1, one question at a time.

use super::{Broken, Heard, Verdict, Wire, shown};
use crate::plan::Plan;
use crate::template::Template;

/// The head of an answer is not longer.
const HEAD_MAX: usize = 16 << 10;
/// The body of an answer is not longer.
const BODY_MAX: usize = 1 << 20;

/// One connection's worth.
#[derive(Debug)]
pub(crate) struct Http {
    template: Template,
    answered: u64,
}

impl Http {
    pub(crate) fn new(plan: &Plan) -> Self {
        let build = |entries: Vec<(String, String)>| {
            let entries: Vec<String> =
                entries.iter().map(|(key, value)| format!("{}:{}", text(key), text(value))).collect();
            let (domain, cost) = (text(&plan.question.domain), plan.question.cost);
            let body =
                format!(r#"{{"domain":{domain},"descriptors":[{{{}}}],"cost":{cost}}}"#, entries.join(","));
            let (host, length) = (&plan.address, body.len());
            let head = format!(
                "POST /v1/check HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
            );
            (head + &body).into_bytes()
        };
        Self { template: Template::new(&plan.question, plan.keys, build), answered: 0 }
    }
}

/// A text of JSON. Control characters were refused before.
fn text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

impl Wire for Http {
    fn has_room(&self, on_the_way: usize) -> bool {
        on_the_way == 0
    }

    fn ask(&mut self, _number: u64, key: u32, out: &mut Vec<u8>) {
        self.template.write(key, out);
    }

    fn hear(&mut self, bytes: &[u8], _out: &mut Vec<u8>) -> Result<Heard, Broken> {
        const START: &[u8] = b"HTTP/1.1 ";
        let foreign = || Broken::Foreign(shown(bytes));
        if !bytes.starts_with(START.get(..bytes.len()).unwrap_or(START)) {
            return Err(foreign());
        }
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            return if bytes.len() < HEAD_MAX { Ok(Heard::Part) } else { Err(foreign()) };
        };
        let head = std::str::from_utf8(bytes.get(..end).unwrap_or_default()).map_err(|_| foreign())?;
        let status = head.get(START.len()..START.len() + 3).unwrap_or_default();
        let body_length = content_length(head).filter(|length| *length <= BODY_MAX).ok_or_else(foreign)?;
        let length = end + 4 + body_length;
        let Some(body) = bytes.get(end + 4..length) else { return Ok(Heard::Part) };
        let verdict = verdict(status, body);
        let number = self.answered;
        self.answered += 1;
        Ok(Heard::Answer { length, number, verdict })
    }
}

fn content_length(head: &str) -> Option<usize> {
    let value = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim())
    });
    value?.parse().ok()
}

fn verdict(status: &str, body: &[u8]) -> Verdict {
    match status {
        "200" if body.starts_with(br#"{"verdict":"allow""#) => Verdict::Allow,
        "200" if body.starts_with(br#"{"verdict":"delay""#) => Verdict::Delay,
        "429" => Verdict::Deny,
        _ => Verdict::Error(format!("HTTP {status} {}", String::from_utf8_lossy(body).trim_end())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Protocol;
    use crate::plan::tests::plan;

    fn http() -> Http {
        Http::new(&plan(Protocol::Http))
    }

    #[test]
    fn a_question_has_the_length_it_says() {
        let mut out = Vec::new();
        http().ask(0, 7, &mut out);
        let asked = String::from_utf8(out).unwrap();
        let (head, body) = asked.split_once("\r\n\r\n").unwrap();
        assert_eq!(body, r#"{"domain":"shop","descriptors":[{"user_id":"u07"}],"cost":1}"#);
        assert_eq!(content_length(head), Some(body.len()));
    }

    #[test]
    fn answers_are_taken_apart_wherever_they_are_cut() {
        let ok = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let answers = [
            (ok(r#"{"verdict":"allow","decisions":[]}"#), Verdict::Allow),
            (ok(r#"{"verdict":"delay","wait_ms":1}"#), Verdict::Delay),
            ("HTTP/1.1 429 Too Many Requests\r\ncontent-length: 2\r\n\r\n{}".to_owned(), Verdict::Deny),
            (
                "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 3\r\n\r\nno\n".to_owned(),
                Verdict::Error("HTTP 503 no".to_owned()),
            ),
        ];
        for (text, verdict) in answers {
            let bytes = [text.as_bytes(), b"HTTP/1.1 2"].concat();
            for cut in 0..text.len() {
                assert_eq!(http().hear(&bytes[..cut], &mut Vec::new()), Ok(Heard::Part), "{text:?} at {cut}");
            }
            let answer = Heard::Answer { length: text.len(), number: 0, verdict };
            assert_eq!(http().hear(&bytes, &mut Vec::new()), Ok(answer));
        }
    }

    #[test]
    fn what_is_not_http_is_foreign() {
        for bytes in [&b"-ERR unknown command\r\n"[..], b"\0\0\x12\x04", b"HTTP/1.1 200 OK\r\n\r\n"] {
            assert!(matches!(http().hear(bytes, &mut Vec::new()), Err(Broken::Foreign(_))), "{bytes:?}");
        }
    }
}
