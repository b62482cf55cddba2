//! Envoy's `ShouldRateLimit` over HTTP/2 in plain text.
//!
//! The header fields of answers are passed over: an answer with a message is
//! one, and an answer without is an error.

mod fields;
mod frame;

use std::collections::HashMap;

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
use prost::Message as _;

use super::{Broken, Heard, Verdict, Wire, shown};
use crate::plan::Plan;
use crate::template::Template;
use frame::Frame;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// No pushes, and streams that may send all they like.
const OUR_SETTINGS: [u8; 12] = [0, 2, 0, 0, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff];
/// What the connection may send before we say more.
const OUR_WINDOW: u32 = 1 << 30;
/// After so many bytes we do.
const WINDOW_BACK_AFTER: usize = 1 << 24;
/// What we may send at first.
const WINDOW_AT_FIRST: i64 = 65_535;
/// Streams have odd numbers below 2^31.
const NUMBER_MAX: u64 = (1 << 30) - 1;
/// What stands before a message: not compressed, and its length.
const MESSAGE_HEAD: usize = 5;
/// The header of a reply that lets pass later.
const WAIT: &str = "x-ratelimit-wait-ms";
/// Why there is none is in header fields, which are passed over.
const NO_MESSAGE: &str = "a gRPC error, such as that no rules are loaded yet; its log may say more";

/// One connection's worth.
#[derive(Debug)]
pub(crate) struct Grpc {
    authority: String,
    template: Template,
    /// The server's settings have come.
    is_ready: bool,
    /// The server remembers header fields.
    remembers: bool,
    has_asked: bool,
    streams_max: usize,
    /// What we may still send.
    window: i64,
    /// What we have taken in and not yet said.
    taken: usize,
    /// Messages of calls that have not ended yet.
    messages: HashMap<u32, Verdict>,
}

/// The part of a reply that is looked at.
#[derive(Clone, PartialEq, prost::Message)]
struct Said {
    #[prost(int32, tag = "1")]
    overall_code: i32,
    #[prost(message, repeated, tag = "3")]
    headers: Vec<SaidHeader>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct SaidHeader {
    #[prost(string, tag = "1")]
    key: String,
}

impl Grpc {
    pub(crate) fn new(plan: &Plan) -> Self {
        let build = |entries: Vec<(String, String)>| {
            let entries = entries.into_iter().map(|(key, value)| Entry { key, value }).collect();
            let descriptors = vec![RateLimitDescriptor { entries, ..RateLimitDescriptor::default() }];
            let (domain, hits_addend) = (plan.question.domain.clone(), plan.question.cost);
            let message = RateLimitRequest { domain, descriptors, hits_addend }.encode_to_vec();
            let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
            [&[0][..], &length, &message].concat()
        };
        Self {
            authority: plan.address.clone(),
            template: Template::new(&plan.question, plan.keys, build),
            is_ready: false,
            remembers: true,
            has_asked: false,
            streams_max: usize::MAX,
            window: WINDOW_AT_FIRST,
            taken: 0,
            messages: HashMap::new(),
        }
    }

    fn cost_of_asking(&self) -> i64 {
        i64::try_from(self.template.len()).unwrap_or(i64::MAX)
    }

    fn settings(&mut self, payload: &[u8]) {
        for setting in payload.chunks_exact(6) {
            let [a, b, value @ ..] = setting else { continue };
            let value = <[u8; 4]>::try_from(value).map_or(0, u32::from_be_bytes);
            match u16::from_be_bytes([*a, *b]) {
                1 => self.remembers = value >= fields::TABLE_NEEDED,
                3 => self.streams_max = usize::try_from(value).unwrap_or(usize::MAX),
                _ => {}
            }
        }
        self.is_ready = true;
    }

    /// Takes in a frame; the call that it ends and how, if it ends one.
    fn take(&mut self, frame: Frame<'_>, out: &mut Vec<u8>) -> Result<Option<(u32, Verdict)>, Broken> {
        match frame.kind {
            frame::DATA => {
                self.taken += frame.payload.len();
                if self.taken >= WINDOW_BACK_AFTER {
                    let back = u32::try_from(std::mem::take(&mut self.taken)).unwrap_or(0);
                    frame::put(out, frame::WINDOW_UPDATE, 0, 0, &back.to_be_bytes());
                }
                let data = frame.unpadded();
                if !data.is_empty() {
                    self.messages.insert(frame.stream, verdict(data));
                }
            }
            frame::RST_STREAM => {
                self.messages.remove(&frame.stream);
                let verdict = Verdict::Error("the server reset the call".to_owned());
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
                return Err(Broken::Goodbye(format!(
                    "the server asks us to go {}",
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
        Ok(Some((frame.stream, verdict.unwrap_or_else(|| Verdict::Error(NO_MESSAGE.to_owned())))))
    }
}

fn verdict(data: &[u8]) -> Verdict {
    let message = data.get(MESSAGE_HEAD..).unwrap_or_default();
    match Said::decode(message) {
        Ok(Said { overall_code: 1, headers }) => {
            match headers.iter().any(|header| header.key.eq_ignore_ascii_case(WAIT)) {
                true => Verdict::Delay,
                false => Verdict::Allow,
            }
        }
        Ok(Said { overall_code: 2, .. }) => Verdict::Deny,
        Ok(_) | Err(_) => Verdict::Error("an answer that is no reply of the rate limit service".to_owned()),
    }
}

impl Wire for Grpc {
    fn hello(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFACE);
        frame::put(out, frame::SETTINGS, 0, 0, &OUR_SETTINGS);
        frame::put(out, frame::WINDOW_UPDATE, 0, 0, &OUR_WINDOW.to_be_bytes());
    }

    fn has_room(&self, on_the_way: usize) -> bool {
        self.is_ready && on_the_way < self.streams_max && self.window >= self.cost_of_asking()
    }

    fn ask(&mut self, number: u64, key: u32, out: &mut Vec<u8>) {
        let stream = u32::try_from(number.min(NUMBER_MAX) * 2 + 1).unwrap_or(1);
        let mut put = |fields: &[u8]| frame::put(out, frame::HEADERS, frame::END_HEADERS, stream, fields);
        match (self.remembers, self.has_asked) {
            (true, true) => put(&fields::LATER),
            (true, false) => put(&fields::first(&self.authority)),
            (false, _) => put(&fields::always(&self.authority)),
        }
        self.has_asked = true;
        frame::head(out, frame::DATA, frame::END_STREAM, stream, self.template.len());
        self.template.write(key, out);
        self.window -= self.cost_of_asking();
    }

    fn hear(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Heard, Broken> {
        let foreign = || Broken::Foreign(shown(bytes));
        let Some((frame, length)) = Frame::read(bytes).map_err(|()| foreign())? else {
            return Ok(Heard::Part);
        };
        if !self.is_ready && frame.kind != frame::SETTINGS {
            return Err(foreign());
        }
        Ok(match self.take(frame, out)? {
            Some((stream, verdict)) => Heard::Answer { length, number: u64::from(stream / 2), verdict },
            None => Heard::Aside { length },
        })
    }
}

#[cfg(test)]
mod tests;
