//! The head of a request as the upstream gets it: what [`crate::fields`] does with a map, as bytes.

use http::HeaderValue;
use tollgate_core::Verdict;
use tollgate_http::{FieldLine, FieldLines};

use super::request::DirectRequest;
use crate::fields::{Origin, PeerFields, is_claim};

/// Lists of proxies, to which the peer or we are added.
const X_FORWARDED_FOR: &[u8] = b"x-forwarded-for";
const FORWARDED: &[u8] = b"forwarded";
const VIA: &[u8] = b"via";

/// Appends the head and the body; `host` if the upstream is to be told another than the client named. What was
/// decided comes with the line about its limit.
pub(super) fn write(
    request: DirectRequest<'_>,
    origin: &Origin<'_>,
    host: Option<&HeaderValue>,
    (verdict, rule): (Verdict, &[u8]),
    out: &mut Vec<u8>,
) {
    let host = host.map_or(request.host, HeaderValue::as_bytes);
    out.extend_from_slice(request.method.as_str().as_bytes());
    out.extend_from_slice(b" ");
    out.extend_from_slice(request.target);
    out.extend_from_slice(b" HTTP/1.1\r\n");
    line(out, b"host", &[host]);
    let is_kept = |field: &FieldLine<'_>| !is_claim(field.name, origin.believed);
    let is_list = |name: &[u8]| matches!(name, X_FORWARDED_FOR | FORWARDED | VIA);
    let mut has_lists = false;
    for field in request.fields.iter().filter(is_kept) {
        match is_list(field.name) {
            true => has_lists = true,
            false => line(out, field.name, &[field.value]),
        }
    }
    // Most clients are no proxies, and then nobody looks for each list.
    let listed = if has_lists { request.fields } else { FieldLines::new(&[], &[]) };
    let lists = |name: &'static [u8]| {
        let own = move |field: &FieldLine<'_>| field.name == name;
        listed.iter().filter(is_kept).filter(own).map(|field| field.value)
    };
    let PeerFields { peer, address, proto, forwarded } = origin.peer;
    if let Some(address) = address {
        list(out, X_FORWARDED_FOR, lists(X_FORWARDED_FOR), &[address.as_bytes()]);
    }
    let has = |name: &[u8]| origin.believed.is_some() && request.field(name).is_some();
    if !has(b"x-forwarded-proto") {
        line(out, b"x-forwarded-proto", &[proto.as_bytes()]);
    }
    if !has(b"x-forwarded-host") {
        line(out, b"x-forwarded-host", &[request.host]);
    }
    let element = [forwarded.as_bytes(), b";host=\"", request.host, b"\""];
    list(out, FORWARDED, lists(FORWARDED), &element);
    list(out, VIA, lists(VIA), &[b"1.1 tollgate"]);
    match (origin.client, address) {
        (client, Some(address)) if client == *peer => {
            line(out, b"x-tollgate-client", &[address.as_bytes()]);
        }
        (Some(client), _) => line(out, b"x-tollgate-client", &[client.to_string().as_bytes()]),
        (None, _) => {}
    }
    out.extend_from_slice(rule);
    line(out, b"x-tollgate-verdict", &[verdict.word().as_bytes()]);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(request.body);
}

/// A field whose value has these parts. Where the name is known to the compiler, it is copied without a call.
#[inline(always)]
pub(super) fn line(out: &mut Vec<u8>, name: &[u8], value: &[&[u8]]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    for part in value {
        out.extend_from_slice(part);
    }
    out.extend_from_slice(b"\r\n");
}

/// A field that is a list, with one element more.
fn list<'a>(out: &mut Vec<u8>, name: &[u8], others: impl Iterator<Item = &'a [u8]>, element: &[&[u8]]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    for other in others {
        out.extend_from_slice(other);
        out.extend_from_slice(b", ");
    }
    for part in element {
        out.extend_from_slice(part);
    }
    out.extend_from_slice(b"\r\n");
}
