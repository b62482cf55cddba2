//! One request beforehand, so that mistakes are named at once and not counted by the million.

use std::io::{self, ErrorKind, Read as _, Write as _};

use crate::codec::{self, Codec, ConnectionFailure, Decoded, ResponseVerdict};
use crate::error::Error;
use crate::plan::Plan;
use crate::transport::{LoadStream, TIMEOUT};

/// Sends one request, whose response must be a verdict.
pub(crate) fn run(plan: &Plan) -> Result<(), Error> {
    let address = || plan.address.clone();
    let connect = |source: io::Error| {
        // This is how rustls reports its errors.
        let is_tls = matches!(source.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof);
        match is_tls {
            true => Error::Tls { address: address(), what: source.to_string() },
            false => Error::Connect { address: address(), source },
        }
    };
    let mut stream = LoadStream::open(plan.target, plan.connect.tls.as_ref()).map_err(connect)?;
    stream.socket().set_read_timeout(Some(TIMEOUT)).map_err(connect)?;
    let mut codec = codec::new(plan);
    let (mut outbox, mut inbox, mut chunk) = (Vec::new(), Vec::new(), [0; 4096]);
    codec.open(&mut outbox);
    let mut has_sent = false;
    loop {
        if !has_sent && codec.has_room(0) {
            codec.encode(0, 0, &mut outbox);
            has_sent = true;
        }
        // A server that closes the connection may have said why, and that is read next.
        drop(stream.write_all(&outbox));
        outbox.clear();
        let count = match stream.read(&mut chunk) {
            Ok(0) if inbox.is_empty() => {
                return Err(wrong_protocol(plan, "it closes the connection at once"));
            }
            Ok(0) => return Err(wrong_protocol(plan, &codec::shown(&inbox))),
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(Error::Silent { address: address(), waited: TIMEOUT });
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                return Err(wrong_protocol(plan, "it resets the connection"));
            }
            Err(source) => return Err(Error::Connect { address: address(), source }),
        };
        inbox.extend_from_slice(chunk.get(..count).unwrap_or_default());
        if let Some(verdict) = verdict(plan, codec.as_mut(), &mut inbox, &mut outbox)? {
            return match verdict {
                ResponseVerdict::Error(what) => Err(Error::Refused { address: address(), what }),
                ResponseVerdict::Allow
                | ResponseVerdict::Unlimited
                | ResponseVerdict::Delay
                | ResponseVerdict::Deny => Ok(()),
            };
        }
    }
}

/// The verdict, if it has arrived.
fn verdict(
    plan: &Plan,
    codec: &mut dyn Codec,
    inbox: &mut Vec<u8>,
    outbox: &mut Vec<u8>,
) -> Result<Option<ResponseVerdict>, Error> {
    loop {
        let length = match codec.decode(inbox, outbox) {
            Ok(Decoded::Incomplete) => return Ok(None),
            Ok(Decoded::Control { length }) => length,
            Ok(Decoded::Response { verdict, .. }) => return Ok(Some(verdict)),
            Err(ConnectionFailure::WrongProtocol(what) | ConnectionFailure::Closed(what)) => {
                return Err(wrong_protocol(plan, &what));
            }
        };
        inbox.drain(..length.min(inbox.len()));
    }
}

fn wrong_protocol(plan: &Plan, what: &str) -> Error {
    Error::Protocol { address: plan.address.clone(), protocol: plan.protocol(), what: what.to_owned() }
}
