//! Envoy's `ShouldRateLimit` over HTTP/2 in plain text.
//!
//! The header fields of responses are skipped: a response with a message is an answer, one without
//! is an error.

mod frame;
mod hpack;

use std::collections::HashMap;

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
use prost::Message as _;

use super::{Codec, ConnectionFailure, Decoded, ResponseVerdict, shown};
use crate::plan::{DescriptorCheck, Plan};
use crate::template::RequestTemplate;
use frame::Http2Frame;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// No pushes, and the largest window for each stream.
const OUR_SETTINGS: [u8; 12] = [0, 2, 0, 0, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff];
/// The window that we give the server for the whole connection.
const OUR_WINDOW: u32 = 1 << 30;
/// After so many bytes we enlarge it again.
const WINDOW_UPDATE_AFTER: usize = 1 << 24;
/// The window of every HTTP/2 connection until it is enlarged.
const INITIAL_WINDOW: i64 = 65_535;
/// Streams have odd numbers below 2^31.
const NUMBER_MAX: u64 = (1 << 30) - 1;
/// What stands before a message: not compressed, and its length.
const MESSAGE_HEAD: usize = 5;
/// The header of a response that allows a request after a wait.
const WAIT: &str = "x-ratelimit-wait-ms";
/// The reason is in header fields, which are skipped.
const NO_MESSAGE: &str = "a gRPC error, such as that no rules are loaded yet; its log may say more";

/// One connection's worth.
#[derive(Debug)]
pub(crate) struct GrpcCodec {
    authority: String,
    template: RequestTemplate,
    /// The server's settings have arrived.
    is_ready: bool,
    /// The server has a table for header fields.
    has_table: bool,
    /// Our header fields are in it.
    has_sent: bool,
    streams_max: usize,
    /// What we may still send.
    window: i64,
    /// Received since we last enlarged the server's window.
    received: usize,
    /// Messages of calls that have not ended yet.
    messages: HashMap<u32, ResponseVerdict>,
}

/// The fields of a response that matter here.
#[derive(Clone, PartialEq, prost::Message)]
struct ResponseFields {
    #[prost(int32, tag = "1")]
    overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    statuses: Vec<ResponseStatus>,
    #[prost(message, repeated, tag = "3")]
    headers: Vec<ResponseHeader>,
}

/// What is said about a descriptor: here only whether it met a limit.
#[derive(Clone, PartialEq, prost::Message)]
struct ResponseStatus {
    #[prost(message, optional, tag = "2")]
    current_limit: Option<CurrentLimit>,
}

/// Its numbers are skipped.
#[derive(Clone, PartialEq, prost::Message)]
struct CurrentLimit {}

#[derive(Clone, PartialEq, prost::Message)]
struct ResponseHeader {
    #[prost(string, tag = "1")]
    key: String,
}

impl GrpcCodec {
    pub(crate) fn new(plan: &Plan, check: &DescriptorCheck) -> Self {
        let build = |key: &str| {
            let entries =
                check.entries_with(key).into_iter().map(|(key, value)| Entry { key, value }).collect();
            let descriptors = vec![RateLimitDescriptor { entries, ..RateLimitDescriptor::default() }];
            let (domain, hits_addend) = (check.domain.clone(), check.cost);
            let message = RateLimitRequest { domain, descriptors, hits_addend }.encode_to_vec();
            let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
            [&[0][..], &length, &message].concat()
        };
        Self {
            authority: plan.address.clone(),
            template: RequestTemplate::new(plan.keys.count, build),
            is_ready: false,
            has_table: true,
            has_sent: false,
            streams_max: usize::MAX,
            window: INITIAL_WINDOW,
            received: 0,
            messages: HashMap::new(),
        }
    }

    fn request_len(&self) -> i64 {
        i64::try_from(self.template.len()).unwrap_or(i64::MAX)
    }

    fn settings(&mut self, payload: &[u8]) {
        for setting in payload.chunks_exact(6) {
            let [a, b, value @ ..] = setting else { continue };
            let value = <[u8; 4]>::try_from(value).map_or(0, u32::from_be_bytes);
            match u16::from_be_bytes([*a, *b]) {
                1 => self.has_table = value >= hpack::TABLE_NEEDED,
                3 => self.streams_max = usize::try_from(value).unwrap_or(usize::MAX),
                _ => {}
            }
        }
        self.is_ready = true;
    }

    /// Handles a frame; the call that it ends, if it ends one, and its verdict.
    fn receive(
        &mut self,
        frame: Http2Frame<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<(u32, ResponseVerdict)>, ConnectionFailure> {
        match frame.kind {
            frame::DATA => {
                self.received += frame.payload.len();
                if self.received >= WINDOW_UPDATE_AFTER {
                    let back = u32::try_from(std::mem::take(&mut self.received)).unwrap_or(0);
                    frame::put(out, frame::WINDOW_UPDATE, 0, 0, &back.to_be_bytes());
                }
                let data = frame.unpadded();
                if !data.is_empty() {
                    self.messages.insert(frame.stream, verdict(data));
                }
            }
            frame::RST_STREAM => {
                self.messages.remove(&frame.stream);
                let verdict = ResponseVerdict::Error("the server reset the call".to_owned());
                return Ok(Some((frame.stream, verdict)));
            }
            frame::SETTINGS if frame.flags & frame::ACK == 0 => {
                self.settings(frame.payload);
                frame::put(out, frame::SETTINGS, frame::ACK, 0, &[]);
            }
            frame::PING if frame.flags & frame::ACK == 0 => {
                frame::put(out, frame::PING, frame::ACK, 0, frame.payload);
            }
            frame::GOAWAY => {
                let words = frame.payload.get(8..).unwrap_or_default();
                return Err(ConnectionFailure::Closed(format!(
                    "the server closes the connection: {}",
                    String::from_utf8_lossy(words)
                )));
            }
            frame::WINDOW_UPDATE if frame.stream == 0 => {
                let more = <[u8; 4]>::try_from(frame.payload).map_or(0, u32::from_be_bytes);
                self.window = self.window.saturating_add(i64::from(more & 0x7fff_ffff));
            }
            _ => {}
        }
        let may_end = matches!(frame.kind, frame::DATA | frame::HEADERS);
        if !may_end || frame.flags & frame::END_STREAM == 0 {
            return Ok(None);
        }
        let verdict = self.messages.remove(&frame.stream);
        Ok(Some((frame.stream, verdict.unwrap_or_else(|| ResponseVerdict::Error(NO_MESSAGE.to_owned())))))
    }
}

fn verdict(data: &[u8]) -> ResponseVerdict {
    let message = data.get(MESSAGE_HEAD..).unwrap_or_default();
    match ResponseFields::decode(message) {
        Ok(ResponseFields { overall_code: 1, statuses, headers }) => {
            if headers.iter().any(|header| header.key.eq_ignore_ascii_case(WAIT)) {
                ResponseVerdict::Delay
            } else if statuses.iter().any(|status| status.current_limit.is_some()) {
                ResponseVerdict::Allow
            } else {
                ResponseVerdict::Unlimited
            }
        }
        Ok(ResponseFields { overall_code: 2, .. }) => ResponseVerdict::Deny,
        Ok(_) | Err(_) => {
            ResponseVerdict::Error("a message that is no response of the rate limit service".to_owned())
        }
    }
}

impl Codec for GrpcCodec {
    fn open(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFACE);
        frame::put(out, frame::SETTINGS, 0, 0, &OUR_SETTINGS);
        frame::put(out, frame::WINDOW_UPDATE, 0, 0, &OUR_WINDOW.to_be_bytes());
    }

    fn has_room(&self, in_flight: usize) -> bool {
        self.is_ready && in_flight < self.streams_max && self.window >= self.request_len()
    }

    fn encode(&mut self, number: u64, key: u32, out: &mut Vec<u8>) {
        let stream = u32::try_from(number.min(NUMBER_MAX) * 2 + 1).unwrap_or(1);
        let mut put = |fields: &[u8]| frame::put(out, frame::HEADERS, frame::END_HEADERS, stream, fields);
        match (self.has_table, self.has_sent) {
            (true, true) => put(&hpack::INDEXED),
            (true, false) => put(&hpack::indexing(&self.authority)),
            (false, _) => put(&hpack::literal(&self.authority)),
        }
        self.has_sent = true;
        frame::head(out, frame::DATA, frame::END_STREAM, stream, self.template.len());
        self.template.write(key, out);
        self.window -= self.request_len();
    }

    fn decode(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Decoded, ConnectionFailure> {
        let wrong_protocol = || ConnectionFailure::WrongProtocol(shown(bytes));
        let Some((frame, length)) = Http2Frame::read(bytes).map_err(|()| wrong_protocol())? else {
            return Ok(Decoded::Incomplete);
        };
        if !self.is_ready && frame.kind != frame::SETTINGS {
            return Err(wrong_protocol());
        }
        Ok(match self.receive(frame, out)? {
            Some((stream, verdict)) => Decoded::Response { length, number: u64::from(stream / 2), verdict },
            None => Decoded::Control { length },
        })
    }
}

#[cfg(test)]
mod tests;
