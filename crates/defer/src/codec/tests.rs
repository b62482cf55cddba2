//! What is written is read back, and nothing else is.

use proptest::prelude::*;

use super::*;

fn text() -> impl Strategy<Value = String> {
    "[a-z0-9/=é]{0,12}"
}

fn headers() -> impl Strategy<Value = HeaderList> {
    prop::collection::vec((text(), prop::collection::vec(any::<u8>(), 0..9)), 0..4)
}

prop_compose! {
    fn check()(domain in text(), route in prop::option::of(text()), cost in any::<u64>(),
               descriptors in prop::collection::vec(
                   (prop::option::of(any::<u64>()), prop::collection::vec((text(), text()), 0..3)), 0..3))
        -> OwnedRequest {
        let descriptors =
            descriptors.into_iter().map(|(cost, entries)| DescriptorText { entries, cost }).collect();
        OwnedRequest { domain, route, cost, descriptors }
    }
}

prop_compose! {
    fn request()(bytes in any::<[u8; 16]>(), times in any::<[u64; 2]>(), texts in [text(), text(), text(), text()],
                 check in check(), host in prop::option::of(text()), headers in headers(),
                 body in prop::collection::vec(any::<u8>(), 0..40)) -> DeferredRequest {
        let [key, rule, method, path] = texts;
        let [accepted, expires] = times.map(Time::new);
        let id = DeferredId::from_bytes(bytes);
        DeferredRequest { id, accepted, expires, key, rule, check, method, host, path, headers, body }
    }
}

prop_compose! {
    fn response()(status in any::<u16>(), headers in headers(), is_cut in any::<bool>(),
                  body in prop::collection::vec(any::<u8>(), 0..40)) -> KeptResponse {
        KeptResponse { status, headers, body, is_cut }
    }
}

fn end() -> impl Strategy<Value = DeferredEnd> {
    prop_oneof![
        response().prop_map(DeferredEnd::Done),
        (text(), prop::option::of(response()))
            .prop_map(|(reason, response)| DeferredEnd::Failed { reason, response }),
        Just(DeferredEnd::Expired),
    ]
}

proptest! {
    #[test]
    fn a_request_is_read_back_and_no_part_of_it_is(request in request(), cut in any::<prop::sample::Index>()) {
        let bytes = request.encode();
        prop_assert_eq!(DeferredRequest::decode(&bytes).unwrap(), request);
        let cut = cut.index(bytes.len());
        prop_assert!(DeferredRequest::decode(&bytes[..cut]).is_err());
    }

    #[test]
    fn a_result_is_read_back_and_no_part_of_it_is(
        end in end(), attempts in any::<u32>(), cut in any::<prop::sample::Index>()
    ) {
        let bytes = end.encode(attempts);
        prop_assert_eq!(DeferredEnd::decode(&bytes).unwrap(), (end, attempts));
        prop_assert!(DeferredEnd::decode(&bytes[..cut.index(bytes.len())]).is_err());
    }

    #[test]
    fn any_bytes_are_an_error_at_most(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(DeferredRequest::decode(&bytes));
        drop(DeferredEnd::decode(&bytes));
    }
}
