//! Ten million made-up keys: memory stays bounded, and keys in use keep their limits.

use tollgate_core::{Mode, Refill, Shape};
use tollgate_limiter::Capacity;

use crate::support::{bounded, check, limit, node, rule};

const FLOOD: u64 = 10_000_000;
const KEYS: usize = 200_000;

#[test]
fn ten_million_keys_stay_within_the_bound_and_active_keys_keep_their_limits() {
    let shape = Shape::TokenBucket { burst: 1_000, refill: Refill::Smooth };
    let limiter = bounded(
        vec![node("user", vec![rule("", limit(1_000, shape), Mode::Enforce)])],
        Capacity { keys: KEYS, log_bytes: 0 },
    );
    let active: Vec<String> = (0..1_000).map(|n| format!("active-{n}")).collect();
    let mut admitted = 0_u32;
    for n in 0..FLOOD {
        check(&limiter, &[("user", &format!("made-up-{n}"))]);
        // Every active key asks two thousand times during the flood.
        if n % 5 == 0 {
            let user = &active[usize::try_from(n / 5).unwrap() % active.len()];
            admitted += u32::from(!check(&limiter, &[("user", user)]).verdict.is_deny());
        }
    }
    let usage = limiter.store().usage();
    assert!(usage.keys <= KEYS, "{usage:?}");
    assert!(usage.slot_bytes <= KEYS * 28, "{usage:?}");
    assert!(usage.evicted > FLOOD / 2, "{usage:?}");
    assert_eq!(admitted, 1_000 * 1_000, "a forgotten key would have been let through more often");
}
