//! The reference's vectors: codes, what remains, and what is counted.

use crate::support::Server;
use crate::support::wire::{ask, brief, descriptor, request, with_hits};

/// Limit, hits, count after them; what is answered; increments of over, near and within.
type Vector = (u64, u64, u64, &'static str, [u64; 3]);

const VECTORS: [Vector; 10] = [
    (15, 1, 11, "OK 4", [0, 0, 1]),
    (15, 1, 13, "OK 2", [0, 1, 1]),
    (15, 1, 16, "OVER 0", [1, 0, 0]),
    (20, 3, 5, "OK 15", [0, 0, 3]),
    (8, 2, 7, "OK 1", [0, 1, 2]),
    (20, 3, 19, "OK 1", [0, 3, 3]),
    (20, 3, 22, "OVER 0", [2, 1, 0]),
    (20, 7, 22, "OVER 0", [2, 4, 0]),
    (10, 3, 30, "OVER 0", [3, 0, 0]),
    (10, 0, 11, "OVER 0", [0, 0, 0]),
];

fn rules() -> String {
    let rule = |(index, (limit, ..)): (usize, &Vector)| {
        format!("  - key: v{index}\n    rate_limit: {{ unit: day, requests_per_unit: {limit} }}\n")
    };
    let rules: String = VECTORS.iter().enumerate().map(rule).collect();
    format!("domain: vectors\ndescriptors:\n{rules}")
}

async fn counters(server: &Server, index: usize) -> [u64; 3] {
    let mut all = [0; 3];
    for (counter, name) in all.iter_mut().zip(["over_limit", "near_limit", "within_limit"]) {
        *counter = server.counter(&format!("ratelimit.service.rate_limit.vectors.v{index}.{name}")).await;
    }
    all
}

#[tokio::test]
async fn every_vector_of_the_reference_is_answered_and_counted_alike() {
    let server = Server::with(&rules()).await;
    let mut client = server.client().await;
    for (index, (limit, hits, after, answer, increments)) in VECTORS.into_iter().enumerate() {
        let key = format!("v{index}");
        let hit = |hits| request("vectors", vec![with_hits(hits, descriptor(&[(&key, "")]))]);
        ask(&mut client, hit(after - hits)).await;
        let before = counters(&server, index).await;
        let response = ask(&mut client, hit(hits)).await;
        let overall = if answer.starts_with("OK") { "OK" } else { "OVER" };
        assert_eq!(brief(&response), format!("{overall}: {answer} of {limit}/DAY"), "vector {index}");
        let now = counters(&server, index).await;
        let grown: Vec<u64> = now.iter().zip(before).map(|(now, before)| now - before).collect();
        assert_eq!(grown, increments, "over, near and within of vector {index}");
    }
}

#[tokio::test]
async fn the_worked_example_of_five_counts_down_and_a_leap_is_refused_whole() {
    let rules = "
domain: five
descriptors:
  - key: step
    rate_limit: { unit: day, requests_per_unit: 5 }
  - key: leap
    rate_limit: { unit: day, requests_per_unit: 5 }
";
    let server = Server::with(rules).await;
    let mut client = server.client().await;
    for expected in ["OK: OK 4", "OK: OK 3", "OK: OK 2", "OK: OK 1", "OK: OK 0", "OVER: OVER 0"] {
        let response = ask(&mut client, request("five", vec![descriptor(&[("step", "")])])).await;
        assert_eq!(brief(&response), format!("{expected} of 5/DAY"));
    }
    let leap = request("five", vec![with_hits(7, descriptor(&[("leap", "")]))]);
    assert_eq!(brief(&ask(&mut client, leap).await), "OVER: OVER 0 of 5/DAY");
    let counter = |name: &str| format!("ratelimit.service.rate_limit.five.leap.{name}");
    assert_eq!(server.counter(&counter("over_limit")).await, 2);
    assert_eq!(server.counter(&counter("near_limit")).await, 1);
    assert_eq!(server.counter(&counter("within_limit")).await, 0);
}
