//! The callers of the demo: what comes in a second, the same on every run.
//!
//! `week` decides it on a clock of its own, `live` sends it to the server.
//!
//! | caller | what it does |
//! |---|---|
//! | users | come and go with the hours of the day |
//! | a crawler | reads the catalogue, ten minutes of each hour |
//! | a batch job | sends everything around the edge of a minute |
//! | a brute-forcer | tries passwords at /login, every third hour |
//! | an API client | goes as fast as it may, and waits when it is told to |

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Of a hundred users, how many are awake in each hour of the day, in UTC.
const AWAKE: [u64; 24] =
    [12, 8, 6, 5, 5, 8, 16, 32, 55, 72, 80, 84, 78, 80, 86, 88, 84, 78, 70, 62, 52, 40, 28, 18];
const USERS: u64 = 40;
const PATHS: [&str; 8] =
    ["/", "/search", "/catalog", "/cart", "/checkout", "/account", "/catalog/shoes", "/help"];

/// The entries of one descriptor.
pub(super) type Entries = Vec<(&'static str, String)>;

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DemoCall {
    pub(super) descriptors: Vec<Entries>,
    /// Whoever sends it waits when it is denied.
    pub(super) backs_off: bool,
}

/// All callers, and until when the polite one waits.
#[derive(Debug, Default)]
pub(super) struct DemoCallers {
    waits_until_s: u64,
}

impl DemoCallers {
    /// What they send in this second since 1970.
    pub(super) fn calls(&self, second: u64) -> Vec<DemoCall> {
        let mut calls = Vec::new();
        let (minute, hour) = (second / 60 % 60, second / 3_600 % 24);
        let awake = usize::try_from(hour).ok().and_then(|hour| AWAKE.get(hour)).copied().unwrap_or(0);
        for user in 0..USERS {
            // An awake user clicks every 25 seconds or so.
            if user * 100 < USERS * awake && luck(second, user).is_multiple_of(25) {
                calls.push(Self::click(user, luck(second, user + USERS)));
            }
        }
        if (20..30).contains(&minute) {
            calls.extend((0..2).map(|n| crawl(luck(second, 1_000 + n) % 400)));
        }
        if matches!(second % 60, 58 | 59 | 0 | 1) {
            calls.extend((0..12).map(|n| user_call(7, &format!("/export/{}", n % 3), 7)));
        }
        if hour % 3 == 1 && second.is_multiple_of(2) {
            let entries = at_path("/login", 666);
            calls.push(DemoCall { descriptors: entries, backs_off: false });
        }
        if second >= self.waits_until_s {
            let key = ("api_key", "warehouse".to_owned());
            calls.push(DemoCall { descriptors: vec![vec![key], path("/api/stock")], backs_off: true });
        }
        calls
    }

    /// The answer to a call: whoever backs off does so.
    pub(super) fn told(&mut self, call: &DemoCall, second: u64, retry_after_s: Option<u64>) {
        if let Some(wait) = retry_after_s.filter(|_| call.backs_off) {
            self.waits_until_s = second.saturating_add(wait.max(1));
        }
    }

    fn click(user: u64, luck: u64) -> DemoCall {
        if luck.is_multiple_of(97) {
            return DemoCall { descriptors: vec![path("/report")], backs_off: false };
        }
        let index = usize::try_from(luck % 23 * (luck % 7) % 8).unwrap_or(0);
        user_call(user, PATHS.get(index).copied().unwrap_or("/"), user)
    }
}

fn user_call(user: u64, to: &str, host: u64) -> DemoCall {
    let mut descriptors = at_path(to, host);
    descriptors.push(vec![("user_id", user.to_string())]);
    DemoCall { descriptors, backs_off: false }
}

fn crawl(page: u64) -> DemoCall {
    let mut descriptors = at_path(&format!("/catalog/{page}"), 250);
    descriptors.push(vec![("crawler", "examplebot".to_owned())]);
    DemoCall { descriptors, backs_off: false }
}

/// What every request to a path from an address has.
fn at_path(to: &str, host: u64) -> Vec<Entries> {
    let address = ("remote_address", format!("192.0.2.{}", host % 256));
    let both = [path(to), vec![address.clone()]].concat();
    vec![path(to), vec![address], both]
}

fn path(to: &str) -> Entries {
    vec![("path", to.to_owned())]
}

/// A number that depends on both and looks random.
fn luck(second: u64, salt: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (second, salt).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_told_to_wait_waits_and_the_others_do_not() {
        let mut callers = DemoCallers::default();
        let polite = |callers: &DemoCallers, second| callers.calls(second).iter().any(|call| call.backs_off);
        let call = callers.calls(100).into_iter().find(|call| call.backs_off).unwrap();
        callers.told(&call, 100, Some(5));
        assert_eq!([104, 105].map(|second| polite(&callers, second)), [false, true]);
        assert!(callers.calls(60).len() >= 12, "the batch job comes all the same");
    }
}
