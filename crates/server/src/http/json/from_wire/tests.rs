//! Bodies that are known, those that Go's `protojson` was asked about, and random
//! ones beside `prost-reflect`, which reads any message by its description.

use proptest::prelude::*;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use serde_json::{Map, Value, json};

use super::*;

fn refused(text: &str) -> String {
    match request(text.as_bytes()) {
        Err(JsonError::Json(message)) => message,
        other => panic!("{text} is not refused: {other:?}"),
    }
}

#[test]
fn both_spellings_and_both_kinds_of_numbers_mean_the_same() {
    let camel = r#"{"domain":"d","descriptors":[{"entries":[{"key":"a","value":"1"}],
        "limit":{"requestsPerUnit":5,"unit":"HOUR"},"hitsAddend":"0","isNegativeHits":true}],"hitsAddend":7}"#;
    let snake = r#"{"domain":"d","descriptors":[{"entries":[{"key":"a","value":"1"}],
        "limit":{"requests_per_unit":"5","unit":3},"hits_addend":0,"is_negative_hits":true}],"hits_addend":"7"}"#;
    let wire = request(camel.as_bytes()).unwrap();
    assert_eq!(wire, request(snake.as_bytes()).unwrap());
    assert_eq!((wire.hits_addend, wire.descriptors[0].hits_addend), (7, Some(UInt64Value { value: 0 })));
}

#[test]
fn null_and_nothing_are_the_same() {
    let nulls = r#"{"domain":null,"descriptors":null,"hitsAddend":null}"#;
    assert_eq!(request(nulls.as_bytes()).unwrap(), RateLimitRequest::default());
    let nulls = r#"{"descriptors":[{"entries":[{"key":null}],"limit":null,"hitsAddend":null,"isNegativeHits":null}]}"#;
    let wire = request(nulls.as_bytes()).unwrap();
    assert_eq!(
        wire.descriptors[0],
        RateLimitDescriptor { entries: vec![WireEntry::default()], ..RateLimitDescriptor::default() }
    );
}

#[test]
fn what_is_not_known_or_wrong_is_named() {
    assert!(refused(r#"{"domian":"d"}"#).contains("`domian`"));
    assert!(refused(r#"{"descriptors":[{"entires":[]}]}"#).contains("`entires`"));
    assert!(refused(r#"{"descriptors":[{"entries":[{"name":"a"}]}]}"#).contains("`name`"));
    assert!(refused(r#"{"descriptors":[{"limit":{"unit":"FORTNIGHT"}}]}"#).contains("`FORTNIGHT`"));
    assert!(refused(r#"{"hitsAddend":-1}"#).contains("-1"));
    assert!(refused(r#"{"hitsAddend":4294967296}"#).contains("4294967296"));
    assert!(refused(r#"{"hitsAddend":1,"hits_addend":1}"#).contains("duplicate"));
    assert!(refused("{").contains("EOF"));
    for list in ["[]", r#"{"descriptors":[[]]}"#, r#"{"descriptors":[{"limit":[5,"HOUR"]}]}"#] {
        assert!(refused(list).contains("expected an object"), "{list}");
    }
}

/// What Go's `protojson` says, which envoyproxy/ratelimit reads its bodies with.
const PROTOJSON: &str = include_str!("protojson.txt");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_body_means_what_it_means_to_protojson() {
    let rows = PROTOJSON.lines().filter(|line| !line.starts_with("# "));
    let mut count = 0;
    for (body, there) in rows.map(|line| line.split_once('\t').expect("two columns")) {
        let here = request(body.as_bytes()).map(|message| hex(&message.encode_to_vec()));
        match there {
            "refused" => assert!(here.is_err(), "{body} is taken: {here:?}"),
            "refused here" => assert!(here.unwrap_err().to_string().contains("floating point"), "{body}"),
            there => assert_eq!(here.ok().as_deref(), Some(there.trim_start_matches("empty")), "{body}"),
        }
        count += 1;
    }
    assert!(count > 70, "{count}");
}

/// Envoy's rate limit service and every message it takes.
const RATE_LIMIT_SERVICE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rls.binpb"));

fn description() -> MessageDescriptor {
    let pool = DescriptorPool::decode(RATE_LIMIT_SERVICE).expect("it is a set of descriptions");
    pool.get_message_by_name("envoy.service.ratelimit.v3.RateLimitRequest").expect("it has the request")
}

/// The bytes of the message; none if it is refused.
fn read_there(description: &MessageDescriptor, text: &str) -> Option<Vec<u8>> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let message = DynamicMessage::deserialize(description.clone(), &mut reader).ok()?;
    reader.end().ok()?;
    Some(message.encode_to_vec())
}

/// A value of any field, right for some and wrong for others. Texts with a point, a sign or a
/// leading zero are left out: `prost-reflect` reads them otherwise than `protojson`, as it
/// does units with a point.
fn scalar() -> impl Strategy<Value = Value> {
    let numbers = [0, 1, 7, u64::from(u32::MAX), 1 << 32, u64::MAX];
    let texts = ["SECOND", "YEAR", "FORTNIGHT", "", " 1", "-1", "a", "1.5"];
    let odd =
        [json!(-1), json!(1.5), json!(1e30), Value::Null, json!([]), json!({}), json!(true), json!(false)];
    prop_oneof![
        3 => prop::sample::select(numbers.to_vec()).prop_map(|number| json!(number)),
        3 => prop::sample::select(numbers.to_vec()).prop_map(|number| json!(number.to_string())),
        2 => prop::sample::select(texts.to_vec()).prop_map(|text| json!(text)),
        2 => prop::sample::select(odd.to_vec()),
    ]
}

/// A number of hits: also one with a point.
fn hits() -> impl Strategy<Value = Value> {
    prop_oneof![4 => scalar(), 1 => prop::sample::select(vec![json!(0.0), json!(1.0), json!(4e9), json!(5e9)])]
}

/// An object with some of these names, each perhaps with a value that is not its own. A name
/// comes once, in one spelling: `prost-reflect` takes the last of several.
fn object(names: &'static [&'static str], own: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let value = prop_oneof![8 => own, 2 => scalar().boxed()];
    let name = prop_oneof![19 => prop::sample::select(names), 1 => Just("unknown")];
    let spelling = |name: &str| name.replace('_', "").to_lowercase();
    prop::collection::vec((name, value), 0..3)
        .prop_map(move |fields| {
            let mut object = Map::new();
            for (name, value) in fields {
                if !object.keys().any(|own| spelling(own) == spelling(name)) {
                    object.insert(name.to_owned(), value);
                }
            }
            Value::Object(object)
        })
        .boxed()
}

fn list(item: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    prop::collection::vec(item, 0..3).prop_map(Value::Array).boxed()
}

fn body() -> impl Strategy<Value = String> {
    let text = prop::sample::select(vec![json!("a"), json!("ü"), json!("")]).boxed();
    let entry = object(&["key", "value"], text.clone());
    let limit = prop_oneof![
        object(&["requestsPerUnit", "requests_per_unit"], hits().boxed()),
        object(&["requestsPerUnit", "requests_per_unit", "unit"], scalar().boxed()),
    ];
    let descriptor = prop_oneof![
        4 => object(&["entries"], list(entry)),
        2 => object(&["limit"], limit.boxed()),
        2 => object(&["hitsAddend", "hits_addend", "isNegativeHits", "is_negative_hits"], hits().boxed()),
    ];
    let request = prop_oneof![
        2 => object(&["domain"], text),
        6 => object(&["descriptors"], list(descriptor.boxed())),
        2 => object(&["hitsAddend", "hits_addend"], hits().boxed()),
    ];
    request.prop_map(|value| value.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn a_random_body_means_the_same_here_and_to_prost_reflect(body in body()) {
        let here = request(body.as_bytes()).ok().map(|message| message.encode_to_vec());
        prop_assert_eq!(here, read_there(&description(), &body), "{}", body);
    }
}
