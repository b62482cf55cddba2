//! Keys: readable, injective, and in the slots that a cluster has them in.

use std::collections::HashMap;

use super::*;
use tollgate_core::{Limit, Micros, Refill, Shape};

fn key<'a>(domain: &'a str, entries: &'a [Entry<'a>], limit: &'a Limit, ordinal: u32) -> Key<'a> {
    Key { domain, entries, shared: &[], limit, ordinal }
}

fn limit(us: u64, shape: Shape) -> Limit {
    Limit::new(10, Micros::new(us), shape).unwrap()
}

#[test]
fn names_can_be_read() {
    let entries = [Entry { key: "org", value: "a|b" }, Entry { key: "user", value: "{42} %" }];
    let minute = limit(60_000_000, Shape::SlidingBuckets { buckets: 60 });
    assert_eq!(
        name("", &key("shop", &entries, &minute, 0)),
        "t1:{shop|org|a%7Cb}|user|%7B42%7D%20%25|sb60s.60"
    );
    let odd = limit(1_500, Shape::TokenBucket { burst: 1, refill: Refill::Interval });
    assert_eq!(name("pre:", &key("shop", &[], &odd, 2)), "pre:t1:{shop}|ti1500us#2");
}

#[test]
fn slots_are_those_of_a_cluster() {
    // As CLUSTER KEYSLOT of Redis 7.0 says.
    for (name, expected) in [("123456789", 12739), ("foo{bar}baz", 5061), ("foo{}bar", 14292), ("a", 15495)] {
        assert_eq!(slot(name), expected, "{name}");
    }
}

/// All names over a small alphabet of the letters that could go wrong.
#[test]
fn no_two_counters_share_a_name() {
    let texts = ["", "a", "|", "%", "%7C", "{", "}", "a|a", "fw1s", "é", "\n"];
    let limits = [
        limit(1_000_000, Shape::FixedWindow),
        limit(1_000_001, Shape::FixedWindow),
        limit(1, Shape::FixedWindow),
        limit(1_000_000, Shape::SlidingBuckets { buckets: 1 }),
        limit(1_000_000, Shape::TokenBucket { burst: 1, refill: Refill::Smooth }),
        limit(1_000_000, Shape::TokenBucket { burst: 1, refill: Refill::Interval }),
    ];
    let mut seen: HashMap<String, Vec<u8>> = HashMap::new();
    let mut add = |domain: &str, entries: &[Entry<'_>]| {
        for (limit, ordinal) in limits.iter().flat_map(|limit| [(limit, 0), (limit, 1)]) {
            let key = key(domain, entries, limit, ordinal);
            let mut meaning = Vec::new();
            key.write(|bytes| meaning.extend_from_slice(bytes));
            let name = name("", &key);
            let before = seen.insert(name.clone(), meaning.clone());
            assert!(before.is_none_or(|before| before == meaning), "{name} is two counters");
        }
    };
    for domain in texts {
        add(domain, &[]);
        for a in texts {
            for b in texts {
                let first = Entry { key: a, value: b };
                add(domain, &[first]);
                add(domain, &[first, Entry { key: b, value: a }]);
            }
        }
    }
    assert!(seen.len() > 20_000, "{}", seen.len());
}
