//! What the tower layer adds to a service: `cargo bench -p tollgate-bench --bench tower`.
//!
//! `bare` is a service that answers at once; the others are the same behind the layer, with one user
//! or a million. The difference is what limiting costs, headers and all.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on should stop")]

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use divan::{Bencher, black_box};
use http::{HeaderValue, Request, Response};
use http_body_util::{Empty, Full};
use tollgate_bench::{TOKEN_BUCKET, keys, one_rule};
use tollgate_http::{
    Action, ChargeTerms, Fact, Mapping, MappingDescriptor, RateLimitFields, ResponseCost, ResponseSettings,
    StatusSet,
};
use tollgate_limiter::Limiter;
use tollgate_tower::TollgateLayer;
use tower::{Layer as _, Service, service_fn};

fn main() {
    divan::main();
}

const HOT: usize = 1;
const MILLION: usize = 1_000_000;

async fn answer(_: Request<Empty<Bytes>>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("ok")))
}

fn layer(terms: ChargeTerms) -> TollgateLayer {
    let user = Action::new("user_id", Fact::header("x-user").unwrap());
    let mapping = Mapping::new("shop", vec![MappingDescriptor::new(vec![user], terms)]).unwrap();
    TollgateLayer::new(Arc::new(Limiter::new(one_rule(TOKEN_BUCKET))), mapping)
}

/// Calls a service as so many users, in an order that no cache foresees.
fn call<S>(bencher: Bencher<'_, '_>, count: usize, mut service: S)
where
    S: Service<Request<Empty<Bytes>>, Error = Infallible>,
{
    let users: Vec<HeaderValue> = keys(count).iter().map(|key| key.parse().unwrap()).collect();
    let mut at = 0;
    let mut once = || {
        at = (at + 618_033) % users.len();
        let mut request = Request::new(Empty::new());
        request.headers_mut().insert("x-user", users.get(at).unwrap().clone());
        match pin!(service.call(request)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answered) => answered.unwrap(),
            Poll::Pending => unreachable!("nothing here waits"),
        }
    };
    for _ in 0..count {
        once();
    }
    bencher.bench_local(|| drop(black_box(once())));
}

#[divan::bench(args = [HOT, MILLION], sample_count = 50, sample_size = 20_000)]
fn bare(bencher: Bencher<'_, '_>, count: usize) {
    call(bencher, count, service_fn(answer));
}

#[divan::bench(args = [HOT, MILLION], sample_count = 50, sample_size = 20_000)]
fn limited(bencher: Bencher<'_, '_>, count: usize) {
    call(bencher, count, layer(ChargeTerms::AtOnce).layer(service_fn(answer)));
}

#[divan::bench(args = [HOT, MILLION], sample_count = 50, sample_size = 20_000)]
fn limited_without_ratelimit_fields(bencher: Bencher<'_, '_>, count: usize) {
    let responses =
        ResponseSettings { ratelimit_fields: RateLimitFields::Off, ..ResponseSettings::default() };
    call(bencher, count, layer(ChargeTerms::AtOnce).with_responses(responses).layer(service_fn(answer)));
}

#[divan::bench(args = [HOT, MILLION], sample_count = 50, sample_size = 20_000)]
fn charged_by_the_response(bencher: Bencher<'_, '_>, count: usize) {
    let terms = ChargeTerms::OnResponse {
        status: Some(StatusSet::parse(&["2xx"]).unwrap()),
        cost: ResponseCost::One,
    };
    call(bencher, count, layer(terms).layer(service_fn(answer)));
}
