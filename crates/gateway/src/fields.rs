//! Which fields go on, which stay, and which are ours.
//!
//! A message's fields are either about the message or about one connection; the latter stay
//! (RFC 9110, 7.6.1). What clients could only make up about themselves stays too, and what the
//! upstream needs to know is written anew.
//!
//! Invariant: names are compared with `_` as `-`, because many upstreams do not tell them apart.

use std::net::IpAddr;

use http::header::{CONNECTION, COOKIE, EXPECT, FORWARDED, HOST, HeaderName, HeaderValue, TE, UPGRADE, VIA};
use http::{HeaderMap, Version};
use hyper::body::Bytes;
use tollgate_core::Verdict;
use tollgate_http::AddressHeader;
use tollgate_http::response::VERDICT;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
/// The address that was checked: the client's, as far as it can be believed.
const CLIENT: HeaderName = HeaderName::from_static("x-tollgate-client");
/// The limit that let the request through, if there is one.
const RULE: HeaderName = HeaderName::from_static("x-tollgate-rule");

/// Fields that a `Connection` field cannot have removed: removing them would change what the
/// request is, or who it seems to come from.
static KEPT: [HeaderName; 7] = [
    HOST,
    http::header::CONTENT_LENGTH,
    http::header::CONTENT_TYPE,
    FORWARDED,
    X_FORWARDED_FOR,
    X_FORWARDED_PROTO,
    X_FORWARDED_HOST,
];

/// Whether a field is about a connection alone, besides what `Connection` names; the name is in lower case.
pub(crate) fn is_hop_by_hop(name: &[u8]) -> bool {
    // Every field of every answer is looked at, and the compiler goes by their lengths first.
    matches!(
        name,
        b"connection"
            | b"http2-settings"
            | b"keep-alive"
            | b"proxy-authenticate"
            | b"proxy-authorization"
            | b"proxy-connection"
            | b"te"
            | b"transfer-encoding"
            | b"upgrade"
    )
}

/// Whether a field stays even if `Connection` names it; the name is in lower case.
pub(crate) fn is_kept(name: &[u8]) -> bool {
    KEPT.iter().any(|own| own.as_str().as_bytes() == name)
}

/// Removes what is about a connection alone.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let own: Vec<HeaderName> =
        headers.keys().filter(|name| is_hop_by_hop(name.as_str().as_bytes())).cloned().collect();
    if own.is_empty() {
        return;
    }
    let options: Vec<HeaderName> = options(headers, &CONNECTION)
        .filter_map(|option| HeaderName::from_bytes(option).ok())
        .filter(|name| !KEPT.contains(name))
        .collect();
    for name in options.into_iter().chain(own) {
        headers.remove(name);
    }
}

/// The options of a field that is a list.
fn options<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    let lines = headers.get_all(name).iter();
    lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

/// Whether a list has this option.
pub(crate) fn has_option(headers: &HeaderMap, name: &HeaderName, option: &[u8]) -> bool {
    options(headers, name).any(|own| own.eq_ignore_ascii_case(option))
}

/// Whether an element of `Upgrade` is a version of HTTP. In a tunnel it would pass every limit but one, and
/// nobody asks for it in this way any more (RFC 9113, 3.1).
pub(crate) fn is_http_protocol(element: &[u8]) -> bool {
    let name = element.split(|byte| *byte == b'/').next().unwrap_or_default();
    let is_draft = || name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"h2c-"));
    [&b"h2c"[..], b"h2", b"http"].iter().any(|own| name.eq_ignore_ascii_case(own)) || is_draft()
}

/// Whether an answer switches to what was asked for, and to nothing else.
pub(crate) fn is_asked_protocol(asked: &HeaderValue, answer: &HeaderMap) -> bool {
    let is_asked = |own: &[u8]| {
        let mut elements = asked.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        !own.is_empty() && elements.any(|element| element.eq_ignore_ascii_case(own))
    };
    answer.contains_key(UPGRADE) && options(answer, &UPGRADE).all(is_asked)
}

/// What a request asks of this connection.
#[derive(Debug)]
pub(crate) struct HopRequest {
    /// The protocol that it wants to speak; none if it does not, or if that is HTTP.
    pub(crate) upgrade: Option<HeaderValue>,
    /// It can use trailers.
    pub(crate) takes_trailers: bool,
    /// It waits for `100 Continue` before it sends its body.
    pub(crate) expects_continue: bool,
}

impl HopRequest {
    pub(crate) fn read(headers: &HeaderMap, version: Version, has_body: bool) -> Self {
        let is_upgrade = version == Version::HTTP_11
            && !has_body
            && has_option(headers, &CONNECTION, b"upgrade")
            && !options(headers, &UPGRADE).any(is_http_protocol);
        Self {
            upgrade: headers.get(UPGRADE).filter(|_| is_upgrade).cloned(),
            takes_trailers: has_option(headers, &TE, b"trailers"),
            expects_continue: version == Version::HTTP_11
                && has_body
                && has_option(headers, &EXPECT, b"100-continue"),
        }
    }

    /// Asks the same of the upstream.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        if !self.expects_continue {
            headers.remove(EXPECT);
        }
        if self.takes_trailers {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
        if let Some(protocol) = &self.upgrade {
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(UPGRADE, protocol.clone());
        } else if self.takes_trailers {
            headers.insert(CONNECTION, HeaderValue::from_static("te"));
        }
    }
}

/// What is said about a connection's peer in all of its requests, written once.
#[derive(Debug)]
pub(crate) struct PeerFields {
    pub(crate) peer: Option<IpAddr>,
    pub(crate) address: Option<HeaderValue>,
    pub(crate) proto: &'static str,
    /// The beginning of an element of `Forwarded` (RFC 7239).
    pub(crate) forwarded: String,
}

impl PeerFields {
    pub(crate) fn new(peer: Option<IpAddr>, is_tls: bool) -> Self {
        let peer = peer.map(|peer| peer.to_canonical());
        let proto = if is_tls { "https" } else { "http" };
        let forwarded = match peer {
            Some(IpAddr::V4(address)) => format!("for={address};proto={proto}"),
            Some(IpAddr::V6(address)) => format!("for=\"[{address}]\";proto={proto}"),
            None => format!("for=unknown;proto={proto}"),
        };
        Self { peer, address: peer.and_then(address_value), proto, forwarded }
    }
}

fn address_value(address: IpAddr) -> Option<HeaderValue> {
    HeaderValue::from_str(&address.to_string()).ok()
}

/// Where a request came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<'a> {
    /// Who is connected to us.
    pub(crate) peer: &'a PeerFields,
    /// The address that was checked.
    pub(crate) client: Option<IpAddr>,
    /// In which list the peer is believed about others; none if it is not at all.
    pub(crate) believed: Option<AddressHeader>,
    pub(crate) version: Version,
}

/// Tells the upstream who asks, and what was decided by which limit.
pub(crate) fn write_origin(
    headers: &mut HeaderMap,
    origin: &Origin<'_>,
    host: Option<&HeaderValue>,
    (verdict, rule): (Verdict, Option<&str>),
) {
    remove_claims(headers, origin.believed);
    let PeerFields { peer, address, proto, forwarded } = origin.peer;
    if let Some(address) = address {
        append(headers, X_FORWARDED_FOR, address.clone());
    }
    if !headers.contains_key(X_FORWARDED_PROTO) {
        headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static(proto));
    }
    if let Some(host) = host
        && !headers.contains_key(X_FORWARDED_HOST)
    {
        headers.insert(X_FORWARDED_HOST, host.clone());
    }
    let mut element = forwarded.clone();
    if let Some(host) = host.and_then(|host| host.to_str().ok()) {
        element.extend([";host=\"", host, "\""]);
    }
    if let Ok(element) = HeaderValue::from_maybe_shared(Bytes::from(element)) {
        append(headers, FORWARDED, element);
    }
    let via = match origin.version {
        Version::HTTP_2 => "2 tollgate",
        Version::HTTP_10 => "1.0 tollgate",
        _ => "1.1 tollgate",
    };
    append(headers, VIA, HeaderValue::from_static(via));
    let client = match address {
        Some(address) if origin.client == *peer => Some(address.clone()),
        _ => origin.client.and_then(address_value),
    };
    let rule = rule.and_then(|rule| HeaderValue::from_str(rule).ok());
    headers.extend(client.map(|client| (CLIENT, client)));
    headers.extend(rule.map(|rule| (RULE, rule)));
    headers.insert(VERDICT, HeaderValue::from_static(verdict.word()));
}

/// Whether an upstream could take a field for another one; the name is in lower case. CGI and what came after
/// it make an underscore of every `-`, and `HTTP_PROXY`, which programs read as a setting, of `Proxy`.
fn is_disguise(name: &[u8]) -> bool {
    matches!(
        name,
        b"proxy"
            | b"content_length"
            | b"http2_settings"
            | b"keep_alive"
            | b"proxy_authenticate"
            | b"proxy_authorization"
            | b"proxy_connection"
            | b"transfer_encoding"
    )
}

/// Whether only we, or a proxy that is trusted, may say this; the name is in lower case.
///
/// A proxy writes one of the two lists of addresses and passes the other on as the client made it up.
pub(crate) fn is_claim(name: &[u8], believed: Option<AddressHeader>) -> bool {
    // Most fields begin with neither, and are passed by.
    if !matches!(name.first(), Some(b'x' | b'f')) {
        return is_disguise(name);
    }
    let starts = |prefix: &[u8]| {
        let start = name.get(..prefix.len()).unwrap_or_default();
        start.iter().map(|byte| if *byte == b'_' { b'-' } else { *byte }).eq(prefix.iter().copied())
    };
    let is_about_client =
        || starts(b"x-forwarded-") || starts(b"x-real-ip") || name == FORWARDED.as_str().as_bytes();
    let is_odd = || name.contains(&b'_');
    let is_believed = || match believed {
        Some(AddressHeader::XForwardedFor) => name != FORWARDED.as_str().as_bytes(),
        Some(AddressHeader::Forwarded) => name != X_FORWARDED_FOR.as_str().as_bytes(),
        None => false,
    };
    starts(b"x-tollgate-") || (is_about_client() && (!is_believed() || is_odd()))
}

/// Whether a field may not be among the trailers of a request; the name is in lower case. Many upstreams put
/// trailers among the other fields, where they would pass for what stays in a head (RFC 9110, 6.5.1).
fn is_no_trailer(name: &[u8]) -> bool {
    let name: Vec<u8> = name.iter().map(|byte| if *byte == b'_' { b'-' } else { *byte }).collect();
    let name = name.as_slice();
    let is_about_request = || {
        matches!(
            name,
            b"authorization"
                | b"cache-control"
                | b"content-encoding"
                | b"content-length"
                | b"content-location"
                | b"content-range"
                | b"content-type"
                | b"cookie"
                | b"expect"
                | b"host"
                | b"max-forwards"
                | b"pragma"
                | b"range"
                | b"set-cookie"
                | b"trailer"
                | b"via"
        ) || name.starts_with(b"if-")
    };
    is_hop_by_hop(name) || is_claim(name, None) || is_about_request()
}

/// Removes what a client may not say in trailers, or has no business to.
pub(crate) fn remove_from_trailers(trailers: &mut HeaderMap) {
    let goes = |name: &&HeaderName| is_no_trailer(name.as_str().as_bytes());
    let names: Vec<HeaderName> = trailers.keys().filter(goes).cloned().collect();
    for name in names {
        trailers.remove(name);
    }
}

/// Removes what only we, or a proxy that is trusted, may say.
fn remove_claims(headers: &mut HeaderMap, believed: Option<AddressHeader>) {
    let is_claim = |name: &&HeaderName| is_claim(name.as_str().as_bytes(), believed);
    let claims: Vec<HeaderName> = headers.keys().filter(is_claim).cloned().collect();
    for name in claims {
        headers.remove(name);
    }
}

/// Adds an element at the end of a list, and makes one field of it.
fn append(headers: &mut HeaderMap, name: HeaderName, element: HeaderValue) {
    if !headers.contains_key(&name) {
        headers.insert(name, element);
        return;
    }
    let mut list = Vec::new();
    for line in headers.get_all(&name) {
        list.extend_from_slice(line.as_bytes());
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(element.as_bytes());
    // Made of the values of fields.
    if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(list)) {
        headers.insert(name, value);
    }
}

/// Makes one `Cookie` field of several, which HTTP/2 may send and HTTP/1.1 may not (RFC 9113, 8.2.3).
pub(crate) fn join_cookies(headers: &mut HeaderMap) {
    let mut lines = headers.get_all(COOKIE).iter();
    if lines.next().is_none() || lines.next().is_none() {
        return;
    }
    let lines: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(value) = HeaderValue::from_bytes(&lines.join(&b"; "[..])) {
        headers.insert(COOKIE, value);
    }
}

/// A length that nobody reads as another one: digits and nothing else.
pub(crate) fn strict_length(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        fields.iter().map(pair).collect()
    }

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let mut lines: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        lines
    }

    #[test]
    fn what_is_about_a_connection_stays() {
        let mut fields = headers(&[
            ("connection", "close, X-One"),
            ("connection", "content-length, host, te"),
            ("x-one", "1"),
            ("x-two", "2"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers, gzip"),
            ("upgrade", "h2c"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "x"),
            ("transfer-encoding", "chunked"),
            ("host", "a"),
            ("content-length", "3"),
            ("trailer", "x-sum"),
        ]);
        let hop = HopRequest::read(&fields, Version::HTTP_11, true);
        remove_hop_by_hop(&mut fields);
        assert_eq!(shown(&fields), ["content-length: 3", "host: a", "trailer: x-sum", "x-two: 2"]);
        hop.write(&mut fields);
        assert_eq!(fields[TE], "trailers");
        assert_eq!(fields[CONNECTION], "te");
        assert!(hop.upgrade.is_none() && !hop.expects_continue);
    }

    fn written(
        fields: &[(&'static str, &'static str)],
        believed: Option<AddressHeader>,
        peer: &str,
    ) -> Vec<String> {
        let mut fields = headers(fields);
        let client = peer.parse().ok();
        let peer = PeerFields::new(client, true);
        let origin = Origin { peer: &peer, client, believed, version: Version::HTTP_2 };
        let host = HeaderValue::from_static("shop:1");
        write_origin(&mut fields, &origin, Some(&host), (Verdict::Allow, Some("by address")));
        shown(&fields)
    }

    #[test]
    fn a_client_is_not_believed_about_itself() {
        let claims = [
            ("x-forwarded-for", "6.6.6.6"),
            ("x_forwarded_for", "6.6.6.6"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-port", "1"),
            ("x-real-ip", "6.6.6.6"),
            ("forwarded", "for=6.6.6.6"),
            ("x-tollgate-verdict", "free"),
            ("x_tollgate_client", "6.6.6.6"),
            ("via", "1.0 fred"),
        ];
        assert_eq!(
            written(&claims, None, "2001:db8::1"),
            [
                "forwarded: for=\"[2001:db8::1]\";proto=https;host=\"shop:1\"",
                "via: 1.0 fred, 2 tollgate",
                "x-forwarded-for: 2001:db8::1",
                "x-forwarded-host: shop:1",
                "x-forwarded-proto: https",
                "x-tollgate-client: 2001:db8::1",
                "x-tollgate-rule: by address",
                "x-tollgate-verdict: allow",
            ]
        );
    }

    #[test]
    fn a_trusted_proxy_is() {
        let claims = [
            ("x-forwarded-for", "203.0.113.9"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", "www"),
            ("x_forwarded_for", "6.6.6.6"),
            ("forwarded", "for=6.6.6.6, for=\""),
            ("x-tollgate-rule", "mine"),
        ];
        let lines = written(&claims, Some(AddressHeader::XForwardedFor), "10.0.0.1");
        assert_eq!(
            lines[..5],
            [
                "forwarded: for=10.0.0.1;proto=https;host=\"shop:1\"",
                "via: 2 tollgate",
                "x-forwarded-for: 203.0.113.9, 10.0.0.1",
                "x-forwarded-host: www",
                "x-forwarded-proto: http",
            ]
        );
        assert!(lines.contains(&"x-tollgate-rule: by address".to_owned()));
        let lines = written(
            &[("x-forwarded-for", "6.6.6.6"), ("forwarded", "for=203.0.113.9"), ("x-forwarded-host", "www")],
            Some(AddressHeader::Forwarded),
            "10.0.0.1",
        );
        assert_eq!(
            [&lines[0], &lines[2], &lines[3]],
            [
                "forwarded: for=203.0.113.9, for=10.0.0.1;proto=https;host=\"shop:1\"",
                "x-forwarded-for: 10.0.0.1",
                "x-forwarded-host: www",
            ]
        );
    }

    #[test]
    fn cookies_of_http2_become_one() {
        let mut fields = headers(&[("cookie", "a=1"), ("cookie", "b=2")]);
        join_cookies(&mut fields);
        assert_eq!(shown(&fields), ["cookie: a=1; b=2"]);
    }
}
