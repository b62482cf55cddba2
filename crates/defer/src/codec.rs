//! Requests and results as bytes, the same in a file and on Redis.
//!
//! Invariants: the first byte is a version; what was written is read back equal; other bytes are an
//! error and never a panic.

use tollgate_core::{DescriptorText, OwnedRequest, Time};

use crate::error::DeferError;
use crate::id::DeferredId;
use crate::request::{DeferredEnd, DeferredRequest, HeaderList, KeptResponse};

const VERSION: u8 = 1;
const DONE: u8 = 1;
const FAILED: u8 = 2;
const EXPIRED: u8 = 3;

#[derive(Default)]
struct ByteWriter(Vec<u8>);

impl ByteWriter {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    fn length(&mut self, length: usize) {
        self.number(u64::try_from(length).unwrap_or(u64::MAX));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.0.extend(bytes);
    }

    fn optional(&mut self, number: Option<u64>) {
        self.byte(u8::from(number.is_some()));
        self.number(number.unwrap_or(0));
    }

    fn optional_text(&mut self, text: Option<&str>) {
        self.byte(u8::from(text.is_some()));
        self.bytes(text.unwrap_or_default().as_bytes());
    }

    fn headers(&mut self, headers: &HeaderList) {
        self.length(headers.len());
        for (name, value) in headers {
            self.bytes(name.as_bytes());
            self.bytes(value);
        }
    }

    fn response(&mut self, response: &KeptResponse) {
        self.number(u64::from(response.status));
        self.headers(&response.headers);
        self.bytes(&response.body);
        self.byte(u8::from(response.is_cut));
    }
}

struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn flag(&mut self) -> Option<bool> {
        Some(self.byte()? != 0)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn length(&mut self) -> Option<usize> {
        // Each item takes at least a byte, so that a wrong number asks for no memory.
        usize::try_from(self.number()?).ok().filter(|length| *length <= self.0.len())
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let length = self.length()?;
        self.take(length).map(<[u8]>::to_vec)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?).ok()
    }

    fn optional(&mut self) -> Option<Option<u64>> {
        let (is_there, number) = (self.flag()?, self.number()?);
        Some(is_there.then_some(number))
    }

    fn optional_text(&mut self) -> Option<Option<String>> {
        let (is_there, text) = (self.flag()?, self.text()?);
        Some(is_there.then_some(text))
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let length = self.length()?;
        (0..length).map(|_| item(self)).collect()
    }

    fn headers(&mut self) -> Option<HeaderList> {
        self.list(|reader| Some((reader.text()?, reader.bytes()?)))
    }

    fn response(&mut self) -> Option<KeptResponse> {
        Some(KeptResponse {
            status: u16::try_from(self.number()?).ok()?,
            headers: self.headers()?,
            body: self.bytes()?,
            is_cut: self.flag()?,
        })
    }
}

impl DeferredRequest {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = ByteWriter::default();
        out.byte(VERSION);
        out.bytes(self.id.bytes());
        out.number(self.accepted.get());
        out.number(self.expires.get());
        for text in [&self.key, &self.rule, &self.method, &self.path, &self.check.domain] {
            out.bytes(text.as_bytes());
        }
        out.optional_text(self.host.as_deref());
        out.headers(&self.headers);
        out.bytes(&self.body);
        out.optional_text(self.check.route.as_deref());
        out.number(self.check.cost);
        out.length(self.check.descriptors.len());
        for descriptor in &self.check.descriptors {
            out.optional(descriptor.cost);
            out.length(descriptor.entries.len());
            for (key, value) in &descriptor.entries {
                out.bytes(key.as_bytes());
                out.bytes(value.as_bytes());
            }
        }
        out.0
    }

    /// From bytes.
    ///
    /// # Errors
    /// If they are not what [`Self::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DeferError> {
        read_request(&mut ByteReader(bytes)).ok_or(DeferError::Corrupt { what: "a request" })
    }
}

fn read_request(from: &mut ByteReader<'_>) -> Option<DeferredRequest> {
    (from.byte()? == VERSION).then_some(())?;
    let id = DeferredId::from_bytes(from.bytes()?.try_into().ok()?);
    let (accepted, expires) = (Time::new(from.number()?), Time::new(from.number()?));
    let (key, rule, method, path) = (from.text()?, from.text()?, from.text()?, from.text()?);
    let domain = from.text()?;
    let (host, headers, body) = (from.optional_text()?, from.headers()?, from.bytes()?);
    let (route, cost) = (from.optional_text()?, from.number()?);
    let descriptors = from.list(|from| {
        let cost = from.optional()?;
        Some(DescriptorText { cost, entries: from.list(|from| Some((from.text()?, from.text()?)))? })
    })?;
    let check = OwnedRequest { domain, route, cost, descriptors };
    Some(DeferredRequest { id, accepted, expires, key, rule, check, method, host, path, headers, body })
}

impl DeferredEnd {
    /// As bytes, with how often it was tried.
    pub fn encode(&self, attempts: u32) -> Vec<u8> {
        let mut out = ByteWriter::default();
        out.byte(VERSION);
        out.number(u64::from(attempts));
        match self {
            Self::Done(response) => {
                out.byte(DONE);
                out.response(response);
            }
            Self::Failed { reason, response } => {
                out.byte(FAILED);
                out.bytes(reason.as_bytes());
                out.byte(u8::from(response.is_some()));
                if let Some(response) = response {
                    out.response(response);
                }
            }
            Self::Expired => out.byte(EXPIRED),
        }
        out.0
    }

    /// From bytes, with how often it was tried.
    ///
    /// # Errors
    /// If they are not what [`Self::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<(Self, u32), DeferError> {
        read_end(&mut ByteReader(bytes)).ok_or(DeferError::Corrupt { what: "a result" })
    }
}

fn read_end(from: &mut ByteReader<'_>) -> Option<(DeferredEnd, u32)> {
    (from.byte()? == VERSION).then_some(())?;
    let attempts = u32::try_from(from.number()?).ok()?;
    let end = match from.byte()? {
        DONE => DeferredEnd::Done(from.response()?),
        FAILED => {
            let reason = from.text()?;
            let response = if from.flag()? { Some(from.response()?) } else { None };
            DeferredEnd::Failed { reason, response }
        }
        EXPIRED => DeferredEnd::Expired,
        _ => return None,
    };
    Some((end, attempts))
}

#[cfg(test)]
mod tests;
