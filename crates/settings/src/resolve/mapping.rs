//! How an HTTP request becomes descriptors.
//!
//! | module | what it reads |
//! |---|---|
//! | `actions` | the descriptors, action by action |
//! | `jwt` | which tokens are valid |

mod actions;
mod jwt;

use std::time::Duration;

use tollgate_http::{Action, AddressHeader, ClientAddress, Fact, Mapping};

use crate::node::{Fields, Node, Placed};
use crate::reader::Reader;
use crate::{ForwardAuth, HttpMapping, RequestFrom, go};

/// Who is believed where nobody is named: proxies on this machine.
const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1"];

/// Half of what a proxy waits for an answer by default, at most, and less than
/// a server that is to stop waits for its callers.
const HOLD_MAX: Duration = Duration::from_secs(20);
const HOLD: Duration = Duration::from_secs(5);

pub(super) fn read(reader: &mut Reader<'_>) -> Option<HttpMapping> {
    let node = reader.mapping()?;
    let known = ["domain", "descriptors", "trusted_proxies", "address_from", "jwt"];
    let mut fields = Fields::of(node, &known, reader)?;
    let domain = fields.required("domain", reader);
    let proxies = proxies(&mut fields, reader);
    let has_jwt = fields.take("jwt");
    let tokens = has_jwt.and_then(|node| jwt::read(node, reader));
    let descriptors = match fields.take("descriptors") {
        Some(node) => descriptors(node, reader),
        None => {
            let message = "'descriptors' is missing; write a list of them, each a list of actions";
            reader.mistake(fields.place(), message);
            return None;
        }
    };
    let needs_keys = |action: &Action| matches!(action.fact, Fact::Claim { .. });
    if tokens.is_none() && descriptors.iter().flatten().any(needs_keys) {
        reader.mistake(fields.place(), tollgate_http::Error::NoKeys.to_string());
    }
    let Placed { place, text } = domain?;
    match Mapping::new(text, descriptors) {
        Ok(mapping) => Some(HttpMapping { mapping: mapping.with_proxies(proxies?), tokens }),
        Err(error) => {
            reader.mistake(place, error.to_string());
            None
        }
    }
}

fn proxies(fields: &mut Fields, reader: &mut Reader<'_>) -> Option<ClientAddress> {
    let header = fields.parsed("address_from", reader, |text| match text.to_ascii_lowercase().as_str() {
        "x-forwarded-for" => Ok(AddressHeader::XForwardedFor),
        "forwarded" => Ok(AddressHeader::Forwarded),
        _ => Err(format!("'{text}' names no address; write x-forwarded-for or forwarded")),
    });
    let header = header.unwrap_or_default();
    let Some(node) = fields.take("trusted_proxies") else {
        return ClientAddress::new(&LOOPBACK, header).ok();
    };
    let mut networks = Vec::new();
    let mut are_right = true;
    for item in node.list(reader) {
        let Some(Placed { place, text }) = item.text(reader) else { continue };
        // Each alone, so that every wrong one is told with its place.
        if let Err(error) = ClientAddress::new(&[&text], header) {
            reader.mistake(place, error.to_string());
            are_right = false;
        }
        networks.push(text);
    }
    match ClientAddress::new(&networks, header) {
        Ok(proxies) => Some(proxies),
        Err(error) => {
            if are_right {
                reader.mistake(fields.place(), error.to_string());
            }
            None
        }
    }
}

fn descriptors(node: Node, reader: &mut Reader<'_>) -> Vec<Vec<Action>> {
    let place = node.place.clone();
    let items = node.list(reader);
    if items.is_empty() {
        reader.mistake(place, "there are no descriptors; write at least one list of actions");
    }
    let read = |item| actions::descriptor(item, reader);
    items.into_iter().map(read).filter(|actions| !actions.is_empty()).collect()
}

pub(super) fn forward_auth(reader: &mut Reader<'_>) -> ForwardAuth {
    let deny_status = reader.parsed("forward_auth.deny_status", |text| match text {
        "429" => Ok(429),
        "403" => Ok(403),
        _ => Err(format!("'{text}' is no status for a refusal; write 429, or 403 for nginx")),
    });
    let max_hold = reader.parsed("forward_auth.max_hold", |text| match go::duration(text)? {
        hold if hold > HOLD_MAX => Err(format!("'{text}' is too long to hold a request; write 20s or less")),
        hold => Ok(hold),
    });
    let request_from =
        reader.parsed("forward_auth.request_from", |text| match text.to_ascii_lowercase().as_str() {
            "auto" => Ok(RequestFrom::Auto),
            "x-forwarded" => Ok(RequestFrom::XForwarded),
            "x-original" => Ok(RequestFrom::XOriginal),
            "itself" => Ok(RequestFrom::Itself),
            _ => Err(format!("'{text}' is unknown; write auto, x-forwarded, x-original or itself")),
        });
    ForwardAuth {
        deny_status: deny_status.unwrap_or(429),
        max_hold: max_hold.unwrap_or(HOLD),
        request_from: request_from.unwrap_or(RequestFrom::Auto),
    }
}
