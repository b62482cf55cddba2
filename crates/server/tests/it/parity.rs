//! One truth: the same requests are decided alike, whichever way they come in.
//!
//! A script of requests with what must be decided is played through gRPC,
//! `/json`, `/v1/check`, RESP, `/v1/authz`, the gateway and the tower layer, each
//! on a server of its own that has decided nothing yet. Windows are so long that
//! none ends meanwhile.
//!
//! Some ways in cannot say everything: a command over RESP has one descriptor,
//! and an HTTP request has a cost of 1, unless its answer says another, and is
//! held while it waits. A scene that one of them cannot play is left out there, as
//! a whole, since each has keys of its own.
//!
//! `clock` plays what the machine's clock cannot: steps of it.

mod clock;
mod script;
mod ways;

use std::collections::BTreeMap;

use script::{OVERRIDES, SCENES, Scene, ScriptStep};
use ways::{Seen, WAYS, Way};

use crate::support::Setup;

const RULES: &str = include_str!("parity/rules.yaml");
const SETTINGS: &str = include_str!("parity/tollgate.yaml");

/// Whether the server enforces anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ServerMode {
    Enforce,
    Shadow,
}

impl ServerMode {
    /// What must be seen of a step, where the way tells it.
    fn expected(self, step: &ScriptStep) -> Seen {
        let words: Vec<&str> = match self {
            Self::Enforce => step.expected.split(' ').collect(),
            Self::Shadow => vec!["allow"],
        };
        Seen {
            verdict: words[0].to_owned(),
            remaining: words.get(1).and_then(|word| word.parse().ok()),
            is_soft: Some(words.contains(&"soft")),
        }
    }
}

async fn play(way: &Way, scenes: &[&Scene], mode: ServerMode) -> Vec<(String, Seen, Seen)> {
    let shadow = if mode == ServerMode::Shadow { "true" } else { "false" };
    let setup = Setup::new(&[("rules.yaml", RULES)]).file(SETTINGS).env("SHADOW_MODE", shadow);
    let setup = setup.env("TOLLGATE_TELL_THROUGH_ENVOY", "headers").env("TOLLGATE_RESP", "127.0.0.1:0");
    let setup = setup.env("TOLLGATE_GATEWAY", "127.0.0.1:0").env("TOLLGATE_UPSTREAM", ways::api().await);
    let server = setup.start().await;
    for (key, value, limit) in OVERRIDES {
        ways::bend(&server, key, value, limit).await;
    }
    let mut caller = way.caller(&server, mode).await;
    let mut played = Vec::new();
    for scene in scenes {
        for (index, step) in scene.steps.iter().enumerate() {
            let mut wanted = mode.expected(step);
            let seen = caller.ask(step).await;
            if seen.is_soft.is_none() {
                wanted.is_soft = None;
            }
            if step.is_settled_later() && way.settles_later() {
                // What is told is what was left before the answer.
                wanted.remaining = seen.remaining;
            }
            played.push((format!("{}: {}, step {index}", way.name, scene.name), seen, wanted));
        }
    }
    played
}

#[tokio::test]
async fn every_way_in_decides_alike() {
    let mut played = BTreeMap::new();
    for way in WAYS {
        let mode = ServerMode::Enforce;
        let scenes: Vec<&Scene> = SCENES.iter().filter(|scene| way.can(scene, mode)).collect();
        for (place, seen, wanted) in play(way, &scenes, mode).await {
            assert_eq!(seen, wanted, "{place}");
            *played.entry(way.name).or_insert(0) += 1;
        }
    }
    // Nobody plays next to nothing: all that each can is what it did.
    let steps = |scenes: &[Scene]| scenes.iter().map(|scene| scene.steps.len()).sum::<usize>();
    let all = steps(SCENES);
    assert_eq!([played["gRPC"], played["/json"], played["/v1/check"]], [all; 3]);
    for way in ["RESP", "/v1/authz", "gateway", "tower"] {
        assert!(played[way] > all / 2, "{played:?} of {all}");
    }
}

#[tokio::test]
async fn a_server_in_shadow_mode_lets_everything_pass_and_tells_nobody() {
    for way in WAYS {
        let mode = ServerMode::Shadow;
        let scenes: Vec<&Scene> = SCENES.iter().filter(|scene| way.can(scene, mode)).collect();
        for (place, seen, wanted) in play(way, &scenes, mode).await {
            assert_eq!(seen, wanted, "{place}");
        }
    }
}
