//! The head of a request as the upstream gets it: what [`crate::fields`] does with a map, as bytes.

use http::HeaderValue;
use tollgate_core::Verdict;
use tollgate_http::FieldLine;

use super::request::DirectRequest;
use crate::fields::{Origin, PeerFields, is_claim};

/// Lists of proxies, to which the peer or we are added.
const X_FORWARDED_FOR: &[u8] = b"x-forwarded-for";
const FORWARDED: &[u8] = b"forwarded";
const VIA: &[u8] = b"via";

/// Appends the head and the body; `host` if the upstream is to be told another than the client named.
pub(super) fn write(
    request: DirectRequest<'_>,
    origin: &Origin<'_>,
    host: Option<&HeaderValue>,
    (verdict, rule): (Verdict, Option<&str>),
    out: &mut Vec<u8>,
) {
    let host = host.map_or(request.host, HeaderValue::as_bytes);
    for part in [request.method.as_str().as_bytes(), b" ", request.target, b" HTTP/1.1\r\n"] {
        out.extend_from_slice(part);
    }
    line(out, b"host", &[host]);
    let is_kept = |field: &FieldLine<'_>| !is_claim(field.name, origin.believed);
    let is_list = |name: &[u8]| matches!(name, X_FORWARDED_FOR | FORWARDED | VIA);
    for field in request.fields.iter().filter(is_kept).filter(|field| !is_list(field.name)) {
        line(out, field.name, &[field.value]);
    }
    let lists = |name: &'static [u8]| {
        let own = move |field: &FieldLine<'_>| field.name == name;
        request.fields.iter().filter(is_kept).filter(own).map(|field| field.value)
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
    let is_shown = |rule: &&str| rule.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
    if let Some(rule) = rule.filter(is_shown) {
        line(out, b"x-tollgate-rule", &[rule.as_bytes()]);
    }
    line(out, b"x-tollgate-verdict", &[verdict.word().as_bytes()]);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(request.body);
}

/// A field whose value has these parts.
#[inline]
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
