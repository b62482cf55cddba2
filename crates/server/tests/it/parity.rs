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
//! a whole, since each has keys of its own, and how many each plays is counted.
//!
//! `clock` plays what the machine's clock cannot: steps of it, and a queue that requests are held in.

mod clock;
mod script;
mod ways;

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
            retry_after: None,
        }
    }
}

/// How long a denial lasts: as long as the window of an hour at most, or as the block of a day.
fn lasts(seen: &Seen) -> Option<&'static str> {
    seen.retry_after.map(|seconds| if seconds > 3_600 { "block" } else { "window" })
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
        // What was left before a step that its answer settles.
        let mut left = scene.steps.first().and_then(|step| Some(mode.expected(step).remaining? + step.cost));
        for (index, step) in scene.steps.iter().enumerate() {
            let place = format!("{}: {}, step {index}", way.name, scene.name);
            let mut wanted = mode.expected(step);
            let mut seen = caller.ask(step).await;
            let after = std::mem::replace(&mut left, wanted.remaining);
            if seen.is_soft.is_none() {
                wanted.is_soft = None;
            }
            if step.is_settled_later() && way.settles_later() {
                // What is told is what would be left if the answer cost 1.
                wanted.remaining = after.map(|left| left.saturating_sub(1));
            }
            let words = || step.expected.split(' ');
            if mode == ServerMode::Enforce
                && let Some(how) = words().find(|word| ["window", "block"].contains(word))
            {
                assert_eq!(lasts(&seen), Some(how), "{place}: {seen:?}");
            }
            seen.retry_after = None;
            played.push((place, seen, wanted));
        }
    }
    played
}

#[tokio::test]
async fn every_way_in_decides_alike() {
    let mut scenes_played = Vec::new();
    for way in WAYS {
        let mode = ServerMode::Enforce;
        let scenes: Vec<&Scene> = SCENES.iter().filter(|scene| way.can(scene, mode)).collect();
        let played = play(way, &scenes, mode).await;
        assert_eq!(played.len(), scenes.iter().map(|scene| scene.steps.len()).sum::<usize>());
        for (place, seen, wanted) in played {
            assert_eq!(seen, wanted, "{place}");
        }
        scenes_played.push((way.name, scenes.len()));
    }
    // Nobody leaves out more than it must, and a new scene is played by all, or says here by whom not: RESP has one
    // descriptor, requests of the last three have a cost of 1 and are held, and forward-auth sees no answers.
    let all = SCENES.len();
    let expected = [
        ("gRPC", all),
        ("/json", all),
        ("/v1/check", all),
        ("RESP", all - 6),
        ("/v1/authz", all - 4),
        ("gateway", all - 3),
        ("tower", all - 3),
    ];
    assert_eq!(scenes_played, expected);
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
