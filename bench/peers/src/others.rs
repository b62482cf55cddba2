//! governor, throttlecrab and limitador as the harness sees them, and all libraries in turns.
//!
//! throttlecrab's limiter is `&mut`, so that a lock stands around it, as one actor stands before it in its
//! server. limitador wants a context for each call.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use governor::{DefaultKeyedRateLimiter, Quota};
use limitador::limit::{Context, Namespace};
use throttlecrab::{AdaptiveStore, RateLimiter};
use tollgate_in_process::contestant::{Allowance, Contestant, Keyed, Prepared, Store, Whole};
use tollgate_in_process::harness::{self, Timed};

use crate::bare::BareMemory;

/// Times all libraries, case by case.
pub(crate) fn speed() {
    let all = [
        harness::cases::<Governor>(),
        harness::cases::<Throttlecrab>(),
        harness::cases::<Limitador>(),
        harness::cases::<Keyed>(),
        harness::cases::<Prepared>(),
        harness::cases::<Store>(),
        harness::cases::<Whole>(),
        harness::cases::<BareMemory>(),
    ];
    for at in 0..all[0].len() {
        let timed: Vec<Timed> = all.iter().map(|cases| (cases[at].1)()).collect();
        harness::run(all[0][at].0, timed, &mut |case, name, value| println!("{case}\t{name}\t{value}"));
    }
}

pub(crate) struct Governor(DefaultKeyedRateLimiter<String>);

impl Contestant for Governor {
    const NAME: &'static str = "governor 0.10.4";

    fn new(allowance: Allowance) -> Self {
        let (count, seconds) = allowance.rate();
        let quota = Quota::with_period(Duration::from_secs(seconds) / count).expect("not zero");
        let burst = NonZeroU32::new(allowance.burst()).expect("not zero");
        Self(governor::RateLimiter::keyed(quota.allow_burst(burst)))
    }

    fn check(&self, key: &String) -> bool {
        self.0.check_key(key).is_ok()
    }
}

pub(crate) struct Throttlecrab(Mutex<RateLimiter<AdaptiveStore>>, Allowance);

impl Contestant for Throttlecrab {
    const NAME: &'static str = "throttlecrab 0.4.40";

    fn new(allowance: Allowance) -> Self {
        Self(Mutex::new(RateLimiter::new(AdaptiveStore::with_capacity(2_000_000))), allowance)
    }

    fn check(&self, key: &String) -> bool {
        let (burst, (count, seconds)) = (i64::from(self.1.burst()), self.1.rate());
        let mut limiter = self.0.lock().expect("nobody panics");
        let period = i64::try_from(seconds).expect("a small number");
        let count = i64::from(count);
        limiter.rate_limit(key, burst, count, period, 1, SystemTime::now()).is_ok_and(|(allowed, _)| allowed)
    }
}

pub(crate) struct Limitador(limitador::RateLimiter, Namespace);

impl Contestant for Limitador {
    const NAME: &'static str = "limitador 0.14.0";

    fn new(allowance: Allowance) -> Self {
        let limiter = limitador::RateLimiter::new(12_000_000);
        let user = "user_id".try_into().expect("an expression");
        limiter.add_limit(limitador::limit::Limit::new(
            "shop",
            u64::from(allowance.burst()),
            3_600,
            [],
            [user],
        ));
        Self(limiter, "shop".into())
    }

    fn check(&self, key: &String) -> bool {
        let values = HashMap::from([("user_id".to_owned(), key.clone())]);
        let context = Context::from(values);
        self.0.check_rate_limited_and_update(&self.1, &context, 1).is_ok_and(|result| !result.limited)
    }
}
