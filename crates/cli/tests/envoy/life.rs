//! Rules that change and servers that end, while requests flow.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::http;
use crate::patience::until;
use crate::world::{RULES, World};

/// Requests that flow until this is told to stop.
struct Traffic {
    is_over: Arc<AtomicBool>,
    sender: JoinHandle<Vec<u16>>,
}

impl Traffic {
    /// One request after the other, as fast as they are answered.
    fn start(front: SocketAddr) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let sender = thread::spawn(move || {
            let mut statuses = Vec::new();
            while !told.load(Ordering::Relaxed) {
                let answer = http::get(front, "/", &[("x-live", "traffic")]);
                statuses.push(answer.expect("Envoy answers").status);
            }
            statuses
        });
        Self { is_over, sender }
    }

    /// The statuses of all of them.
    fn stop(self) -> Vec<u16> {
        self.is_over.store(true, Ordering::Relaxed);
        self.sender.join().expect("no request was without an answer")
    }
}

/// The rules with another limit for `live`.
fn changed(name: &str, count: u32) -> String {
    let text = RULES.replace(
        "name: first, requests_per_unit: 1000000",
        &format!("name: {name}, requests_per_unit: {count}"),
    );
    assert_ne!(text, RULES);
    text
}

#[test]
fn changed_rules_are_in_force_within_a_second_and_no_request_fails() {
    let world = World::new("reload", &[]);
    let traffic = Traffic::start(world.envoy.front);
    let limit_of = |name: &str| {
        let answer = world.get("/", &[("x-live", "observer")]);
        let limit = answer.header("x-ratelimit-limit").unwrap_or_default().to_owned();
        limit.ends_with(&format!("name=\"{name}\"")).then_some(limit)
    };
    until("the first rules are in force", || limit_of("first"));
    world.write_rules(&changed("second", 2_000_000));
    let (limit, took) = until("the second rules are in force", || limit_of("second"));
    assert_eq!(limit, "2000000, 2000000;w=31536000;name=\"second\"");
    println!("changed rules were in force after {} ms", took.as_millis());
    // A second is the promise; the rest is for a machine that is busy.
    assert!(took < Duration::from_secs(5), "{took:?}");

    world.write_rules("domain: shop\ndescriptors: [{ kee: live }]\n");
    until("the bad rules are told of", || world.tollgate.health().contains("kee").then_some(()));
    assert!(limit_of("second").is_some(), "bad rules change nothing");

    world.write_rules(&changed("third", 3_000_000));
    until("the third rules are in force", || limit_of("third"));
    until("the complaint is gone", || (!world.tollgate.health().contains("kee")).then_some(()));

    let statuses = traffic.stop();
    println!("{} requests meanwhile", statuses.len());
    assert!(statuses.len() > 10, "{statuses:?}");
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
}

#[test]
fn envoy_goes_on_while_tollgate_is_replaced() {
    let world = World::failing_open("restart");
    assert_eq!(world.statuses(3, &[("x-user", "alice")]), [200, 200, 429]);
    let traffic = Traffic::start(world.envoy.front);
    let (envoy, tollgate, folder) = world.into_parts();
    let limit = |name: &str| {
        let answer = http::get(envoy.front, "/", &[("x-user", name)]).expect("Envoy answers");
        (answer.status, answer.header("x-ratelimit-limit").is_some())
    };
    let grpc = tollgate.grpc.to_string();
    let ended = tollgate.terminate();
    assert!(ended.success(), "{ended}");
    assert_eq!(limit("alice"), (200, false), "nobody limits, and Envoy lets everyone through");

    let again = World::start_tollgate_again(&folder, &grpc);
    until("limits are in force again", || (limit("anyone") != (200, false)).then_some(()));
    assert_eq!([limit("bob"), limit("bob"), limit("bob")], [(200, true), (200, true), (429, true)]);
    let statuses = traffic.stop();
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    assert!(again.terminate().success());
}
