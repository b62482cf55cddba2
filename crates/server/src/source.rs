//! Where rules come from: files that change, or an xDS server.
//!
//! [`tollgate_settings::RuleSettings`] says where to look; [`RuleSource::run`] loads,
//! watches and loads again, hands every result on, and keeps a [`RuleStatus`]
//! for health, metrics and the admin pages.
//!
//! | module | what it does |
//! |---|---|
//! | `files` | which rule files there are, and their texts |
//! | `folder_watch` | the system's notifications that a file may have changed |
//! | `poll` | polls the files and loads what has changed |
//! | `xds` | keeps a stream to an xDS server, loads what it sends |
//! | `report` | hands a loaded or refused set on, logs it, updates the status |
//! | `status` | [`RuleStatus`], what is known about the rules in force |
//!
//! Invariant: a set that cannot be loaded changes nothing but the status.
//! Invariant: the result does not depend on the order of files.
//!
//! Deliberately not here: what rules mean, and who puts them in force.

mod files;
mod folder_watch;
mod poll;
mod report;
mod status;
mod xds;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{Notify, watch as channel};
use tollgate_limiter::Clock;
use tollgate_rules::{LoadError, Loaded, Options};
use tollgate_settings::{RuleOrigin, RuleSettings};

use files::RuleFiles;
use report::LoadReporter;
pub use status::{LoadFailure, RuleStatus};

/// Where rules come from.
///
/// ```no_run
/// use std::sync::Arc;
/// use tokio::sync::Notify;
/// use tollgate_limiter::{Limiter, SystemClock};
/// use tollgate_settings::{Flags, Settings};
/// use tollgate_server::source::RuleSource;
///
/// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
/// let (settings, _) = Settings::load(&Flags::default())?;
/// let source = RuleSource::new(&settings.rules, Arc::new(SystemClock::new()));
/// let mut status = source.status();
/// let limiter = Arc::new(Limiter::new(Default::default()));
/// let (target, reload) = (Arc::clone(&limiter), Arc::new(Notify::new()));
/// tokio::spawn(source.run(
///     move |result| {
///         if let Ok(loaded) = result {
///             target.replace_rules(loaded.rules);
///         }
///     },
///     reload,
///     std::future::pending(),
/// ));
/// let first = status.wait_for(|status| status.is_decided()).await?.clone();
/// # drop(first);
/// # Ok(())
/// # }
/// ```
pub struct RuleSource {
    origin: RuleOrigin,
    base: PathBuf,
    options: Options,
    clock: Arc<dyn Clock>,
    status: channel::Sender<RuleStatus>,
}

impl RuleSource {
    /// A source that has not been asked yet.
    pub fn new(rules: &RuleSettings, clock: Arc<dyn Clock>) -> Self {
        Self {
            origin: rules.origin.clone(),
            base: PathBuf::new(),
            options: Options {
                merge_domains: rules.merge_domains,
                stop_counting_rejected: rules.stop_counting_rejected,
            },
            clock,
            status: channel::Sender::new(RuleStatus::default()),
        }
    }

    /// The same, looking for paths that do not begin with `/` in this folder.
    #[must_use]
    pub fn in_folder(mut self, folder: PathBuf) -> Self {
        self.base = folder;
        self
    }

    /// What is known about the rules, now and later. It changes after
    /// `on_load` of [`RuleSource::run`] has returned.
    pub fn status(&self) -> channel::Receiver<RuleStatus> {
        self.status.subscribe()
    }

    /// Loads rules and hands them to `on_load`, then again whenever they
    /// change and whenever `reload` is notified, until `shutdown`.
    ///
    /// A set that cannot be loaded is handed on as an error; whoever holds the
    /// old rules keeps them.
    pub async fn run(
        self,
        on_load: impl FnMut(Result<Loaded, LoadError>) + Send,
        reload: Arc<Notify>,
        shutdown: impl Future<Output = ()> + Send,
    ) {
        let Self { origin, base, options, clock, status } = self;
        let reporter = LoadReporter::new(on_load, clock, status);
        let work = async {
            match origin {
                RuleOrigin::Xds(xds) => xds::run(xds, options, reporter, &reload).await,
                RuleOrigin::Paths(_) | RuleOrigin::Runtime(_) | RuleOrigin::Default => {
                    poll::run(RuleFiles::new(origin, base), options, reporter, &reload).await;
                }
            }
        };
        tokio::select! {
            () = work => {}
            () = shutdown => {}
        }
    }
}
