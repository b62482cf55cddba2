//! What a request becomes.

use http::{HeaderMap, HeaderValue};
use tollgate_core::Time;
use tollgate_http::request::value::VALUE_MAX;
use tollgate_http::{
    Action, AddressPrefixes, ClientAddress, Error, EscapedSlashes, Fact, HttpRequestFacts, Mapping,
    MappingDenial, MissingValue, PathSpelling, PathTemplates, TokenSource,
};

const NOW: Time = Time::from_secs(1_700_000_000);

/// A request that only its headers say anything about.
pub(crate) fn bare_facts(headers: &HeaderMap) -> HttpRequestFacts<'_> {
    HttpRequestFacts { peer: None, target: b"/", host: None, ..facts(headers) }
}

fn facts(headers: &HeaderMap) -> HttpRequestFacts<'_> {
    HttpRequestFacts {
        peer: "203.0.113.9".parse().ok(),
        peer_name: None,
        method: "GET",
        target: b"/users/42?key=q%201",
        host: Some("shop.example"),
        headers: headers.into(),
    }
}

fn mapping(descriptors: Vec<Vec<Action>>) -> Mapping {
    Mapping::new("shop", descriptors).expect("the mapping is right")
}

/// The descriptors as `key=value,key=value`.
fn mapped(mapping: &Mapping, facts: &HttpRequestFacts<'_>) -> Vec<String> {
    mapping.map(facts, NOW).expect("it is not denied").with_request(|request| {
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
        ("host", header("Host"), "shop.example"),
        ("authority", header(":authority"), "shop.example"),
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
        let lenient =
            mapping(vec![vec![text("with"), Action::new("absent", fact).or(MissingValue::Skip), text("it")]]);
        assert_eq!(mapped(&lenient, &facts(&headers)), ["g=with,g=it"]);
    }
    let nobody = HttpRequestFacts { peer: None, host: None, ..facts(&headers) };
    let of_nobody = mapping(vec![
        vec![Action::new("a", Fact::RemoteAddress(AddressPrefixes::default()))],
        vec![Action::new("h", Fact::Host).or(MissingValue::Skip)],
    ]);
    assert!(of_nobody.map(&nobody, NOW).is_ok_and(|mapped| mapped.is_empty()));
    assert_eq!(mapped(&of_nobody, &nobody), [""; 0]);
}

/// Whoever leaves a value out must not be free of limits by it.
#[test]
fn an_absent_value_can_be_a_key_or_a_denial() {
    let claim =
        || Fact::Claim { path: vec!["org".to_owned(), "id".to_owned()], source: TokenSource::default() };
    let absent = [
        (header("x-api-key"), "the header x-api-key is missing"),
        (Fact::Query("none".to_owned()), "the query parameter none is missing"),
        (Fact::Cookie("sid".to_owned()), "the cookie sid is missing"),
        (claim(), "there is no valid token with the claim org.id"),
    ];
    let headers = HeaderMap::new();
    let text = || Action::new("g", Fact::Text("x".to_owned()));
    for (fact, what) in absent {
        let shared = mapping(vec![vec![Action::new("k", fact.clone()).or(MissingValue::Key), text()]]);
        assert_eq!(mapped(&shared, &facts(&headers)), ["k=(missing),g=x"]);
        // What is demanded is demanded where something else drops the descriptor, too.
        let dropped = Action::new("d", Fact::Cookie("none".to_owned()));
        let strict =
            mapping(vec![vec![text()], vec![dropped, Action::new("k", fact).or(MissingValue::Deny)]]);
        let denial = MappingDenial::Missing { what: what.to_owned() };
        assert_eq!(strict.map(&facts(&headers), NOW).err(), Some(denial));
    }
    let nobody = HttpRequestFacts { peer: None, host: None, ..facts(&headers) };
    for (fact, what) in [
        (Fact::RemoteAddress(AddressPrefixes::default()), "the client's address is not known"),
        (Fact::Host, "the host is missing"),
    ] {
        let of = |missing| mapping(vec![vec![Action::new("k", fact.clone()).or(missing)]]);
        assert_eq!(mapped(&of(MissingValue::Key), &nobody), ["k=(missing)"]);
        let denial = MappingDenial::Missing { what: what.to_owned() };
        assert_eq!(of(MissingValue::Deny).map(&nobody, NOW).err(), Some(denial));
    }
    let mut headers = HeaderMap::new();
    headers.insert("x-api-key", HeaderValue::from_static("k1"));
    let strict = mapping(vec![vec![Action::new("k", header("x-api-key")).or(MissingValue::Deny)]]);
    assert_eq!(mapped(&strict, &facts(&headers)), ["k=k1"]);
}

#[test]
fn a_path_with_an_escaped_slash_can_be_denied() {
    let spelling = PathSpelling { escaped_slashes: EscapedSlashes::Deny, ..PathSpelling::default() };
    let mapping = mapping(vec![vec![Action::new("path", Fact::Path(PathTemplates::spelled(spelling)))]]);
    let headers = HeaderMap::new();
    let odd = HttpRequestFacts { target: b"/a%2Flogin?b=%2F", ..facts(&headers) };
    assert_eq!(mapping.map(&odd, NOW).err(), Some(MappingDenial::EscapedSlash));
    let fine = HttpRequestFacts { target: b"/login?b=%2F", ..facts(&headers) };
    assert_eq!(mapped(&mapping, &fine), ["path=/login"]);
}

#[test]
fn what_may_be_a_secret_is_hidden_unless_it_is_shown() {
    let shown = Action { show: true, ..Action::new("shown", header("x-plan")) };
    let facts = [header("x-key"), header(":path"), Fact::Query("q".to_owned()), Fact::Cookie("c".to_owned())];
    let mut actions: Vec<Action> = facts.into_iter().map(|fact| Action::new("secret", fact)).collect();
    actions.extend([shown, Action::new("host", Fact::Host), Action::new("method", Fact::Method)]);
    let hidden = mapping(vec![actions]);
    assert_eq!(hidden.hidden_keys().collect::<Vec<_>>(), ["secret"; 4]);
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

#[test]
fn descriptors_that_nobody_wants_are_left_out_but_for_those_that_may_deny() {
    let headers = HeaderMap::new();
    let address = || Action::new("remote_address", Fact::RemoteAddress(AddressPrefixes::default()));
    let path = || Action::new("path", Fact::Path(PathTemplates::default()));
    let absent = |key: &str| Action::new(key, header("x-none"));
    let kept = |descriptors: Vec<Vec<Action>>, wanted: &'static [&'static str]| {
        mapping(descriptors).retain(|key| wanted.contains(&key))
    };
    let both = || vec![vec![address()], vec![path(), address()]];
    assert_eq!(mapped(&kept(both(), &["remote_address"]), &facts(&headers)), ["remote_address=203.0.113.9"]);
    assert_eq!(
        mapped(&kept(both(), &["path"]), &facts(&headers)),
        ["path=/users/42,remote_address=203.0.113.9"],
        "rules begin with the first key"
    );
    assert_eq!(mapped(&kept(both(), &["path", "remote_address"]), &facts(&headers)).len(), 2);
    assert!(mapped(&kept(both(), &["user_id"]), &facts(&headers)).is_empty());
    // One that is left out where it is missing makes way for the next.
    let skipped = vec![vec![absent("api_key").or(MissingValue::Skip), address()]];
    assert_eq!(mapped(&kept(skipped, &["remote_address"]), &facts(&headers)), ["remote_address=203.0.113.9"]);
    let dropped = vec![vec![absent("api_key"), address()]];
    assert!(kept(dropped, &["remote_address"]).facts().next().is_none());
    // What the mapping denies by itself is denied whatever the rules are about.
    let demanded = vec![vec![address(), absent("api_key").or(MissingValue::Deny)]];
    assert!(matches!(kept(demanded, &[]).map(&facts(&headers), NOW), Err(MappingDenial::Missing { .. })));
    let spelling = PathSpelling { escaped_slashes: EscapedSlashes::Deny, ..PathSpelling::default() };
    let strict = vec![vec![Action::new("path", Fact::Path(PathTemplates::spelled(spelling)))]];
    let escaped = HttpRequestFacts { target: b"/a%2Fb", ..facts(&headers) };
    assert!(matches!(kept(strict, &[]).map(&escaped, NOW), Err(MappingDenial::EscapedSlash)));
}
