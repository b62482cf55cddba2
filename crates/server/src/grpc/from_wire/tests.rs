//! What becomes of Envoy's request, field by field.

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry as WireEntry;
use envoy_types::pb::google::protobuf::UInt64Value;

use super::*;

fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entries = entries.iter().map(|(key, value)| WireEntry { key: (*key).into(), value: (*value).into() });
    RateLimitDescriptor { entries: entries.collect(), ..RateLimitDescriptor::default() }
}

fn request(descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest { domain: "shop".into(), descriptors, hits_addend: 0 }
}

fn with_request<R>(
    wire: &RateLimitRequest,
    count_rejected: bool,
    look: impl FnOnce(&Request<'_>) -> R,
) -> Result<R, BadRequest> {
    let asked = RlsRequest::new(wire.clone(), count_rejected)?;
    let entries = asked.entries();
    let descriptors = asked.descriptors(&entries);
    Ok(look(&asked.request(&descriptors)))
}

fn refused(wire: &RateLimitRequest) -> BadRequest {
    with_request(wire, true, |_| ()).expect_err("it is refused")
}

#[test]
fn entries_stay_with_their_descriptor_and_in_their_order() {
    let wire =
        request(vec![descriptor(&[("a", "1"), ("b", "2")]), descriptor(&[]), descriptor(&[("c", "3")])]);
    let seen = with_request(&wire, true, |request| {
        let text = |entries: &[Entry<'_>]| {
            entries.iter().map(|entry| format!("{}={}", entry.key, entry.value)).collect::<Vec<_>>().join(",")
        };
        request.descriptors.iter().map(|descriptor| text(descriptor.entries)).collect::<Vec<_>>()
    });
    assert_eq!(seen.unwrap(), ["a=1,b=2", "", "c=3"]);
}

#[test]
fn hits_of_a_descriptor_win_and_none_at_all_means_one() {
    let peek =
        RateLimitDescriptor { hits_addend: Some(UInt64Value { value: 0 }), ..descriptor(&[("a", "1")]) };
    let refund = RateLimitDescriptor { is_negative_hits: true, ..descriptor(&[("a", "1")]) };
    for (hits_addend, cost) in [(0, 1), (1, 1), (7, 7), (u32::MAX, u64::from(u32::MAX))] {
        let wire = RateLimitRequest { hits_addend, ..request(vec![peek.clone(), refund.clone()]) };
        with_request(&wire, true, |request| {
            assert_eq!(request.cost, cost);
            assert_eq!(request.descriptors[0].cost, Some(0));
            assert_eq!(
                (request.descriptors[1].cost, request.descriptors[1].operation),
                (None, Some(Operation::Refund))
            );
        })
        .unwrap();
    }
}

#[test]
fn every_unit_that_is_one_is_taken_and_no_other() {
    let with_unit = |unit| {
        let limit = Some(RateLimitOverride { requests_per_unit: 3, unit });
        request(vec![descriptor(&[]), RateLimitDescriptor { limit, ..descriptor(&[("a", "1")]) }])
    };
    let units = [
        (1, Unit::Second),
        (2, Unit::Minute),
        (3, Unit::Hour),
        (4, Unit::Day),
        (5, Unit::Month),
        (6, Unit::Year),
        (7, Unit::Week),
    ];
    for (number, unit) in units {
        with_request(&with_unit(number), true, |request| {
            let brought = request.descriptors[1].limit.expect("there is a limit");
            assert_eq!((brought.unit, brought.limit.count()), (unit, 3));
            assert_eq!(brought.limit.window(), unit.length());
            assert!(brought.limit.counts_rejected());
        })
        .unwrap();
    }
    for number in [0, 8, -1, i32::MAX] {
        assert_eq!(refused(&with_unit(number)), BadRequest::Unit { descriptor: 1, unit: number });
    }
    let text = refused(&with_unit(0)).to_string();
    assert!(text.contains("descriptor 1") && text.contains("3 (HOUR)"), "{text}");
}

#[test]
fn what_is_too_much_is_named_with_its_place_and_its_bound() {
    let long = "x".repeat(VALUE_MAX + 1);
    let many: Vec<(&str, &str)> = vec![("a", "1"); ENTRIES_MAX + 1];
    assert_eq!(
        refused(&request(vec![RateLimitDescriptor::default(); DESCRIPTORS_MAX + 1])),
        BadRequest::Descriptors { found: DESCRIPTORS_MAX + 1 }
    );
    assert_eq!(
        refused(&request(vec![descriptor(&[]), descriptor(&many)])),
        BadRequest::Entries { descriptor: 1, found: ENTRIES_MAX + 1 }
    );
    assert_eq!(
        refused(&request(vec![descriptor(&[("a", "1"), ("a", &long)])])),
        BadRequest::Value { descriptor: 0, entry: 1, bytes: VALUE_MAX + 1 }
    );
    assert_eq!(
        refused(&request(vec![descriptor(&[(&long, "")])])),
        BadRequest::Key { descriptor: 0, entry: 0, bytes: VALUE_MAX + 1 }
    );
    let wire = RateLimitRequest { domain: long, ..request(vec![]) };
    assert_eq!(refused(&wire), BadRequest::Domain { bytes: VALUE_MAX + 1 });
}

#[test]
fn the_bounds_themselves_are_allowed() {
    let (key, value) = ("k".repeat(KEY_MAX), "v".repeat(VALUE_MAX));
    let full = descriptor(&[("a", "1"); ENTRIES_MAX]);
    let mut wire = request(vec![full; DESCRIPTORS_MAX]);
    wire.domain.clone_from(&key);
    wire.descriptors[0] = descriptor(&[(&key, &value)]);
    let count = with_request(&wire, true, |request| request.descriptors.len());
    assert_eq!(count.unwrap(), DESCRIPTORS_MAX);
}
