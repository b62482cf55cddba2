//! The callers of the demo: what comes in a second, the same on every run.
//!
//! `week` decides it on a clock of its own, `live` sends it through the gateway.
//!
//! | caller | what it does |
//! |---|---|
//! | users | come and go with the hours of the day, fewer on weekends |
//! | a crawler | reads the catalogue, ten minutes of most hours |
//! | a batch job | sends everything around the edge of a minute, in office hours |
//! | a brute-forcer | tries passwords at /login from three addresses, some hours of the day |
//! | an API client | goes on until it is denied, and then waits as long as it is told to |
//!
//! Invariant: what a second brings depends on nothing but the second and on when the API client may go on.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Of a hundred users, how many are awake in each hour of the day, in UTC.
const AWAKE: [u64; 24] =
    [12, 8, 6, 5, 5, 8, 16, 32, 55, 72, 80, 84, 78, 80, 86, 88, 84, 78, 70, 62, 52, 40, 28, 18];
const USERS: u64 = 60;
/// How long a user who is awake looks at a page.
const CLICK_EVERY_S: u64 = 50;
/// The user whose account the batch job uses.
const BATCH_USER: u64 = 7;
const PATHS: [&str; 8] =
    ["/", "/search", "/catalog", "/cart", "/checkout", "/account", "/catalog/shoes", "/help"];

/// Who sends a request, besides the address it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DemoCaller {
    User(u64),
    Crawler,
    ApiClient,
    Unknown,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DemoCall {
    pub(super) path: String,
    pub(super) address: String,
    pub(super) caller: DemoCaller,
}

impl DemoCall {
    fn new(path: impl Into<String>, host: u64, caller: DemoCaller) -> Self {
        Self { path: path.into(), address: format!("192.0.2.{}", host % 256), caller }
    }

    /// Whether whoever sends it waits when it is denied.
    pub(super) fn backs_off(&self) -> bool {
        self.caller == DemoCaller::ApiClient
    }

    /// The header by which the caller is known, the key that the mapping makes of it, and its value.
    pub(super) fn identity(&self) -> Option<(&'static str, &'static str, String)> {
        match self.caller {
            DemoCaller::User(number) => Some(("x-user", "user_id", number.to_string())),
            DemoCaller::Crawler => Some(("x-crawler", "crawler", "examplebot".to_owned())),
            DemoCaller::ApiClient => Some(("x-api-key", "api_key", "warehouse".to_owned())),
            DemoCaller::Unknown => None,
        }
    }
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
        let (minute, hour, hours) = (second / 60 % 60, second / 3_600 % 24, second / 3_600);
        users(second, &mut calls);
        // It sets out at another minute of each hour, and stays away from every fourth.
        let setting_out = luck(hours, 1) % 50;
        if !luck(hours, 2).is_multiple_of(4) && (setting_out..setting_out + 10).contains(&minute) {
            let pages = (0..1 + luck(hours, 3) % 2).map(|n| luck(second, 1_000 + n) % 400);
            calls.extend(
                pages.map(|page| DemoCall::new(format!("/catalog/{page}"), 250, DemoCaller::Crawler)),
            );
        }
        // The last seconds of one minute and the first of the next, each within its limit.
        let is_edge = matches!((minute % 10, second % 60), (4, 58 | 59) | (5, 0 | 1));
        if (7..18).contains(&hour) && is_edge {
            let exports = (0..27).map(|n| format!("/export/{}", n % 3));
            calls.extend(exports.map(|path| DemoCall::new(path, 9, DemoCaller::User(BATCH_USER))));
        }
        if luck(hours, 4).is_multiple_of(4) && (15..40).contains(&minute) && second.is_multiple_of(2) {
            calls.push(DemoCall::new("/login", 200 + luck(second, 5) % 3, DemoCaller::Unknown));
        }
        if second >= self.waits_until_s && second % 120 < 36 {
            calls.push(DemoCall::new("/api/stock", 30, DemoCaller::ApiClient));
        }
        calls
    }

    /// The answer to a call: whoever backs off does so.
    pub(super) fn told(&mut self, call: &DemoCall, second: u64, retry_after_s: Option<u64>) {
        if let Some(wait) = retry_after_s.filter(|_| call.backs_off()) {
            // A little more than it is told, so that it does not come back to an empty bucket.
            self.waits_until_s = second.saturating_add(wait.max(1) * 3);
        }
    }
}

/// What users click.
fn users(second: u64, calls: &mut Vec<DemoCall>) {
    let (days, hours) = (second / 86_400, second / 3_600);
    let hour = usize::try_from(hours % 24).unwrap_or(0);
    // The epoch was a Thursday.
    let of_week = if matches!(days % 7, 2 | 3) { 55 } else { 100 };
    let of_day = 80 + luck(days, 6) % 35;
    let of_hour = 90 + luck(hours, 7) % 20;
    let awake = AWAKE.get(hour).copied().unwrap_or(0) * of_week * of_day * of_hour / 1_000_000;
    if second.is_multiple_of(1_800) {
        // Several at once, of which all but the first have to wait.
        calls.extend((0..4).map(|_| DemoCall::new("/report", 3, DemoCaller::User(3))));
    }
    let users = (USERS * awake / 100).max(1);
    let per_mille = users * 1_000 / CLICK_EVERY_S;
    let clicks = per_mille / 1_000 + u64::from(luck(second, 8) % 1_000 < per_mille % 1_000);
    for click in 0..clicks {
        let luck = luck(second, 500 + click);
        let path = match luck {
            luck if luck.is_multiple_of(60) => "/report",
            luck if luck.is_multiple_of(41) => "/login",
            luck => {
                let index = usize::try_from(luck % 23 * (luck % 7) % 8).unwrap_or(0);
                PATHS.get(index).copied().unwrap_or("/")
            }
        };
        let user = luck / 1_000 % users;
        calls.push(DemoCall::new(path, user, DemoCaller::User(user)));
    }
}

/// A number that depends on both and looks random.
fn luck(number: u64, salt: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (number, salt).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_told_to_wait_waits_and_the_others_do_not() {
        let mut callers = DemoCallers::default();
        let polite = |callers: &DemoCallers, second| callers.calls(second).iter().any(DemoCall::backs_off);
        let call = callers.calls(1_200).into_iter().find(DemoCall::backs_off).unwrap();
        callers.told(&call, 1_200, Some(5));
        assert_eq!([1_214, 1_215].map(|second| polite(&callers, second)), [false, true]);
    }

    #[test]
    fn the_burst_is_within_the_limit_of_both_its_minutes() {
        let noon = 20_000 * 86_400 + 12 * 3_600;
        let batch = |call: &DemoCall| call.path.starts_with("/export/");
        let of_minute = |minute: u64| {
            let seconds = (0..60).map(|second| noon + minute * 60 + second);
            seconds
                .map(|second| DemoCallers::default().calls(second).iter().filter(|call| batch(call)).count())
                .sum()
        };
        let counts: [usize; 4] = [3, 4, 5, 6].map(of_minute);
        assert_eq!(counts, [0, 54, 54, 0]);
    }
}
