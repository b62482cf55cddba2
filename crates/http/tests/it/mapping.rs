//! What a request becomes.

use http::{HeaderMap, HeaderValue};
use tollgate_core::Time;
use tollgate_http::request::value::VALUE_MAX;
use tollgate_http::{
    Action, AddressPrefixes, ClientAddress, Error, Fact, HttpRequestFacts, Mapping, PathTemplates,
    TokenSource,
};

fn facts(headers: &HeaderMap) -> HttpRequestFacts<'_> {
    HttpRequestFacts {
        peer: "203.0.113.9".parse().ok(),
        method: "GET",
        target: b"/users/42?key=q%201",
        host: Some("shop.example"),
        headers,
        now: Time::from_secs(1_700_000_000),
    }
}

fn mapping(descriptors: Vec<Vec<Action>>) -> Mapping {
    Mapping::new("shop", descriptors).expect("the mapping is right")
}

/// The descriptors as `key=value,key=value`.
fn mapped(mapping: &Mapping, facts: &HttpRequestFacts<'_>) -> Vec<String> {
    mapping.map(facts).with_request(|request| {
        assert_eq!((request.domain, request.cost), (mapping.domain(), 1));
        let entries = |entries: &[tollgate_core::Entry<'_>]| {
            entries.iter().map(|entry| format!("{}={}", entry.key, entry.value)).collect::<Vec<_>>().join(",")
        };
        request.descriptors.iter().map(|descriptor| entries(descriptor.entries)).collect()
    })
}

fn header(name: &str) -> Fact {
    Fact::header(name).expect("it is a header")
}

#[test]
fn every_fact_becomes_an_entry() {
    let mut headers = HeaderMap::new();
    headers.insert("x-api-key", HeaderValue::from_static("k1"));
    headers.insert("cookie", HeaderValue::from_static("a=1; sid=s1"));
    let paths = PathTemplates::new(&["/users/{id}"]).expect("it is a template");
    let all = [
        ("remote_address", Fact::RemoteAddress(AddressPrefixes::default()), "203.0.113.9"),
        ("api_key", header("X-Api-Key"), "k1"),
        ("target", header(":path"), "/users/42?key=q%201"),
        ("host", header(":authority"), "shop.example"),
        ("verb", header(":method"), "GET"),
        ("method", Fact::Method, "GET"),
        ("path", Fact::Path(paths), "/users/{id}"),
        ("bare", Fact::Path(PathTemplates::default()), "/users/42"),
        ("key", Fact::Query("key".to_owned()), "q 1"),
        ("sid", Fact::Cookie("sid".to_owned()), "s1"),
        ("generic_key", Fact::Text("web".to_owned()), "web"),
    ];
    let expected: Vec<String> = all.iter().map(|(key, _, value)| format!("{key}={value}")).collect();
    let one_by_one = all.iter().map(|(key, fact, _)| vec![Action::new(*key, fact.clone())]).collect();
    assert_eq!(mapped(&mapping(one_by_one), &facts(&headers)), expected);
    let together = vec![all.into_iter().map(|(key, fact, _)| Action::new(key, fact)).take(8).collect()];
    assert_eq!(mapped(&mapping(together), &facts(&headers)), [expected[..8].join(",")]);
}

#[test]
fn an_absent_value_drops_its_descriptor_and_no_other() {
    let absent = [
        header("x-none"),
        Fact::Query("none".to_owned()),
        Fact::Cookie("none".to_owned()),
        Fact::Claim { path: vec!["sub".to_owned()], source: TokenSource::default() },
    ];
    let headers = HeaderMap::new();
    for fact in absent {
        let text = |value: &str| Action::new("g", Fact::Text(value.to_owned()));
        let strict = mapping(vec![
            vec![text("before")],
            vec![text("with"), Action::new("absent", fact.clone()), text("it")],
            vec![text("after")],
        ]);
        assert_eq!(mapped(&strict, &facts(&headers)), ["g=before", "g=after"], "{fact:?}");
        let lenient = mapping(vec![vec![text("with"), Action::new("absent", fact).or_skip(), text("it")]]);
        assert_eq!(mapped(&lenient, &facts(&headers)), ["g=with,g=it"]);
    }
    let nobody = HttpRequestFacts { peer: None, host: None, ..facts(&headers) };
    let of_nobody = mapping(vec![
        vec![Action::new("a", Fact::RemoteAddress(AddressPrefixes::default()))],
        vec![Action::new("h", Fact::Host).or_skip()],
    ]);
    assert!(of_nobody.map(&nobody).is_empty());
    assert_eq!(mapped(&of_nobody, &nobody), [""; 0]);
}

#[test]
fn an_empty_value_is_a_value() {
    let mut headers = HeaderMap::new();
    headers.insert("x-api-key", HeaderValue::from_static(""));
    let mapping = mapping(vec![vec![Action::new("k", header("x-api-key"))]]);
    assert_eq!(mapped(&mapping, &facts(&headers)), ["k="]);
}

#[test]
fn the_address_is_found_behind_the_proxies_of_the_mapping() {
    let proxies = ClientAddress::new(&["203.0.113.9"], tollgate_http::AddressHeader::XForwardedFor);
    let mapping = mapping(vec![vec![Action::new("a", Fact::RemoteAddress(AddressPrefixes::default()))]])
        .with_proxies(proxies.expect("it is a network"));
    let mut headers = HeaderMap::new();
    headers.insert("x-forwarded-for", HeaderValue::from_static("1.1.1.1, 2001:db8:0:1:2:3:4:5"));
    assert_eq!(mapped(&mapping, &facts(&headers)), ["a=2001:db8:0:1::/64"]);
}

#[test]
fn hostile_values_are_bounded() {
    let mut headers = HeaderMap::new();
    let long = "x".repeat(100_000);
    headers.insert("x-long", HeaderValue::from_str(&long).expect("it is plain text"));
    headers.insert("x-odd", HeaderValue::from_bytes(b"a\xffb\xfe").expect("a header may hold it"));
    headers.insert("cookie", HeaderValue::from_bytes(b"==;;;\xff=\xff; sid=\xf0\x9f; =").expect("it may"));
    let target = format!("/a?{}&key={long}", "a=1&".repeat(50_000));
    let facts = HttpRequestFacts { target: target.as_bytes(), method: &long, ..facts(&headers) };
    let keys = [
        Action::new("long", header("x-long")),
        Action::new("odd", header("x-odd")),
        Action::new("sid", Fact::Cookie("sid".to_owned())),
        Action::new("key", Fact::Query("key".to_owned())),
        Action::new("method", Fact::Method),
        Action::new("target", Fact::Target),
    ];
    let mapping = mapping(keys.into_iter().map(|action| vec![action]).collect());
    let values = mapped(&mapping, &facts);
    assert_eq!(values.len(), 6);
    assert!(values.iter().all(|value| value.len() <= "target=".len() + VALUE_MAX));
    assert_eq!(values[1], "odd=a\u{fffd}b\u{fffd}");
    assert_eq!(values[2], "sid=\u{fffd}");
    assert!(values[0].starts_with("long=xxx") && values[0].contains('~'));
}

#[test]
fn a_mapping_that_makes_no_sense_is_refused() {
    let text = || vec![Action::new("g", Fact::Text("x".to_owned()))];
    let refused = |domain: &str, descriptors| Mapping::new(domain, descriptors).expect_err("it is wrong");
    assert_eq!(refused("", vec![text()]), Error::Empty { what: "the domain" });
    assert_eq!(refused("shop", vec![text(), vec![]]), Error::Empty { what: "a list of actions" });
    let nameless = vec![Action::new("", Fact::Method)];
    assert_eq!(refused("shop", vec![nameless]), Error::Empty { what: "a descriptor_key" });
    let many = (0..65).map(|_| text()).collect();
    assert_eq!(refused("shop", many).to_string(), "there are 65 descriptors; write at most 64");
    assert!(Fact::header("x api").is_err());
}
