//! `POST /v1/check`, or any other path, over HTTP/1.1, one request at a time.

use super::{Codec, ConnectionFailure, Decoded, ResponseVerdict, shown};
use crate::plan::{DescriptorCheck, KEY, Plan};
use crate::template::RequestTemplate;

/// The head of a response is not longer.
const HEAD_MAX: usize = 16 << 10;
/// The body of a response is not longer.
const BODY_MAX: usize = 1 << 20;

/// One connection's worth.
#[derive(Debug)]
pub(crate) struct HttpCodec {
    template: RequestTemplate,
    /// What a status and a body mean.
    verdict: fn(&str, &[u8]) -> ResponseVerdict,
    responses: u64,
}

impl HttpCodec {
    pub(crate) fn check(plan: &Plan, check: &DescriptorCheck) -> Self {
        let build = |key: &str| {
            let entries = check.entries_with(key);
            let entries: Vec<String> =
                entries.iter().map(|(key, value)| format!("{}:{}", quoted(key), quoted(value))).collect();
            let (domain, cost, entries) = (quoted(&check.domain), check.cost, entries.join(","));
            let body = format!(r#"{{"domain":{domain},"descriptors":[{{{entries}}}],"cost":{cost}}}"#);
            request(&plan.address, "/v1/check", &body)
        };
        let template = RequestTemplate::new(plan.keys.count, build);
        Self { template, verdict: check_verdict, responses: 0 }
    }

    pub(crate) fn post(plan: &Plan, path: &str, body: &str) -> Self {
        let build = |key: &str| request(&plan.address, path, &body.replace(KEY, key));
        let template = RequestTemplate::new(plan.keys.count, build);
        Self { template, verdict: post_verdict, responses: 0 }
    }
}

impl HttpCodec {
    pub(crate) fn get(plan: &Plan, path: &str, header: &str) -> Self {
        let build = |key: &str| {
            let (host, header) = (&plan.address, header.replace(KEY, key));
            format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{header}\r\n\r\n").into_bytes()
        };
        let template = RequestTemplate::new(plan.keys.count, build);
        Self { template, verdict: get_verdict, responses: 0 }
    }
}

fn request(host: &str, path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    (head + body).into_bytes()
}

/// A string of JSON. Control characters were refused before.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

impl Codec for HttpCodec {
    fn has_room(&self, in_flight: usize) -> bool {
        in_flight == 0
    }

    fn encode(&mut self, _number: u64, key: u32, out: &mut Vec<u8>) {
        self.template.write(key, out);
    }

    fn decode(&mut self, bytes: &[u8], _out: &mut Vec<u8>) -> Result<Decoded, ConnectionFailure> {
        const START: &[u8] = b"HTTP/1.1 ";
        let wrong_protocol = || ConnectionFailure::WrongProtocol(shown(bytes));
        if !bytes.starts_with(START.get(..bytes.len()).unwrap_or(START)) {
            return Err(wrong_protocol());
        }
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            return if bytes.len() < HEAD_MAX { Ok(Decoded::Incomplete) } else { Err(wrong_protocol()) };
        };
        let head = std::str::from_utf8(bytes.get(..end).unwrap_or_default()).map_err(|_| wrong_protocol())?;
        let status = head.get(START.len()..START.len() + 3).unwrap_or_default();
        let body_length =
            content_length(head).filter(|length| *length <= BODY_MAX).ok_or_else(wrong_protocol)?;
        let length = end + 4 + body_length;
        let Some(body) = bytes.get(end + 4..length) else { return Ok(Decoded::Incomplete) };
        let verdict = (self.verdict)(status, body);
        let number = self.responses;
        self.responses += 1;
        Ok(Decoded::Response { length, number, verdict })
    }
}

fn content_length(head: &str) -> Option<usize> {
    let value = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim())
    });
    value?.parse().ok()
}

fn check_verdict(status: &str, body: &[u8]) -> ResponseVerdict {
    match status {
        // Which of the decisions counts is said unless none does.
        "200" if body.starts_with(br#"{"verdict":"allow","binding""#) => ResponseVerdict::Allow,
        "200" if body.starts_with(br#"{"verdict":"allow""#) => ResponseVerdict::Unlimited,
        "200" if body.starts_with(br#"{"verdict":"delay""#) => ResponseVerdict::Delay,
        "429" => ResponseVerdict::Deny,
        _ => ResponseVerdict::Error(error_text(status, body)),
    }
}

fn post_verdict(status: &str, body: &[u8]) -> ResponseVerdict {
    if status.starts_with('2') {
        ResponseVerdict::Allow
    } else {
        ResponseVerdict::Error(error_text(status, body))
    }
}

fn get_verdict(status: &str, body: &[u8]) -> ResponseVerdict {
    if status == "429" { ResponseVerdict::Deny } else { post_verdict(status, body) }
}

fn error_text(status: &str, body: &[u8]) -> String {
    format!("HTTP {status} {}", String::from_utf8_lossy(body).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{check, plan};
    use crate::protocol::LoadProtocol;

    fn http() -> HttpCodec {
        HttpCodec::check(&plan(LoadProtocol::Http), &check())
    }

    #[test]
    fn a_request_has_the_length_it_says() {
        let mut out = Vec::new();
        http().encode(0, 7, &mut out);
        let sent = String::from_utf8(out).unwrap();
        let (head, body) = sent.split_once("\r\n\r\n").unwrap();
        assert_eq!(body, r#"{"domain":"shop","descriptors":[{"user_id":"u07"}],"cost":1}"#);
        assert_eq!(content_length(head), Some(body.len()));
    }

    #[test]
    fn any_other_post_is_allowed_if_its_status_is_good() {
        let mut http = HttpCodec::post(&plan(LoadProtocol::Http), "/throttle", r#"{"key":"{key}"}"#);
        let mut out = Vec::new();
        http.encode(0, 7, &mut out);
        let sent = String::from_utf8(out).unwrap();
        assert!(sent.starts_with("POST /throttle ") && sent.ends_with(r#"{"key":"07"}"#), "{sent}");
        assert_eq!(post_verdict("200", b"{}"), ResponseVerdict::Allow);
        assert_eq!(post_verdict("500", b"no\n"), ResponseVerdict::Error("HTTP 500 no".to_owned()));
    }

    #[test]
    fn a_get_has_its_key_in_a_header_and_may_be_denied() {
        let mut http = HttpCodec::get(&plan(LoadProtocol::Http), "/a", "x-key: k{key}");
        let mut out = Vec::new();
        http.encode(0, 7, &mut out);
        assert_eq!(out, b"GET /a HTTP/1.1\r\nhost: 127.0.0.1:1\r\nx-key: k07\r\n\r\n");
        assert_eq!(get_verdict("204", b""), ResponseVerdict::Allow);
        assert_eq!(get_verdict("429", b""), ResponseVerdict::Deny);
        assert_eq!(get_verdict("502", b""), ResponseVerdict::Error("HTTP 502 ".to_owned()));
    }

    #[test]
    fn responses_are_decoded_wherever_they_are_cut() {
        let ok = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let answers = [
            (ok(r#"{"verdict":"allow","binding":0,"decisions":[{}]}"#), ResponseVerdict::Allow),
            (ok(r#"{"verdict":"allow","decisions":[]}"#), ResponseVerdict::Unlimited),
            (ok(r#"{"verdict":"delay","wait_ms":1}"#), ResponseVerdict::Delay),
            (
                "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 2\r\n\r\n{}".to_owned(),
                ResponseVerdict::Deny,
            ),
            (
                "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 3\r\n\r\nno\n".to_owned(),
                ResponseVerdict::Error("HTTP 503 no".to_owned()),
            ),
        ];
        for (text, verdict) in answers {
            let bytes = [text.as_bytes(), b"HTTP/1.1 2"].concat();
            for cut in 0..text.len() {
                assert_eq!(
                    http().decode(&bytes[..cut], &mut Vec::new()),
                    Ok(Decoded::Incomplete),
                    "{text:?} at {cut}"
                );
            }
            let answer = Decoded::Response { length: text.len(), number: 0, verdict };
            assert_eq!(http().decode(&bytes, &mut Vec::new()), Ok(answer));
        }
    }

    #[test]
    fn what_is_not_http_is_the_wrong_protocol() {
        for bytes in [&b"-ERR unknown command\r\n"[..], b"\0\0\x12\x04", b"HTTP/1.1 200 OK\r\n\r\n"] {
            assert!(
                matches!(http().decode(bytes, &mut Vec::new()), Err(ConnectionFailure::WrongProtocol(_))),
                "{bytes:?}"
            );
        }
    }
}
