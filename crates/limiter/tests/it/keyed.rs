//! A limiter of one limit, held to the vectors and to the oracle, and used as a program uses it.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Algorithm, Decision, Limit, Micros, Operation, Time, Verdict};
use tollgate_limiter::{Capacity, Clock, KeyedLimiter, ManualClock};
use tollgate_testkit::{Engine, random, vectors};

/// One key beside others that have a use of their own.
struct KeyedEngine(KeyedLimiter<str, ManualClock>);

impl KeyedEngine {
    fn new(limit: Limit) -> Self {
        let limiter = KeyedLimiter::with(limit, Capacity::default(), ManualClock::at(Time::EPOCH));
        for other in ["", "me ", "you"] {
            limiter.report(other, 3);
        }
        Self(limiter)
    }
}

impl Engine for KeyedEngine {
    fn decide(&mut self, now: Time, operation: Operation, cost: u64) -> Decision {
        self.0.clock().set(now);
        match operation {
            Operation::Check => self.0.check_cost("me", cost),
            Operation::Peek => self.0.peek("me", cost),
            Operation::Report => self.0.report("me", cost),
            Operation::Refund => self.0.refund("me", cost),
        }
    }

    fn reset(&mut self) {
        self.0.reset("me");
    }
}

#[test]
fn the_vectors_are_decided_as_written() {
    let groups = vectors::load(&vectors::folder()).unwrap();
    let steps = vectors::run(&KeyedEngine::new, &groups).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(steps > 0);
}

#[test]
fn random_sequences_are_decided_as_by_the_oracle() {
    let compared = random::beside_the_oracle_monotone(&KeyedEngine::new, 200);
    assert!(compared.unwrap_or_else(|failure| panic!("{failure}")) > 0);
}

#[test]
fn keys_of_any_type_have_counters_of_their_own() {
    let limiter = KeyedLimiter::<(u64, &str)>::new(Limit::per_day(1).build().unwrap());
    assert_eq!(limiter.check(&(1, "read")).verdict, Verdict::Allow);
    assert!(limiter.check(&(1, "read")).verdict.is_deny());
    assert_eq!(limiter.check(&(1, "write")).verdict, Verdict::Allow);
    assert_eq!(limiter.check(&(2, "read")).verdict, Verdict::Allow);
    assert_eq!(limiter.usage().keys, 3);
    assert!(limiter.reset(&(1, "read")));
    assert!(!limiter.reset(&(1, "read")), "there is nothing left to forget");
    assert_eq!(limiter.check(&(1, "read")).verdict, Verdict::Allow);
}

#[test]
fn a_postpaid_limit_goes_into_debt() {
    let limit = Limit::per_hour(1_000).build().unwrap().with_postpaid(true);
    let limiter = KeyedLimiter::with(limit, Capacity::default(), ManualClock::at(Time::EPOCH));
    assert_eq!(limiter.check_cost("me", 1_700).verdict, Verdict::Allow);
    let denied = limiter.check_cost("me", 0).verdict;
    // The debt of 700 and the one token that is asked about.
    assert_eq!(denied, Verdict::Deny { retry_after: Some(Micros::from_millis(701 * 3_600)) });
}

/// Runs with tokio's time.
struct TokioClock(tokio::time::Instant);

impl Clock for TokioClock {
    fn now(&self) -> Time {
        Time::EPOCH + Micros::new(u64::try_from(self.0.elapsed().as_micros()).unwrap())
    }
}

fn waiting(limit: Limit) -> KeyedLimiter<str, TokioClock> {
    KeyedLimiter::with(limit, Capacity::default(), TokioClock(tokio::time::Instant::now()))
}

#[tokio::test(start_paused = true)]
async fn waiting_takes_as_long_as_the_limit_says() {
    let limiter = waiting(Limit::per_second(2).build().unwrap());
    let mut times = Vec::new();
    for _ in 0..5 {
        assert_eq!(limiter.until_ready("me", Duration::ZERO).await.verdict, Verdict::Allow);
        times.push(limiter.clock().now().get() / 1_000);
    }
    // Tokio's timer is exact to a millisecond and never early.
    for (time, earliest) in times.iter().zip([0, 0, 500, 1_000, 1_500]) {
        assert!((earliest..earliest + 5).contains(time), "{times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn jitter_is_only_ever_added() {
    let limiter = waiting(Limit::per_second(1).build().unwrap());
    for before in [0, 1_000_000] {
        limiter.until_ready("me", Duration::from_secs(3)).await;
        let now = limiter.clock().now().get();
        assert!((before..=before + 3_002_000).contains(&now), "{now}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_waited_out_and_a_limit_of_zero_returned() {
    let leaky = Limit::per_second(1).algorithm(Algorithm::LeakyBucket).build().unwrap();
    let limiter = waiting(leaky);
    limiter.until_ready("me", Duration::ZERO).await;
    let delayed = limiter.until_ready("me", Duration::ZERO).await.verdict;
    assert_eq!(delayed, Verdict::Delay { wait: Micros::SECOND });
    assert!(limiter.clock().now() >= Time::from_secs(1));

    let closed = waiting(Limit::per_second(0).algorithm(Algorithm::FixedWindow).build().unwrap());
    let never = closed.until_ready("me", Duration::ZERO).await.verdict;
    assert_eq!(never, Verdict::Deny { retry_after: None });
}

fn leaky(burst: u32) -> KeyedLimiter<str, TokioClock> {
    waiting(Limit::per_second(1).algorithm(Algorithm::LeakyBucket).burst(burst).build().unwrap())
}

#[tokio::test(start_paused = true)]
async fn waits_that_are_given_up_cost_nothing() {
    let limiter = leaky(100);
    limiter.until_ready("me", Duration::ZERO).await;
    for _ in 0..50 {
        let given_up =
            tokio::time::timeout(Duration::from_millis(10), limiter.until_ready("me", Duration::ZERO));
        assert!(given_up.await.is_err());
    }
    limiter.until_ready("me", Duration::ZERO).await;
    let now_ms = limiter.clock().now().get() / 1_000;
    assert!((1_000..1_005).contains(&now_ms), "{now_ms}");
}

/// Six wait, some leave, and three come meanwhile: those who stay go in turn, one a second.
#[tokio::test(start_paused = true)]
async fn those_behind_move_up_and_none_goes_out_of_turn() {
    for leaving in 0_u32..1 << 6 {
        let limiter = Arc::new(leaky(100));
        limiter.check("me");
        let start = |number: u32| {
            let limiter = Arc::clone(&limiter);
            tokio::spawn(async move {
                limiter.until_ready("me", Duration::ZERO).await;
                (number, limiter.clock().now().get() / 1_000)
            })
        };
        let mut waiters = Vec::new();
        for number in 0..6 {
            waiters.push(start(number));
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        // The first has gone; those who leave do it in the midst of their wait.
        for (number, waiter) in waiters.iter().enumerate().filter(|(number, _)| leaving >> number & 1 == 1) {
            assert_eq!(waiter.is_finished(), number == 0);
            waiter.abort();
            tokio::task::yield_now().await;
        }
        for number in 6..9 {
            waiters.push(start(number));
            tokio::task::yield_now().await;
        }
        let mut gone = Vec::new();
        for waiter in waiters {
            gone.extend(waiter.await);
        }
        let stayed: Vec<u32> = (0..9).filter(|number| *number == 0 || leaving >> number & 1 == 0).collect();
        assert_eq!(gone.iter().map(|(number, _)| *number).collect::<Vec<_>>(), stayed);
        for ((_, at_ms), earliest) in gone.iter().zip((1_000..).step_by(1_000)) {
            assert!((earliest..earliest + 5).contains(at_ms), "{leaving:b}: {gone:?}");
        }
    }
}

/// Costs 1, 5 and 1 wait for turns 1, 2 and 7. Whoever gives up, no second sees more than the rate, and a turn is free
/// again only where it suits everybody behind.
#[tokio::test(start_paused = true)]
async fn with_several_costs_none_goes_sooner_than_the_rate() {
    for (leaving, expected_s, newcomer_s) in
        [(0, [0, 2, 7], 8), (1, [1, 0, 7], 8), (2, [1, 2, 0], 7), (3, [1, 2, 7], 8)]
    {
        let limiter = Arc::new(leaky(100));
        limiter.check("me");
        let start = |cost: u64| {
            let limiter = Arc::clone(&limiter);
            tokio::spawn(async move {
                limiter.until_ready_cost("me", cost, Duration::ZERO).await;
                limiter.clock().now().get() / 1_000_000
            })
        };
        let mut waiters = Vec::new();
        for cost in [1, 5, 1] {
            waiters.push(start(cost));
            tokio::task::yield_now().await;
        }
        if let Some(waiter) = waiters.get(leaving) {
            waiter.abort();
            tokio::task::yield_now().await;
        }
        let newcomer = start(1);
        let mut gone_s = Vec::new();
        for waiter in waiters {
            gone_s.push(waiter.await.unwrap_or(0));
        }
        assert_eq!(gone_s, expected_s, "{leaving} leaves");
        assert_eq!(newcomer.await.unwrap(), newcomer_s, "{leaving} leaves");
    }
}

/// A future that was polled once and is not polled again holds up nobody for longer than there was to wait.
#[tokio::test(start_paused = true)]
async fn whoever_sleeps_through_its_turn_holds_up_nobody() {
    let limiter = leaky(100);
    limiter.check("me");
    let mut asleep = Box::pin(limiter.until_ready("me", Duration::ZERO));
    assert!(tokio::time::timeout(Duration::ZERO, &mut asleep).await.is_err());
    limiter.until_ready("me", Duration::ZERO).await;
    let now_ms = limiter.clock().now().get() / 1_000;
    assert!((2_000..2_005).contains(&now_ms), "{now_ms}");
    asleep.await;
    assert!(limiter.clock().now().get() / 1_000 < 2_010);
    assert_eq!(
        limiter.peek("me", 1).verdict,
        Verdict::Delay { wait: Micros::new(3_000_000 - limiter.clock().now().get()) }
    );
}

#[tokio::test(start_paused = true)]
async fn a_cost_is_waited_for_whole_and_one_that_never_fits_is_returned() {
    let limiter = waiting(Limit::per_second(2).build().unwrap());
    for earliest_ms in [0, 1_000, 2_000] {
        assert_eq!(limiter.until_ready_cost("me", 2, Duration::ZERO).await.verdict, Verdict::Allow);
        let now_ms = limiter.clock().now().get() / 1_000;
        assert!((earliest_ms..earliest_ms + 5).contains(&now_ms), "{now_ms}");
    }
    let never = limiter.until_ready_cost("me", 3, Duration::ZERO).await.verdict;
    assert_eq!(never, Verdict::Deny { retry_after: None });
}

/// Keys that come more than once in a batch, batches longer than what is locked together, and denials.
#[test]
fn a_batch_is_decided_as_one_check_after_the_other() {
    for algorithm in Algorithm::ALL {
        let limit = Limit::per_minute(3).algorithm(algorithm).build().unwrap();
        for limit in [limit, limit.counting_rejected(true)] {
            let limiter =
                |()| KeyedLimiter::<u64, _>::with(limit, Capacity::default(), ManualClock::at(Time::EPOCH));
            let (batched, alone) = (limiter(()), limiter(()));
            let mut denied = 0;
            for round in 0..20_u64 {
                let now = Time::from_secs(1_000 + 7 * round);
                batched.clock().set(now);
                alone.clock().set(now);
                let keys: Vec<u64> = (0..round * 11).map(|n| (n * n + round) % 40).collect();
                let decisions = batched.check_batch(&keys);
                let expected: Vec<Decision> = keys.iter().map(|key| alone.check(key)).collect();
                assert_eq!(decisions, expected, "{algorithm}, round {round}");
                denied += decisions.iter().filter(|decision| decision.verdict.is_deny()).count();
            }
            assert!(denied > 100, "{algorithm}: {denied} denied");
        }
    }
}

/// A denial is read from a copy of the state, and the copy goes with the state.
#[test]
fn a_key_that_was_denied_passes_as_soon_as_it_may() {
    for algorithm in Algorithm::ALL {
        let limit = Limit::per_minute(2).algorithm(algorithm).build().unwrap();
        let limiter = KeyedLimiter::<u64, _>::with(limit, Capacity::default(), ManualClock::at(Time::EPOCH));
        let used_up = || while !limiter.check(&1).verdict.is_deny() {};
        let is_denied = || (0..3).all(|_| limiter.check(&1).verdict.is_deny());
        used_up();
        assert!(is_denied() && limiter.peek(&1, 1).verdict.is_deny(), "{algorithm}");
        limiter.refund(&1, 1);
        assert!(!limiter.check(&1).verdict.is_deny(), "{algorithm}: one was given back");
        assert!(is_denied(), "{algorithm}");
        assert!(limiter.reset(&1));
        assert!(!limiter.check(&1).verdict.is_deny(), "{algorithm}: it was forgotten");
        used_up();
        let Verdict::Deny { retry_after: Some(wait) } = limiter.check(&1).verdict else { panic!() };
        limiter.clock().advance(Micros::new(wait.get() - 1));
        assert!(is_denied(), "{algorithm}: a microsecond too early");
        limiter.clock().advance(Micros::new(1));
        assert!(!limiter.check(&1).verdict.is_deny(), "{algorithm}: its time has come");
        used_up();
        limiter.clock().set(Time::from_secs(1));
        let Verdict::Deny { retry_after: Some(wait) } = limiter.check(&1).verdict else { panic!() };
        assert!(wait <= Micros::from_secs(120), "{algorithm}: {wait} after the clock was set back");
    }
}
