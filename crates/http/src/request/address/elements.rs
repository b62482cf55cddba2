//! One element of `X-Forwarded-For` or `Forwarded`.
//!
//! Invariant: what is not an address beyond doubt is none. A text that means
//! one address to us and another to somebody else would be a way around limits.

use std::net::{IpAddr, Ipv6Addr};

/// The longest element that can be an address: a full one of IPv6 in brackets,
/// with an IPv4 tail, a port, and quotes.
const NODE_MAX: usize = 64;

/// An address with or without a port: `192.0.2.1`, `192.0.2.1:80`,
/// `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`.
pub(super) fn node(bytes: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= NODE_MAX)?;
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, port) = rest.split_once(']')?;
        let address = inside.parse::<Ipv6Addr>().ok()?;
        let is_whole = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        return is_whole.then_some(IpAddr::V6(address));
    }
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let (address, _) = text.rsplit_once(':').filter(|(_, port)| is_port(port))?;
    // Without brackets only IPv4 can have a port: `::1:80` is an address.
    address.parse().ok().filter(IpAddr::is_ipv4)
}

/// A port, or the obfuscated one of RFC 7239.
fn is_port(text: &str) -> bool {
    match text.strip_prefix('_') {
        Some(rest) => {
            !rest.is_empty()
                && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        }
        None => text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok(),
    }
}

/// The `for` of an element of `Forwarded`; none if it is hidden, missing or
/// there twice. In quotes it is free of backslashes, as all addresses are.
pub(super) fn forwarded(bytes: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    for pair in bytes.split(|byte| *byte == b';') {
        let mut sides = pair.splitn(2, |byte| *byte == b'=');
        let name = sides.next()?.trim_ascii();
        let value = sides.next().map(<[u8]>::trim_ascii);
        if !name.eq_ignore_ascii_case(b"for") {
            continue;
        }
        if found.is_some() {
            return None;
        }
        found = Some(address(value?)?);
    }
    found
}

fn address(value: &[u8]) -> Option<IpAddr> {
    match value.strip_prefix(b"\"") {
        Some(rest) => node(rest.strip_suffix(b"\"")?),
        // IPv6 and ports need quotes by the standard; who leaves them out is clear all the same.
        None => node(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn addresses_are_read_with_and_without_ports() {
        for (text, address) in [
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1:80", "192.0.2.1"),
            ("192.0.2.1:_hidden-1", "192.0.2.1"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:DB8::1]:65535", "2001:db8::1"),
            ("::1:80", "::1:80"),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.1"),
            ("[::ffff:192.0.2.1]:80", "::ffff:192.0.2.1"),
        ] {
            assert_eq!(node(text.as_bytes()), ip(address), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_beyond_doubt_is_none() {
        for text in [
            "",
            "unknown",
            "_hidden",
            "192.0.2",
            "192.0.2.256",
            "192.0.2.01",
            "0xc0000201",
            "3221225985",
            "192.0.2.1:",
            "192.0.2.1:65536",
            "192.0.2.1:+80",
            "192.0.2.1:x",
            "192.0.2.1 ",
            "[192.0.2.1]",
            "[::1",
            "[::1]80",
            "[::1]:",
            "[]:80",
            "::1]",
            "fe80::1%eth0",
            "[fe80::1%25eth0]:80",
            "2001:db8::1:80:x",
            "localhost",
            "192.0.2.1\0",
            "192.0.2.1:_",
            "http://192.0.2.1",
        ] {
            assert_eq!(node(text.as_bytes()), None, "{text}");
        }
        assert_eq!(node(b"192.0.2.1\xff"), None);
        assert_eq!(node("1".repeat(100_000).as_bytes()), None);
    }

    #[test]
    fn an_element_of_forwarded_names_one_address() {
        for (text, address) in [
            ("for=192.0.2.60", ip("192.0.2.60")),
            ("For=\"[2001:db8:cafe::17]:4711\"", ip("2001:db8:cafe::17")),
            ("proto=http; FOR = 192.0.2.60 ;by=203.0.113.43", ip("192.0.2.60")),
            ("for=2001:db8::1", ip("2001:db8::1")),
            ("for=unknown", None),
            ("for=_hidden", None),
            ("for=\"_SEVKISEK\"", None),
            ("proto=https", None),
            ("for", None),
            ("for=", None),
            ("for=\"192.0.2.60", None),
            ("for=192.0.2.60\"", None),
            ("for=192.0.2.60;for=192.0.2.61", None),
            ("for=unknown;for=192.0.2.61", None),
            ("192.0.2.60", None),
        ] {
            assert_eq!(forwarded(text.as_bytes()), address, "{text}");
        }
    }
}
