//! What is read, and what is said about what cannot be.

use futures_util::FutureExt as _;
use proptest::prelude::*;

use super::*;
use crate::bounds::{DESCRIPTORS_MAX, ENTRIES_MAX};

/// The descriptors of a request as `key=value,key=value@cost`.
fn read(text: &str) -> Vec<String> {
    shown(&request(text.as_bytes()).unwrap())
}

fn shown(asked: &V1Request<'_>) -> Vec<String> {
    let entries = asked.entries();
    let descriptors = asked.descriptors(&entries, false);
    let request = asked.request(&descriptors);
    let descriptor = |descriptor: &Descriptor<'_>| {
        let entries: Vec<String> =
            descriptor.entries.iter().map(|entry| format!("{}={}", entry.key, entry.value)).collect();
        format!("{}@{}", entries.join(","), descriptor.cost.unwrap_or(request.cost))
    };
    request.descriptors.iter().map(descriptor).collect()
}

/// Where a mistake is, and what is said about it.
fn refused(text: &str) -> (String, String, String) {
    let bytes = text.as_bytes();
    let error = if is_batch(bytes) { batch(bytes).unwrap_err() } else { request(bytes).unwrap_err() };
    match error {
        V1Error::Field { pointer, detail, fix } => (pointer, detail, fix),
        V1Error::Body(_)
        | V1Error::MediaType
        | V1Error::Service(_)
        | V1Error::NoSuchPath { .. }
        | V1Error::NoAnswer { .. }
        | V1Error::Method { .. } => panic!("it is about no field"),
    }
}

#[test]
fn entries_keep_their_order_in_either_form() {
    assert_eq!(read(r#"{"domain":"d","descriptors":[{"z":"1","a":"2","m":"3"}]}"#), ["z=1,a=2,m=3@1"]);
    let list = r#"{"cost":3,"descriptors":[{"cost":0,"entries":[{"key":"b","value":"1"},{"value":"2","key":"b"}]},{"k":"v"}],"domain":"d"}"#;
    assert_eq!(read(list), ["b=1,b=2@0", "k=v@3"]);
}

#[test]
fn whole_numbers_and_truth_values_stand_for_their_text() {
    let text = r#"{"domain":"d","descriptors":[{"a":42,"b":-7,"c":true,"d":18446744073709551615}]}"#;
    assert_eq!(read(text), ["a=42,b=-7,c=true,d=18446744073709551615@1"]);
    assert_eq!(
        read(r#"{"domain":"d","descriptors":[{"entries":[{"key":"a","value":5},{"key":"b"}]}]}"#),
        ["a=5,b=@1"]
    );
}

#[test]
fn a_whole_number_is_one_however_it_is_written() {
    let text = r#"{"domain":"d","descriptors":[{"a":42.0,"b":-7.0,"c":1e3}],"cost":2.0}"#;
    assert_eq!(read(text), ["a=42,b=-7,c=1000@2"]);
    for wrong in ["1.5", "1e300", "9007199254740993.0e1"] {
        assert_eq!(
            refused(&format!(r#"{{"domain":"d","descriptors":[{{"a":{wrong}}}]}}"#)).0,
            "/descriptors/0/a"
        );
    }
    assert_eq!(refused(r#"{"domain":"d","descriptors":[{"a":"b"}],"cost":-1.0}"#).0, "/cost");
}

#[test]
fn keys_may_be_called_as_the_members_of_the_long_form_are() {
    assert_eq!(read(r#"{"domain":"d","descriptors":[{"entries":"x","cost":"5"}]}"#), ["entries=x,cost=5@1"]);
    assert_eq!(read("{\"domain\":\"d\",\"descriptors\":[{\"a\\n\":\"\\u00fc\"}]}"), ["a\n=ü@1"]);
    assert_eq!(read(r#"{"domain":"d","descriptors":[{}]}"#), ["@1"]);
}

#[test]
fn a_batch_is_a_list_of_requests() {
    let text =
        r#" [{"domain":"d","descriptors":[{"a":"1"}]},{"domain":"e","descriptors":[{"b":"2"}],"cost":9}]"#;
    let batch = batch(text.as_bytes()).unwrap();
    assert_eq!(batch.iter().flat_map(shown).collect::<Vec<_>>(), ["a=1@1", "b=2@9"]);
    assert!(super::batch(b"[]").unwrap().is_empty());
}

#[test]
fn a_mistake_is_named_by_its_place() {
    let cases = [
        ("", "", "the body is empty"),
        (" \n", "", "the body is empty"),
        ("{} {}", "", "the body is not JSON: trailing characters at line 1 column 4"),
        (
            r#""text""#,
            "",
            "invalid type: string \"text\", expected a request, an object with domain and descriptors",
        ),
        (
            r#"{"domain":"d","descriptors":[{"a":"b"}],"cots":1}"#,
            "/cots",
            "unknown field `cots`, expected one of `domain`, `descriptors`, `cost`",
        ),
        (r#"{"domain":"d","domain":"d"}"#, "", "duplicate field `domain`"),
    ];
    for (text, pointer, detail) in cases {
        let (at, what, fix) = refused(text);
        assert_eq!((at.as_str(), what.as_str()), (pointer, detail), "{text}");
        assert!(fix.starts_with("send "), "{text}: {fix}");
    }
}

#[test]
fn what_is_too_many_or_too_long_is_refused_where_it_stands() {
    let many = |count: usize, one: &str| vec![one; count].join(",");
    let descriptors = |text: &str| format!(r#"{{"domain":"d","descriptors":[{text}]}}"#);
    let (pointer, detail, _) = refused(&descriptors(&many(DESCRIPTORS_MAX + 1, "{}")));
    assert_eq!(
        (pointer.as_str(), detail.as_str()),
        ("/descriptors", "invalid length 1001, expected an array of at most 1000")
    );
    let entries: Vec<String> = (0..=ENTRIES_MAX).map(|index| format!(r#""k{index}":"v""#)).collect();
    let (pointer, detail, _) = refused(&descriptors(&format!("{{{}}}", entries.join(","))));
    assert_eq!(
        (pointer.as_str(), detail.as_str()),
        ("/descriptors/0", "invalid length 65, expected at most 64 entries")
    );
    let list = many(ENTRIES_MAX + 1, r#"{"key":"k"}"#);
    assert_eq!(refused(&descriptors(&format!(r#"{{"entries":[{list}]}}"#))).0, "/descriptors/0/entries");
    let batch = many(BATCH_MAX + 1, &descriptors("{}"));
    assert_eq!(refused(&format!("[{batch}]")).1, "invalid length 1001, expected an array of at most 1000");
    let wide = many(5, &descriptors(&many(DESCRIPTORS_MAX, "{}")));
    assert_eq!(refused(&format!("[{wide}]")).2, "send at most 4000 in a batch");
    let long = "x".repeat(KEY_MAX + 1);
    assert_eq!(
        refused(&descriptors(&format!(r#"{{"{long}":"v"}}"#))),
        ("/descriptors/0".into(), "the key is too long".into(), "send at most 4096 bytes".into())
    );
    let long = "x".repeat(VALUE_MAX + 1);
    assert_eq!(refused(&descriptors(&format!(r#"{{"k":"{long}"}}"#))).0, "/descriptors/0/k");
}

/// Whether a batch is sound when it is read in turns, and how often others had theirs.
fn is_sound_in_turns(bytes: &[u8]) -> (bool, usize) {
    let mut turn = Turn::default();
    let mut reading = Box::pin(is_sound(bytes, &mut turn));
    let mut turns = 0;
    loop {
        match reading.as_mut().now_or_never() {
            Some(is_sound) => return (is_sound, turns),
            None => turns += 1,
        }
    }
}

/// A megabyte of JSON held up all others of its worker for milliseconds.
#[test]
fn others_have_their_turn_while_a_large_batch_is_read() {
    let request = format!(r#"{{"domain":"d","descriptors":[{{"k":"{}"}}]}}"#, "x".repeat(1_000));
    let body = format!("[{}]", vec![request; 900].join(","));
    let (is_sound, turns) = is_sound_in_turns(body.as_bytes());
    assert!(is_sound && turns > 50, "{turns}");
}

proptest! {
    /// Whole or damaged, with blanks or without.
    #[test]
    fn a_batch_that_is_read_one_by_one_is_the_same(
        requests in prop::collection::vec(prop::sample::select(vec![
            r#"{"domain":"d","descriptors":[{"k":"v"}]}"#,
            r#" {"domain":"d", "descriptors":[{"k":"]},["},{"a":"1","b":"2"}], "cost":2}"#,
            "\n{\"domain\":\"d\",\"descriptors\":[{\"entries\":[{\"key\":\"k\",\"value\":\"\\\"\"}]}]}\t",
            r#"{"domain":"","descriptors":[{"k":"v"}]}"#,
            r#"{"domain":"d","descriptors":[]}"#,
            "7",
        ]), 0..4),
        damage in prop::option::of((any::<prop::sample::Index>(), prop::sample::select(b"[]{},:\" x\x0c".to_vec()))),
        blanks in prop::sample::select(vec!["", " ", "\n\t", "\x0c"]),
    ) {
        let mut body = format!("{blanks}[{}]{blanks}", requests.join(",")).into_bytes();
        if let Some((at, byte)) = damage {
            let at = at.index(body.len());
            body[at] = byte;
        }
        prop_assume!(is_batch(&body));
        let whole = batch(&body);
        prop_assert_eq!(is_sound_in_turns(&body).0, whole.is_ok(), "{}", String::from_utf8_lossy(&body));
        if let Ok(whole) = whole {
            let one_by_one: Option<Vec<Vec<String>>> =
                BatchReader::new(&body).map(|request| Some(shown(&request?))).collect();
            prop_assert_eq!(one_by_one, Some(whole.iter().map(shown).collect()));
        }
    }
}
