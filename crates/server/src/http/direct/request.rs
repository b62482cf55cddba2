//! Bytes → a request to `/v1/check` or its like, if they begin with a whole one.

use httparse::{EMPTY_HEADER, Header, Status};
use tollgate_core::Operation;

use super::super::v1;

/// Most requests have no more headers; requests with more are left to hyper.
const HEADERS_USUAL: usize = 32;
/// The length of a body that comes in one read with its head has no more digits.
const LENGTH_DIGITS_MAX: usize = 5;

/// A request to `/v1/check` or its like.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WholeRequest<'a> {
    pub(super) operation: Operation,
    pub(super) content_type: Option<&'a [u8]>,
    pub(super) body: &'a [u8],
    /// Bytes of all of it.
    pub(super) length: usize,
}

impl<'a> WholeRequest<'a> {
    /// The request that `bytes` begin with; none if it is not whole, or is for hyper.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut headers = [EMPTY_HEADER; HEADERS_USUAL];
        let mut request = httparse::Request::new(&mut headers);
        let Ok(Status::Complete(head)) = request.parse(bytes) else { return None };
        if request.method != Some("POST") || request.version != Some(1) {
            return None;
        }
        let operation = v1::operation(request.path?)?;
        let BodyFraming { content_type, content_length } = BodyFraming::of(request.headers)?;
        let length = head + content_length?;
        Some(Self { operation, content_type, body: bytes.get(head..length)?, length })
    }
}

/// What headers say about the body.
#[derive(Default)]
struct BodyFraming<'a> {
    content_type: Option<&'a [u8]>,
    content_length: Option<usize>,
}

impl<'a> BodyFraming<'a> {
    /// None if they say more than where the body ends, or say that twice.
    fn of(headers: &[Header<'a>]) -> Option<Self> {
        let mut framing = Self::default();
        for Header { name, value } in headers {
            let is = |other: &str| name.eq_ignore_ascii_case(other);
            if is("content-length") {
                let none_before = framing.content_length.replace(digits(value)?).is_none();
                none_before.then_some(())?;
            } else if is("content-type") {
                framing.content_type.replace(value).is_none().then_some(())?;
            } else if is("connection") {
                value.eq_ignore_ascii_case(b"keep-alive").then_some(())?;
            } else if is("transfer-encoding") || is("expect") || is("upgrade") {
                return None;
            }
        }
        Some(framing)
    }
}

fn digits(value: &[u8]) -> Option<usize> {
    let is_short = (1..=LENGTH_DIGITS_MAX).contains(&value.len());
    let number = |sum: usize, byte: &u8| byte.is_ascii_digit().then(|| sum * 10 + usize::from(byte - b'0'));
    value.iter().filter(|_| is_short).try_fold(0, number).filter(|_| is_short)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(headers: &str, body: &str) -> String {
        let length = body.len();
        format!("POST /v1/check HTTP/1.1\r\nhost: t\r\n{headers}content-length: {length}\r\n\r\n{body}")
    }

    #[test]
    fn a_whole_request_is_read_and_what_follows_it_is_not() {
        let one = post("Content-Type: application/json\r\nConnection: Keep-Alive\r\n", "{}");
        let two = one.clone() + &one;
        let request = WholeRequest::read(two.as_bytes()).unwrap();
        let expected = WholeRequest {
            operation: Operation::Check,
            content_type: Some(b"application/json"),
            body: b"{}",
            length: one.len(),
        };
        assert_eq!(request, expected);
        for cut in 0..one.len() {
            assert_eq!(WholeRequest::read(&one.as_bytes()[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn what_is_not_simple_is_left_to_hyper() {
        for headers in [
            "transfer-encoding: chunked\r\n",
            "Expect: 100-continue\r\n",
            "connection: close\r\n",
            "connection: upgrade\r\n",
            "upgrade: h2c\r\n",
            "content-length: 2\r\n",
            "content-length: +2\r\n",
            "content-type: text/plain\r\ncontent-type: application/json\r\n",
            "no header\r\n",
            &"a: b\r\n".repeat(HEADERS_USUAL),
        ] {
            assert_eq!(WholeRequest::read(post(headers, "{}").as_bytes()), None, "{headers}");
        }
        for line in [
            "GET /v1/check HTTP/1.1",
            "POST /v1/check HTTP/1.0",
            "POST /json HTTP/1.1",
            "POST /v1/check?a=b HTTP/1.1",
        ] {
            let other = post("", "{}").replace("POST /v1/check HTTP/1.1", line);
            assert_eq!(WholeRequest::read(other.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn a_length_is_digits_and_short() {
        assert_eq!(digits(b"0"), Some(0));
        assert_eq!(digits(b"16384"), Some(16_384));
        for value in [&b""[..], b"-1", b"+1", b"1 ", b"0x1", b"123456", b"99999999999999999999999"] {
            assert_eq!(digits(value), None, "{value:?}");
        }
    }
}
