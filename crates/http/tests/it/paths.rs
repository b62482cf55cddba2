//! One spelling for each path, over made-up paths.

use proptest::prelude::*;
use tollgate_http::PathTemplates;
use tollgate_http::request::path::{EscapedSlashes, PathSpelling};

fn spelled(path: &[u8]) -> String {
    PathSpelling::default().spell(path).into_owned()
}

fn any_spelling() -> impl Strategy<Value = PathSpelling> {
    let slashes =
        prop_oneof![Just(EscapedSlashes::Slash), Just(EscapedSlashes::Keep), Just(EscapedSlashes::Deny)];
    (slashes, any::<bool>(), any::<bool>()).prop_map(|(escaped_slashes, cut_parameters, ignore_case)| {
        PathSpelling { escaped_slashes, cut_parameters, ignore_case }
    })
}

fn any_path() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        Just(b"/".to_vec()),
        Just(b"//".to_vec()),
        Just(b"/.".to_vec()),
        Just(b"/..".to_vec()),
        Just(b"%2e".to_vec()),
        Just(b"%2F".to_vec()),
        Just(b"\\".to_vec()),
        Just(b";a=B".to_vec()),
        Just(b"%3b".to_vec()),
        Just(b"%".to_vec()),
        "[a-z0-9%{}]{1,4}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| {
        let mut path = b"/".to_vec();
        path.extend(parts.concat());
        path
    })
}

/// A segment as somebody else might spell it.
fn respelled(segment: &str, choice: u64) -> String {
    let escape = |(index, byte): (usize, u8)| match choice >> (index % 64) & 3 {
        0 => format!("%{byte:02x}"),
        1 => format!("%{byte:02X}"),
        _ => char::from(byte).to_string(),
    };
    segment.bytes().enumerate().map(escape).collect()
}

proptest! {
    #[test]
    fn a_spelling_is_final(path in any_path(), spelling in any_spelling()) {
        let once = spelling.spell(&path).into_owned();
        prop_assert_eq!(spelling.spell(once.as_bytes()), once.as_str());
        prop_assert!(once.starts_with('/'), "{}", once);
        prop_assert!(!once.contains("//"), "{}", once);
        prop_assert!(once.split('/').all(|segment| segment != "." && segment != ".."), "{}", once);
        prop_assert!(once.bytes().all(|byte| byte.is_ascii_graphic() && !b"{}".contains(&byte)), "{}", once);
    }

    #[test]
    fn escapes_slashes_and_dots_make_no_difference(
        segments in prop::collection::vec("[a-z0-9_~.@!;:=-]{1,6}", 1..5),
        choices in prop::collection::vec(any::<u64>(), 5),
    ) {
        prop_assume!(segments.iter().all(|segment| segment != "." && segment != ".."));
        let plain = format!("/{}", segments.join("/"));
        let odd: String = segments.iter().zip(&choices).map(|(segment, choice)| {
            let way = ["/", "//", "/./", "/x/../", "/%2e/", "%2f", "\\"][usize::try_from(choice % 7).expect("it is small")];
            format!("{way}{}", respelled(segment, *choice))
        }).collect();
        prop_assert_eq!(spelled(odd.as_bytes()), plain);
    }

    #[test]
    fn different_paths_stay_different(
        one in prop::collection::vec("[a-z0-9]{1,4}", 1..5),
        two in prop::collection::vec("[a-z0-9]{1,4}", 1..5),
    ) {
        let path = |segments: &[String]| format!("/{}", segments.join("/"));
        let same = spelled(path(&one).as_bytes()) == spelled(path(&two).as_bytes());
        prop_assert_eq!(same, one == two);
    }

    #[test]
    fn a_value_is_short_whatever_the_path(path in any_path(), max in 1_usize..300) {
        let paths = PathTemplates::new(&["/a/{b}"]).expect("it is a template").with_length_max(max);
        let value = paths.value(&path);
        prop_assert!(value.len() <= max.min(256) || value == "/a/{b}", "{}", value);
    }
}
