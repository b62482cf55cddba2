//! One question beforehand, so that mistakes are named at once and not counted
//! by the million.

use std::io::{self, ErrorKind, Read as _, Write as _};

use crate::door::{PATIENCE, Pipe};
use crate::error::Error;
use crate::plan::Plan;
use crate::wire::{self, Broken, Heard, Verdict};

/// Asks one question, which must be answered with a verdict.
pub(crate) fn ask(plan: &Plan) -> Result<(), Error> {
    let address = || plan.address.clone();
    let connect = |source: io::Error| {
        // What rustls does not like is said to be so.
        let is_tls = matches!(source.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof);
        match is_tls {
            true => Error::Tls { address: address(), what: source.to_string() },
            false => Error::Connect { address: address(), source },
        }
    };
    let mut stream = Pipe::open(plan.target, plan.door.tls.as_ref()).map_err(connect)?;
    stream.socket().set_read_timeout(Some(PATIENCE)).map_err(connect)?;
    let mut wire = wire::new(plan);
    let (mut outbox, mut inbox, mut chunk) = (Vec::new(), Vec::new(), [0; 4096]);
    wire.hello(&mut outbox);
    let mut has_asked = false;
    loop {
        if !has_asked && wire.has_room(0) {
            wire.ask(0, 0, &mut outbox);
            has_asked = true;
        }
        // A server that hangs up has said why, perhaps, and that is read next.
        drop(stream.write_all(&outbox));
        outbox.clear();
        let count = match stream.read(&mut chunk) {
            Ok(0) if inbox.is_empty() => return Err(foreign(plan, "it closes the connection at once")),
            Ok(0) => return Err(foreign(plan, &wire::shown(&inbox))),
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(Error::Silent { address: address(), waited: PATIENCE });
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                return Err(foreign(plan, "it resets the connection"));
            }
            Err(source) => return Err(Error::Connect { address: address(), source }),
        };
        inbox.extend_from_slice(chunk.get(..count).unwrap_or_default());
        if let Some(verdict) = verdict(plan, wire.as_mut(), &mut inbox, &mut outbox)? {
            return match verdict {
                Verdict::Allow | Verdict::Delay | Verdict::Deny => Ok(()),
                Verdict::Error(what) => Err(Error::Refused { address: address(), what }),
            };
        }
    }
}

/// The verdict among what has come, if it has come.
fn verdict(
    plan: &Plan,
    wire: &mut dyn wire::Wire,
    inbox: &mut Vec<u8>,
    outbox: &mut Vec<u8>,
) -> Result<Option<Verdict>, Error> {
    loop {
        let length = match wire.hear(inbox, outbox) {
            Ok(Heard::Part) => return Ok(None),
            Ok(Heard::Aside { length }) => length,
            Ok(Heard::Answer { verdict, .. }) => return Ok(Some(verdict)),
            Err(Broken::Foreign(what) | Broken::Goodbye(what)) => return Err(foreign(plan, &what)),
        };
        inbox.drain(..length.min(inbox.len()));
    }
}

fn foreign(plan: &Plan, what: &str) -> Error {
    Error::Protocol { address: plan.address.clone(), protocol: plan.protocol, what: what.to_owned() }
}
