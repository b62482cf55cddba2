//! Whose address it is: tables, spoofing, and properties over made-up chains.

use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use tollgate_http::request::address::HOPS_MAX;
use tollgate_http::{AddressHeader, AddressPrefixes, ClientAddress};

const OURS: [&str; 3] = ["10.0.0.0/8", "2001:db8:ffff::/48", "192.0.2.1"];

fn headers(name: &'static str, lines: &[&[u8]]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(name, HeaderValue::from_bytes(line).expect("a header may hold it"));
    }
    headers
}

fn found(header: AddressHeader, peer: &str, lines: &[&str]) -> String {
    let name = match header {
        AddressHeader::XForwardedFor => "x-forwarded-for",
        AddressHeader::Forwarded => "forwarded",
    };
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    let proxies = ClientAddress::new(&OURS, header).expect("these are networks");
    proxies.find(peer.parse().expect("the peer is an address"), &headers(name, &lines)).to_string()
}

#[test]
fn x_forwarded_for_is_read_from_the_right_behind_trusted_proxies() {
    for (what, peer, lines, client) in [
        ("no header", "10.0.0.1", &[][..], "10.0.0.1"),
        ("one hop", "10.0.0.1", &["203.0.113.9"], "203.0.113.9"),
        ("two hops", "10.0.0.1", &["203.0.113.9, 10.0.0.2"], "203.0.113.9"),
        ("two lines", "10.0.0.1", &["203.0.113.9", "10.0.0.2"], "203.0.113.9"),
        ("a made-up left end", "10.0.0.1", &["1.1.1.1, 203.0.113.9"], "203.0.113.9"),
        ("a made-up line above", "10.0.0.1", &["1.1.1.1", "203.0.113.9"], "203.0.113.9"),
        ("made-up proxies on the left", "10.0.0.1", &["10.0.0.9, 203.0.113.9"], "203.0.113.9"),
        ("a client that is no proxy", "203.0.113.9", &["1.1.1.1"], "203.0.113.9"),
        ("a client that claims to be one", "203.0.113.9", &["1.1.1.1, 10.0.0.1"], "203.0.113.9"),
        ("all trusted", "10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("a single trusted address", "192.0.2.1", &["192.0.2.2"], "192.0.2.2"),
        ("ports", "10.0.0.1", &["203.0.113.9:4711, 10.0.0.2:80"], "203.0.113.9"),
        ("brackets", "10.0.0.1", &["[2001:db8::9]:4711"], "2001:db8::9"),
        ("IPv6 hops", "2001:db8:ffff::1", &["2001:db8::9, 2001:db8:ffff::2"], "2001:db8::9"),
        ("IPv4 in IPv6", "::ffff:10.0.0.1", &["::ffff:203.0.113.9, ::ffff:10.0.0.2"], "203.0.113.9"),
        ("empty elements", "10.0.0.1", &["203.0.113.9, ,,10.0.0.2,"], "203.0.113.9"),
        ("spaces and tabs", "10.0.0.1", &[" \t203.0.113.9 \t, 10.0.0.2 "], "203.0.113.9"),
        ("garbage at the right end", "10.0.0.1", &["203.0.113.9, unknown"], "10.0.0.1"),
        ("garbage in the middle", "10.0.0.1", &["203.0.113.9, nonsense, 10.0.0.2"], "10.0.0.2"),
        ("garbage behind the client", "10.0.0.1", &["<script>, 203.0.113.9"], "203.0.113.9"),
        ("a zone", "10.0.0.1", &["fe80::1%eth0"], "10.0.0.1"),
        ("a leading zero", "10.0.0.1", &["203.0.113.09"], "10.0.0.1"),
    ] {
        assert_eq!(found(AddressHeader::XForwardedFor, peer, lines), client, "{what}");
    }
}

#[test]
fn forwarded_is_read_from_the_right_too() {
    for (what, peer, lines, client) in [
        ("one hop", "10.0.0.1", &["for=203.0.113.9;proto=https"][..], "203.0.113.9"),
        ("two hops", "10.0.0.1", &["for=203.0.113.9, for=10.0.0.2;by=10.0.0.1"], "203.0.113.9"),
        ("IPv6", "10.0.0.1", &["For=\"[2001:db8::9]:4711\""], "2001:db8::9"),
        ("hidden", "10.0.0.1", &["for=203.0.113.9, for=_hidden, for=10.0.0.2"], "10.0.0.2"),
        ("unknown", "10.0.0.1", &["for=203.0.113.9, for=unknown"], "10.0.0.1"),
        ("an open quote of the client", "10.0.0.1", &["for=\"1.1.1.1, for=203.0.113.9"], "203.0.113.9"),
        ("a quote around a comma", "10.0.0.1", &["for=\"1.1.1.1, for=2.2.2.2\", for=10.0.0.2"], "10.0.0.2"),
        ("twice", "10.0.0.1", &["for=1.1.1.1;for=203.0.113.9"], "10.0.0.1"),
        ("no for", "10.0.0.1", &["for=203.0.113.9, proto=http"], "10.0.0.1"),
        ("not of a proxy", "203.0.113.9", &["for=1.1.1.1"], "203.0.113.9"),
    ] {
        assert_eq!(found(AddressHeader::Forwarded, peer, lines), client, "{what}");
    }
}

#[test]
fn the_header_that_the_proxies_do_not_write_is_not_read() {
    let proxies = ClientAddress::new(&OURS, AddressHeader::XForwardedFor).expect("these are networks");
    let mut both = headers("x-forwarded-for", &[b"203.0.113.9"]);
    both.insert("forwarded", HeaderValue::from_static("for=1.1.1.1"));
    assert_eq!(proxies.find(IpAddr::from([10, 0, 0, 1]), &both).to_string(), "203.0.113.9");
}

#[test]
fn whoever_trusts_nobody_reads_no_header() {
    let nobody = ClientAddress::default();
    let headers = headers("x-forwarded-for", &[b"1.1.1.1"]);
    assert_eq!(nobody.find(IpAddr::from([10, 0, 0, 1]), &headers).to_string(), "10.0.0.1");
}

#[test]
fn hostile_headers_cost_little_and_change_nothing() {
    let proxies = ClientAddress::new(&OURS, AddressHeader::XForwardedFor).expect("these are networks");
    let peer = IpAddr::from([10, 0, 0, 1]);
    let many = "10.0.0.2, ".repeat(10_000) + "203.0.113.9";
    assert_eq!(
        proxies.find(peer, &headers("x-forwarded-for", &[many.as_bytes()])).to_string(),
        "203.0.113.9"
    );
    let chain = "1.1.1.1".to_owned() + &", 10.0.0.2".repeat(HOPS_MAX);
    assert_eq!(proxies.find(peer, &headers("x-forwarded-for", &[chain.as_bytes()])).to_string(), "10.0.0.2");
    let long = "1".repeat(100_000);
    assert_eq!(proxies.find(peer, &headers("x-forwarded-for", &[long.as_bytes()])), peer);
    assert_eq!(proxies.find(peer, &headers("x-forwarded-for", &[b"203.0.113.9, \xff\xfe"])), peer);
}

fn ours() -> impl Strategy<Value = IpAddr> {
    any::<[u8; 3]>().prop_map(|[a, b, c]| IpAddr::from([10, a, b, c]))
}

/// Never in a trusted network.
fn theirs() -> impl Strategy<Value = IpAddr> {
    let v4 = any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)));
    let v6 = any::<[u16; 7]>().prop_map(|[a, b, c, d, e, f, g]| IpAddr::from([0x2a00, a, b, c, d, e, f, g]));
    prop_oneof![v4, v6].prop_filter("it is ours", |address| {
        let text = address.to_string();
        !text.starts_with("10.") && text != "192.0.2.1"
    })
}

/// An address as some proxy might write it.
fn written(address: IpAddr, style: u8) -> String {
    match (address, style % 4) {
        (IpAddr::V4(v4), 0) => format!("{v4}:{style}"),
        (IpAddr::V4(v4), 1) => v4.to_ipv6_mapped().to_string(),
        (IpAddr::V6(v6), 0) => format!("[{v6}]:{style}"),
        (IpAddr::V6(v6), 1) => format!("[{v6}]"),
        (address, _) => address.to_string(),
    }
}

proptest! {
    /// Whatever a client writes, the address that the first proxy of ours saw is the one.
    #[test]
    fn what_a_client_writes_has_no_effect(
        forged in prop::collection::vec("[ -+\\--~]{0,40}", 0..6),
        client in theirs(),
        hops in prop::collection::vec(ours(), 1..6),
        style in any::<u8>(),
    ) {
        let mut list = forged;
        list.push(written(client, style));
        let (peer, between) = hops.split_last().expect("there is one at least");
        list.extend(between.iter().map(|hop| written(*hop, style)));
        let proxies = ClientAddress::new(&OURS, AddressHeader::XForwardedFor).expect("these are networks");
        let line = list.join(", ");
        prop_assert_eq!(proxies.find(*peer, &headers("x-forwarded-for", &[line.as_bytes()])), client);
        // However the list is split into lines.
        let (left, right) = list.split_at(list.len() / 2);
        let lines = [left.join(","), right.join(",")];
        let lines: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
        prop_assert_eq!(proxies.find(*peer, &headers("x-forwarded-for", &lines)), client);
    }

    /// The same for `Forwarded`, whatever quotes the client leaves open.
    #[test]
    fn what_a_client_writes_into_forwarded_has_no_effect(
        forged in "[ -~]{0,80}",
        client in theirs(),
        hops in prop::collection::vec(ours(), 1..4),
    ) {
        let (peer, between) = hops.split_last().expect("there is one at least");
        let hop = |address: &IpAddr| match address {
            IpAddr::V4(v4) => format!("for={v4}"),
            IpAddr::V6(v6) => format!("for=\"[{v6}]\";proto=https"),
        };
        let own: Vec<String> = std::iter::once(&client).chain(between).map(hop).collect();
        let line = format!("{forged}, {}", own.join(", "));
        let proxies = ClientAddress::new(&OURS, AddressHeader::Forwarded).expect("these are networks");
        prop_assert_eq!(proxies.find(*peer, &headers("forwarded", &[line.as_bytes()])), client);
    }

    /// Any bytes at all: the answer is the peer or an address from the list, and nothing panics.
    #[test]
    fn any_bytes_are_survived(line in prop::collection::vec(prop_oneof![32_u8..127, 128_u8..=255], 0..300)) {
        for header in [AddressHeader::XForwardedFor, AddressHeader::Forwarded] {
            let proxies = ClientAddress::new(&["0.0.0.0/0", "::/0"], header).expect("these are networks");
            let peer = IpAddr::from([10, 0, 0, 1]);
            let name = if header == AddressHeader::Forwarded { "forwarded" } else { "x-forwarded-for" };
            proxies.find(peer, &headers(name, &[&line]));
            let nobody = ClientAddress::new(&[""; 0], header).expect("nobody is fine");
            prop_assert_eq!(nobody.find(peer, &headers(name, &[&line])), peer);
        }
    }

    /// Two addresses share a key just if they share the prefix.
    #[test]
    fn a_key_is_the_prefix(one in any::<u128>(), two in any::<u128>(), bits in 0_u8..=128) {
        let prefixes = AddressPrefixes::new(32, bits).expect("there are so many bits");
        // Outside of the range that stands for IPv4.
        let (one, two) = (one | 1 << 127, two | 1 << 127);
        let shared = (one ^ two).leading_zeros() >= u32::from(bits);
        let key = |address: u128| prefixes.shown(IpAddr::V6(address.into()));
        prop_assert_eq!(key(one) == key(two), shared);
    }
}
