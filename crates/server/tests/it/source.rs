//! Rules from real files and from a real xDS server, while they change.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy knows the tests here, but not the functions that they share"
)]

mod configmap;
mod files;
mod xds;
mod xds_server;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tollgate_core::{Descriptor, Entry, Request};
use tollgate_limiter::{Limiter, SystemClock};
use tollgate_server::source::{RuleSource, RuleStatus};
use tollgate_settings::{RuleOrigin, RuleSettings};

/// Far more than anything here takes, even on a machine that is busy.
const DEADLINE: Duration = Duration::from_secs(20);

/// A source at work, with a limiter that has its rules.
struct Running {
    limiter: Arc<Limiter>,
    status: watch::Receiver<RuleStatus>,
    reload: Arc<Notify>,
    outcomes: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Running {
    fn start(source: RuleSource) -> Self {
        let limiter = Arc::new(Limiter::new(Default::default()));
        let (status, reload) = (source.status(), Arc::new(Notify::new()));
        let (stop, stopped) = oneshot::channel();
        let outcomes = Arc::new(AtomicUsize::new(0));
        let (target, counter) = (Arc::clone(&limiter), Arc::clone(&outcomes));
        let on_load = move |outcome: Result<tollgate_rules::Loaded, _>| {
            counter.fetch_add(1, Ordering::SeqCst);
            if let Ok(loaded) = outcome {
                target.replace_rules(loaded.rules);
            }
        };
        let shutdown = async { drop(stopped.await) };
        let task = tokio::spawn(source.run(on_load, Arc::clone(&reload), shutdown));
        Self { limiter, status, reload, outcomes, stop: Some(stop), task }
    }

    /// The status once it is so.
    async fn until(&mut self, what: &str, is: impl FnMut(&RuleStatus) -> bool) -> RuleStatus {
        let found = timeout(DEADLINE, self.status.wait_for(is)).await.map(|status| status.unwrap().clone());
        found.unwrap_or_else(|_| panic!("never {what}; the status is {:?}", *self.status.borrow()))
    }

    /// The status after at least so many loads that succeeded.
    async fn loads(&mut self, loads: u64) -> RuleStatus {
        self.until(&format!("{loads} loads"), |status| status.loads >= loads).await
    }

    /// The status after at least so many loads that failed.
    async fn failures(&mut self, failures: u64) -> RuleStatus {
        self.until(&format!("{failures} failures"), |status| status.failures >= failures).await
    }

    /// Waits until exactly these domains are in force.
    async fn domains(&mut self, names: &[&str]) {
        let limiter = Arc::clone(&self.limiter);
        self.until(&format!("the domains {names:?}"), |_| domains_of(&limiter) == names).await;
    }

    /// Those of these addresses that are denied.
    fn denied<'a>(&self, addresses: &[&'a str]) -> Vec<&'a str> {
        let is_denied = |address: &&&str| {
            let entries = [Entry::from(("remote_address", **address))];
            let descriptors = [Descriptor::new(&entries)];
            self.limiter.check(&Request::new("shop", &descriptors)).at_once().verdict.is_deny()
        };
        addresses.iter().filter(is_denied).copied().collect()
    }

    /// How many a user of the domain may send, by its first rule.
    fn count(&self) -> u32 {
        self.limiter.rules().rules().first().unwrap().limit.count()
    }

    async fn stop(mut self) {
        drop(self.stop.take());
        timeout(DEADLINE, self.task).await.expect("the source does not stop").unwrap();
    }
}

fn domains_of(limiter: &Limiter) -> Vec<String> {
    let mut names: Vec<String> = limiter.rules().domains().map(str::to_owned).collect();
    names.sort();
    names
}

fn source(origin: RuleOrigin) -> RuleSource {
    let rules = RuleSettings {
        origin,
        merge_domains: false,
        force_start: false,
        healthy_needs_domain: false,
        stop_counting_rejected: false,
    };
    RuleSource::new(&rules, Arc::new(SystemClock::new()))
}

/// A rule file about one domain.
fn rules(domain: &str, count: u32) -> String {
    format!(
        "domain: {domain}\ndescriptors:\n  - key: user\n    \
         rate_limit: {{ requests_per_unit: {count}, unit: minute }}\n"
    )
}
