//! Puts everything together and runs it until it is told to stop.
//!
//! Each core has a worker thread with a runtime and listening sockets of its own
//! that answers callers; no call moves between threads. The thread that calls
//! [`run`] does the rest: rules, certificates, metrics, admin pages.
//!
//! | module | what it holds |
//! |---|---|
//! | `certificates` | the TLS of every listener that has any |
//! | `control` | how a running server is told to stop or to reload |
//! | `reload` | routes, upstreams and mappings that change while it runs |
//! | `worker` | the threads that answer callers |
//! | `store`, `snapshot` | where counters live, and how they survive a restart |
//! | `overrides` | the exceptions of operators |
//! | `load` | the load that elastic limits go by |
//! | `history` | when history is opened and written |
//! | `banner` | the first lines of the log: where it listens, what to try |
//!
//! Invariants: ports are open before the first rule is read. On a stop, first
//! health turns, then accepting ends, then calls in flight finish.
//!
//! Deliberately not here: settings, and how logs are written (`telemetry`).

mod banner;
mod certificates;
mod control;
mod history;
mod load;
mod overrides;
mod reload;
mod snapshot;
mod store;
mod worker;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, watch};
use tollgate_gateway::Gateway;
use tollgate_limiter::SystemClock;
use tollgate_rules::{LoadError, Loaded};

use crate::admin;
use crate::bounds::{CONNECTIONS_MAX, DRAIN_MAX};
use crate::deferred::{self, QueuePlace};
use crate::error::Error;
use crate::gateway::{ServeGateway, load_gateway, watch_upstreams};
use crate::grpc::{Grpc, ServeGrpc};
use crate::health::Health;
use crate::history::{HistoryLocation, HistoryService};
use crate::http::{self, Authz, ServeHttp};
use crate::listen::accept::Acceptor;
use crate::listen::address_limit::AddressLimit;
use crate::listen::connection_limit::ConnectionLimit;
use crate::listen::worker_pool::WorkerPool;
use crate::listen::{Listener, Listeners};
use crate::resp::ServeResp;
use crate::rule_log::RuleLog;
use crate::service::{Service, Sinks};
use crate::shutdown::stopped;
use crate::source::RuleSource;
use crate::telemetry::Tracer;
use certificates::Certificates;
use load::LoadMeters;
use reload::SettingsReload;
use snapshot::Snapshots;
use tollgate_metrics::statsd::StatsdExporter;
use tollgate_metrics::{Mapper, Metrics, MetricsConfig};
use tollgate_settings::Settings;
use worker::Worker;

pub use control::Control;

/// Connections of operators and their tools.
const ADMIN_CONNECTIONS_MAX: usize = 256;
/// How long the last write of counters and history may take at the end.
const LAST_FLUSH_MAX: Duration = Duration::from_secs(5);
/// How often expired keys that nobody asks for are dropped.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// How many worker threads there are: one for each core.
pub fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs a server until `control` says stop.
///
/// # Errors
/// If a certificate cannot be used, or the system refuses what a server needs.
pub fn run(settings: &Settings, listeners: Listeners, control: &Control) -> Result<(), Error> {
    let certificates = Certificates::load(settings)?;
    let background = runtime("tollgate-background")?;
    let tracer = {
        let _inside = background.enter();
        Tracer::new(settings.tracing.as_ref())?
    };
    let authz = Arc::new(Authz::load(settings)?);
    let health = Health::new(settings.rules.healthy_needs_domain);
    let health = health.starting_without_rules(settings.rules.force_start);
    let health = Arc::new(health.needing_store(settings.health_needs_store));
    let snapshots = store::snapshots(settings).map(Arc::new);
    let store = store::open(settings, snapshots.as_deref())?;
    let metrics = Arc::new(Metrics::new(metrics_config(settings)));
    let statsd = settings
        .metrics
        .statsd
        .as_ref()
        .map(|config| StatsdExporter::new(Arc::clone(&metrics), config))
        .transpose()?;
    let sinks = Sinks::new(Arc::clone(&metrics), history_service(settings));
    let rule_log = rule_log(sinks.history.as_deref());
    let overrides = overrides::open(&store, sinks.history.as_deref());
    let service = Service::new(settings, store, sinks, health, tracer);
    let service = Arc::new(service.with_rule_log(rule_log).with_overrides(overrides));
    watch(&service, &metrics);

    let gateway = settings.gateway.as_ref().map(|own| load_gateway(own, &authz, &service).map(Arc::new));
    let gateway = gateway.transpose()?;
    if let Some(gateway) = &gateway {
        watch_upstreams(gateway, &metrics);
        service.deferring().iter().for_each(|deferring| deferred::watch_deferred(deferring, &metrics));
    }

    let addresses = Arc::new(listeners.addresses().clone());
    let rules_loaded = Arc::default();
    let server = RunningServer {
        settings,
        service,
        certificates,
        snapshots,
        control,
        authz,
        gateway,
        addresses,
        rules_loaded,
    };
    let (closing, done) = (watch::Sender::new(false), watch::Sender::new(false));
    banner::listening(&server.addresses, settings);
    banner::gateway(&server.addresses, settings);
    banner::counting(&settings.store);
    history::open(&server.service);
    let Listeners { grpc, http, resp, gateway, admin, prometheus, .. } = listeners;
    let callers = CallerListeners { grpc, http, resp, gateway };
    let threads = server.start_workers(callers, &closing, &done)?;
    let operators = OperatorListeners { admin, prometheus };
    let ended = background.block_on(async {
        server.serve_operators(operators, &done);
        let statsd = statsd.map(|exporter| tokio::spawn(exporter.run(until(&done))));
        let ended = server.attend(closing, &done, threads).await;
        server.flush(statsd).await;
        ended
    });
    // Do not wait for a blocking task, such as a read of a file.
    background.shutdown_background();
    ended
}

/// Has the metrics tell how the store, the history and the load are doing.
fn watch(service: &Arc<Service>, metrics: &Metrics) {
    let weak = Arc::downgrade(service);
    metrics.watch_store(move || {
        weak.upgrade().map(|service| service.limiter().store().stats()).unwrap_or_default()
    });
    let weak = Arc::downgrade(service);
    metrics.watch_history(move || {
        let service = weak.upgrade()?;
        Some(service.history()?.status(service.now()).into())
    });
    let weak = Arc::downgrade(service);
    metrics
        .watch_load(move || weak.upgrade().map(|service| load::domain_loads(&service)).unwrap_or_default());
}

/// The history, unless it is turned off.
fn history_service(settings: &Settings) -> Option<Arc<HistoryService>> {
    let own = settings.history.as_ref()?;
    Some(Arc::new(HistoryService::new(HistoryLocation::new(&settings.store, own), own)))
}

/// What is known of earlier rules: it is kept beside the history, if that is in a folder.
fn rule_log(history: Option<&HistoryService>) -> RuleLog {
    let folder = history.and_then(|history| history.location().folder());
    folder.map_or_else(RuleLog::default, |folder| RuleLog::in_folder(folder.to_owned()))
}

fn metrics_config(settings: &Settings) -> MetricsConfig {
    let fallback = || match settings.metrics.response_time_in_ms {
        true => Mapper::default_in_millis(),
        false => Mapper::default(),
    };
    let mapper = settings.metrics.mapper.as_ref().map_or_else(fallback, |path| {
        Mapper::load(path).unwrap_or_else(|error| {
            tracing::warn!("cannot use the metrics mapping; using the default one");
            error.problems.iter().for_each(|problem| tracing::warn!("{problem}"));
            fallback()
        })
    });
    MetricsConfig { near_limit_ratio: settings.replies.near_limit_ratio, mapper, ..MetricsConfig::default() }
}

fn runtime(name: &'static str) -> Result<Runtime, Error> {
    let built = Builder::new_current_thread().enable_all().thread_name(name).build();
    built.map_err(|source| Error::System { what: "start a runtime", source })
}

/// What the parts of a running server share.
struct RunningServer<'a> {
    settings: &'a Settings,
    service: Arc<Service>,
    certificates: Certificates,
    /// None if counters are not saved.
    snapshots: Option<Arc<Snapshots>>,
    control: &'a Control,
    authz: Arc<Authz>,
    gateway: Option<Arc<Gateway<Service>>>,
    addresses: Arc<crate::listen::Addresses>,
    /// Tells whoever sends deferred requests that other rules are in force.
    rules_loaded: Arc<Notify>,
}

/// The sockets for callers, one of each for each worker that serves them.
struct CallerListeners {
    grpc: Vec<Listener>,
    http: Vec<Listener>,
    /// Perhaps none.
    resp: Vec<Listener>,
    /// Perhaps none.
    gateway: Vec<Listener>,
}

/// The sockets for operators and their tools.
struct OperatorListeners {
    admin: Listener,
    prometheus: Option<Listener>,
}

impl RunningServer<'_> {
    fn start_workers(
        &self,
        callers: CallerListeners,
        closing: &watch::Sender<bool>,
        done: &watch::Sender<bool>,
    ) -> Result<Vec<JoinHandle<io::Result<()>>>, Error> {
        let CallerListeners { grpc, http, resp, gateway } = callers;
        let runtimes: Vec<Runtime> =
            grpc.iter().map(|_| runtime("tollgate-worker")).collect::<Result<_, _>>()?;
        let pool = WorkerPool::new(runtimes.iter().map(|runtime| runtime.handle().clone()).collect());
        let limit = ConnectionLimit::for_callers();
        let settings = &self.settings.grpc;
        let (age, grace) = (settings.max_connection_age, settings.max_connection_age_grace);
        let serve_grpc =
            ServeGrpc::new(Grpc::new(Arc::clone(&self.service)), self.certificates.grpc.clone(), age, grace);
        let context = http::Context {
            service: Arc::clone(&self.service),
            addresses: Arc::clone(&self.addresses),
            authz: Arc::clone(&self.authz),
        };
        let serve_http = ServeHttp::calls(
            http::router(context),
            self.certificates.http.clone(),
            Arc::clone(&self.service),
        );
        let password = self.settings.resp.as_ref().and_then(|resp| resp.password.clone());
        let serve_resp = ServeResp::new(Arc::clone(&self.service), password, self.certificates.resp.clone());
        let resp = resp.into_iter().map(|listener| Some((listener, serve_resp.clone())));
        let resp = resp.chain(std::iter::repeat_with(|| None));
        let serve_gateway = self.serve_gateway();
        let gateway = gateway.into_iter().map(|listener| Some((listener, serve_gateway.clone()?)));
        let gateway = gateway.chain(std::iter::repeat_with(|| None));
        // Silent connections of the gateway wait for an answer as a rule, and make no room.
        let gateway_limit = ConnectionLimit::new(CONNECTIONS_MAX, CONNECTIONS_MAX);
        let addresses = AddressLimit::new(self.settings, self.service.limiter().sink().clone());
        let among = runtimes.len();
        let workers = runtimes.into_iter().zip(grpc).zip(http).zip(resp).zip(gateway).enumerate();
        let start = |(number, ((((runtime, grpc), http), resp), gateway))| {
            let acceptor = Acceptor {
                limit: Arc::clone(&limit),
                addresses: addresses.clone(),
                pool: Some((Arc::clone(&pool), among)),
                worker: number,
                stop: closing.subscribe(),
            };
            let (serve_grpc, serve_http) = (serve_grpc.clone(), serve_http.clone());
            let (grpc, http) = ((grpc, serve_grpc), (http, serve_http));
            let gateway_limit = Arc::clone(&gateway_limit);
            Worker { runtime, acceptor, grpc, http, resp, gateway, gateway_limit }.start(done.subscribe())
        };
        workers.map(start).collect()
    }

    /// What serves the gateway's connections, if there is one.
    fn serve_gateway(&self) -> Option<ServeGateway> {
        let gateway = self.gateway.as_ref()?;
        Some(ServeGateway::new(Arc::clone(gateway), self.certificates.gateway.clone()))
    }

    /// Runs all background work until the server stops.
    async fn attend(
        &self,
        closing: watch::Sender<bool>,
        done: &watch::Sender<bool>,
        threads: Vec<JoinHandle<io::Result<()>>>,
    ) -> Result<(), Error> {
        self.follow_rules(done);
        tokio::spawn(Arc::clone(&self.authz).follow(done.subscribe()));
        tokio::spawn(sweep(Arc::clone(&self.service), done.subscribe()));
        self.service.limiter().store().announce();
        tokio::spawn(overrides::follow(Arc::clone(&self.service), done.subscribe()));
        if self.service.limiter().store().is_remote() {
            tokio::spawn(store::watch_health(Arc::clone(&self.service), done.subscribe()));
        }
        let meters = LoadMeters { host: self.settings.host_load, gateway: self.gateway.clone() };
        tokio::spawn(load::measure(Arc::clone(&self.service), meters, done.subscribe()));
        if let Some(snapshots) = self.snapshots.clone() {
            tokio::spawn(snapshots.keep(Arc::clone(&self.service), done.subscribe()));
        }
        tokio::spawn(history::keep(Arc::clone(&self.service), done.subscribe()));
        self.certificates.follow(done);
        if let Some(origin) = self.settings.origin.clone() {
            let (service, authz) = (Arc::clone(&self.service), Arc::clone(&self.authz));
            let reload = SettingsReload { origin, service, authz, gateway: self.gateway.clone() };
            tokio::spawn(reload.follow(self.control.settings_notice(), done.subscribe()));
        }
        let mut sender = None;
        if let Some(gateway) = self.gateway.clone() {
            let place = QueuePlace::new(self.settings.defer.clone(), self.settings.store.clone());
            let (service, loaded) = (Arc::clone(&self.service), Arc::clone(&self.rules_loaded));
            let sending = deferred::run(Arc::clone(&gateway), service, place, loaded, done.subscribe());
            sender = Some(tokio::spawn(sending));
            let done = until(done);
            tokio::spawn(async move {
                tokio::select! {
                    () = gateway.check_upstreams() => {}
                    () = done => {}
                }
            });
        }
        let mut workers = tokio::task::JoinSet::new();
        for thread in threads {
            workers.spawn_blocking(move || thread.join());
        }
        let mut stop = self.control.stop_receiver();
        tokio::select! {
            () = stopped(&mut stop) => {}
            // A worker must not end before it is told to.
            _ = workers.join_next() => return Err(Error::Worker),
        }
        tracing::info!("stopping: calls in flight are being finished");
        self.service.health().stop();
        drain(closing).await;
        done.send_replace(true);
        while let Some(joined) = workers.join_next().await {
            let ended = joined.map_err(|_| Error::Worker)?.map_err(|_| Error::Worker)?;
            ended.map_err(|source| Error::System { what: "listen", source })?;
        }
        if let Some(sender) = sender
            && tokio::time::timeout(LAST_FLUSH_MAX, sender).await.is_err()
        {
            tracing::warn!("deferred requests that are on their way will be sent again");
        }
        tracing::info!("stopped");
        Ok(())
    }

    fn serve_operators(&self, operators: OperatorListeners, done: &watch::Sender<bool>) {
        let limit = ConnectionLimit::new(ADMIN_CONNECTIONS_MAX, ADMIN_CONNECTIONS_MAX / 2);
        let acceptor = Acceptor { limit, addresses: None, pool: None, worker: 0, stop: done.subscribe() };
        let pages = admin::router(Arc::clone(&self.service), self.settings);
        spawn_logged(acceptor.clone().run(operators.admin, ServeHttp::pages(pages)));
        if let (Some(listener), Some(own)) = (operators.prometheus, &self.settings.metrics.prometheus) {
            let page = admin::prometheus_router(Arc::clone(&self.service), &own.path);
            spawn_logged(acceptor.run(listener, ServeHttp::pages(page)));
        }
    }

    fn follow_rules(&self, done: &watch::Sender<bool>) {
        let source = RuleSource::new(&self.settings.rules, Arc::new(SystemClock::new()));
        let mut status = source.status();
        let service = Arc::clone(&self.service);
        let curl = banner::curl(self.settings.http_tls.as_ref(), self.addresses.http);
        tokio::spawn(async move {
            let mut is_first = true;
            while status.changed().await.is_ok() {
                let now = status.borrow_and_update().clone();
                if now.is_loaded() && std::mem::take(&mut is_first) {
                    banner::what_to_try(&service.limiter().rules(), &curl);
                }
                service.health().set_rules(now);
            }
        });
        let service = Arc::clone(&self.service);
        let rules_loaded = Arc::clone(&self.rules_loaded);
        let on_load = move |outcome: Result<Loaded, LoadError>| {
            // Another process may have the folder.
            let is_owner = service.history().is_some_and(|history| history.is_open());
            let at = service.now();
            match outcome {
                Ok(loaded) => {
                    service.limiter().replace_rules(loaded.rules);
                    service.health().set_rules_in_force();
                    rules_loaded.notify_one();
                    let rules = service.limiter().rules();
                    service.rule_log().loaded(&rules, at, is_owner);
                    service.metrics().rules_loaded(rules, service.now());
                }
                Err(error) => {
                    service.rule_log().refused(&error, at, is_owner);
                    service.metrics().rules_refused();
                }
            }
        };
        tokio::spawn(source.run(on_load, self.control.reload_notice(), until(done)));
    }

    /// Sends and saves what was counted and traced since the last time.
    async fn flush(&self, statsd: Option<tokio::task::JoinHandle<()>>) {
        if let Some(statsd) = statsd
            && tokio::time::timeout(LAST_FLUSH_MAX, statsd).await.is_err()
        {
            tracing::warn!("the last counters were not sent to StatsD in time");
        }
        if let Some(snapshots) = self.snapshots.clone() {
            snapshots.save(Arc::clone(&self.service)).await;
        }
        history::flush(&self.service).await;
        self.service.tracer().shutdown().await;
    }
}

/// Resolves when `done` says so.
fn until(done: &watch::Sender<bool>) -> impl Future<Output = ()> + Send + use<> {
    let mut done = done.subscribe();
    async move { stopped(&mut done).await }
}

/// Accepts no new connections, and waits for those there are.
async fn drain(closing: watch::Sender<bool>) {
    closing.send_replace(true);
    // Every accept loop and every connection holds a receiver.
    if tokio::time::timeout(DRAIN_MAX, closing.closed()).await.is_err() {
        tracing::warn!("some calls did not finish within {} s and were cut off", DRAIN_MAX.as_secs());
    }
}

async fn sweep(service: Arc<Service>, mut done: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = stopped(&mut done) => return,
            () = tokio::time::sleep(SWEEP_EVERY) => {}
        }
        let service = Arc::clone(&service);
        // Only a panic ends it early, and the next sweep is a minute away.
        drop(tokio::task::spawn_blocking(move || service.limiter().store().sweep(service.now())).await);
    }
}

fn spawn_logged(work: impl Future<Output = io::Result<()>> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(error) = work.await {
            tracing::error!(%error, "an admin or Prometheus listener failed");
        }
    });
}
