//! Puts everything together and runs it until it is told to stop.
//!
//! One worker thread for each core, each with a runtime and listening sockets
//! of its own, answers callers; no call moves between threads. The thread that
//! calls [`run`] does the rest: rules, certificates, metrics, admin pages.
//!
//! | module | what it holds |
//! |---|---|
//! | `certificates` | the TLS of every listener that has any |
//! | `control` | how a running server is told to stop or to reload |
//! | `worker` | the threads that answer callers |
//! | `store`, `snapshot` | where counters live, and how they survive a restart |
//! | `history` | when history is opened and written |
//! | `first_lines` | what the log says first: where it listens, what to try |
//!
//! Invariants: ports are open before the first rule is read. On a stop, health
//! turns first, then nobody new gets in, then calls in flight finish.
//!
//! Deliberately not here: settings, and how logs are written (`telemetry`).

mod certificates;
mod control;
mod first_lines;
mod history;
mod snapshot;
mod store;
mod worker;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tollgate_limiter::SystemClock;
use tollgate_rules::{LoadError, Loaded};

use crate::admin;
use crate::bounds::DRAIN_MAX;
use crate::error::Error;
use crate::grpc::{Grpc, ServeGrpc};
use crate::health::Health;
use crate::history::{Counting, Keeper, Place};
use crate::http::{self, Authz, ServeHttp};
use crate::listen::accept::{Site, accept_all};
use crate::listen::gate::Gate;
use crate::listen::life::stopped;
use crate::listen::pool::Pool;
use crate::listen::{Listener, Listeners};
use crate::resp::ServeResp;
use crate::service::{Service, Sinks};
use crate::source::RuleSource;
use crate::telemetry::Tracer;
use certificates::Certificates;
use snapshot::Snapshots;
use tollgate_metrics::statsd::Exporter;
use tollgate_metrics::{Mapper, Metrics, MetricsConfig};
use tollgate_settings::Settings;
use worker::Worker;

pub use control::Control;

/// Connections of operators and their tools.
const ADMIN_CONNECTIONS_MAX: usize = 256;
/// So long may the last counters take on their way out.
const LAST_FLUSH_MAX: Duration = Duration::from_secs(5);
/// Keys that have run out are dropped so often where nobody asks for them.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// How many threads answer callers: one for each core.
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
        .map(|config| Exporter::new(Arc::clone(&metrics), config))
        .transpose()?;
    let sinks = Sinks { metrics: Arc::clone(&metrics), history: keeper(settings) };
    let service = Arc::new(Service::new(settings, store, sinks, health, tracer));
    let weak = Arc::downgrade(&service);
    metrics.watch_store(move || {
        weak.upgrade().map(|service| service.limiter().store().stats()).unwrap_or_default()
    });
    let weak = Arc::downgrade(&service);
    metrics.watch_history(move || Some(weak.upgrade()?.history()?.status().into()));

    let addresses = Arc::new(listeners.addresses().clone());
    let server = Server { settings, service, certificates, snapshots, control, authz, addresses };
    let (closing, done) = (watch::Sender::new(false), watch::Sender::new(false));
    first_lines::listening(&server.addresses, settings);
    first_lines::counting(&settings.store);
    history::open(&server.service);
    let callers = Callers { grpc: listeners.grpc, http: listeners.http, resp: listeners.resp };
    let threads = server.start_workers(callers, &closing, &done)?;
    let operators = Operators { admin: listeners.admin, prometheus: listeners.prometheus };
    let ended = background.block_on(async {
        server.serve_operators(operators, &done);
        let statsd = statsd.map(|exporter| tokio::spawn(exporter.run(until(&done))));
        let ended = server.attend(closing, &done, threads).await;
        server.tell_the_last(statsd).await;
        ended
    });
    // Nothing that is still blocked, such as a look at a file, keeps us.
    background.shutdown_background();
    ended
}

/// What keeps history, unless it is turned off.
fn keeper(settings: &Settings) -> Option<Arc<Keeper>> {
    let own = settings.history.as_ref()?;
    let counting = Arc::new(Counting::new(own));
    let place = Place::new(&settings.store, own);
    Some(Arc::new(Keeper::new(place, own, counting)))
}

fn metrics_config(settings: &Settings) -> MetricsConfig {
    let fallback = || match settings.metrics.response_time_in_ms {
        true => Mapper::default_in_millis(),
        false => Mapper::default(),
    };
    let mapper = settings.metrics.mapper.as_ref().map_or_else(fallback, |path| {
        Mapper::load(path).unwrap_or_else(|error| {
            tracing::warn!(%error, "the mapping of metrics cannot be used; the default one is");
            fallback()
        })
    });
    MetricsConfig { near_limit_ratio: settings.answers.near_limit_ratio, mapper, ..MetricsConfig::default() }
}

fn runtime(name: &'static str) -> Result<Runtime, Error> {
    let built = Builder::new_current_thread().enable_all().thread_name(name).build();
    built.map_err(|source| Error::System { what: "start a runtime", source })
}

/// What the parts of a running server share.
struct Server<'a> {
    settings: &'a Settings,
    service: Arc<Service>,
    certificates: Certificates,
    /// None where counters are not kept, or elsewhere.
    snapshots: Option<Arc<Snapshots>>,
    control: &'a Control,
    authz: Arc<Authz>,
    addresses: Arc<crate::listen::Addresses>,
}

/// The sockets for callers, one of each for each worker that serves them.
struct Callers {
    grpc: Vec<Listener>,
    http: Vec<Listener>,
    /// Perhaps none.
    resp: Vec<Listener>,
}

/// The sockets for operators and their tools.
struct Operators {
    admin: Listener,
    prometheus: Option<Listener>,
}

impl Server<'_> {
    fn start_workers(
        &self,
        callers: Callers,
        closing: &watch::Sender<bool>,
        done: &watch::Sender<bool>,
    ) -> Result<Vec<JoinHandle<io::Result<()>>>, Error> {
        let Callers { grpc, http, resp } = callers;
        let runtimes: Vec<Runtime> =
            grpc.iter().map(|_| runtime("tollgate-worker")).collect::<Result<_, _>>()?;
        let pool = Pool::new(runtimes.iter().map(|runtime| runtime.handle().clone()).collect());
        let gate = Gate::for_callers();
        let settings = &self.settings.grpc;
        let (age, grace) = (settings.max_connection_age, settings.max_connection_age_grace);
        let serve_grpc =
            ServeGrpc::new(Grpc::new(Arc::clone(&self.service)), self.certificates.grpc.clone(), age, grace);
        let context = http::Context {
            service: Arc::clone(&self.service),
            addresses: Arc::clone(&self.addresses),
            authz: Arc::clone(&self.authz),
        };
        let serve_http = ServeHttp::new(http::router(context), self.certificates.http.clone())
            .answering(Arc::clone(&self.service));
        let password = self.settings.resp.as_ref().and_then(|resp| resp.password.clone());
        let serve_resp = ServeResp::new(Arc::clone(&self.service), password, self.certificates.resp.clone());
        let resp = resp.into_iter().map(|listener| Some((listener, serve_resp.clone())));
        let resp = resp.chain(std::iter::repeat_with(|| None));
        let among = runtimes.len();
        let workers = runtimes.into_iter().zip(grpc).zip(http).zip(resp).enumerate();
        let start = |(number, (((runtime, grpc), http), resp))| {
            let site = Site {
                gate: Arc::clone(&gate),
                pool: Some((Arc::clone(&pool), among)),
                worker: number,
                stop: closing.subscribe(),
            };
            let (serve_grpc, serve_http) = (serve_grpc.clone(), serve_http.clone());
            Worker { runtime, site, grpc: (grpc, serve_grpc), http: (http, serve_http), resp }
                .start(done.subscribe())
        };
        workers.map(start).collect()
    }

    /// Does all that is not answering callers, until the end.
    async fn attend(
        &self,
        closing: watch::Sender<bool>,
        done: &watch::Sender<bool>,
        threads: Vec<JoinHandle<io::Result<()>>>,
    ) -> Result<(), Error> {
        self.follow_rules(done);
        tokio::spawn(Arc::clone(&self.authz).follow(done.subscribe()));
        tokio::spawn(sweep(Arc::clone(&self.service), done.subscribe()));
        if self.service.limiter().store().is_remote() {
            tokio::spawn(store::look_after(Arc::clone(&self.service), done.subscribe()));
        }
        if let Some(snapshots) = self.snapshots.clone() {
            tokio::spawn(snapshots.keep(Arc::clone(&self.service), done.subscribe()));
        }
        tokio::spawn(history::keep(Arc::clone(&self.service), done.subscribe()));
        self.certificates.follow(done);
        let mut workers = tokio::task::JoinSet::new();
        for thread in threads {
            workers.spawn_blocking(move || thread.join());
        }
        let mut stop = self.control.stop_receiver();
        tokio::select! {
            () = stopped(&mut stop) => {}
            // A worker ends only when it is told to.
            _ = workers.join_next() => return Err(Error::Worker),
        }
        tracing::info!("stopping: finishing the calls in flight");
        self.service.health().stop();
        drain(closing).await;
        done.send_replace(true);
        while let Some(joined) = workers.join_next().await {
            let ended = joined.map_err(|_| Error::Worker)?.map_err(|_| Error::Worker)?;
            ended.map_err(|source| Error::System { what: "listen", source })?;
        }
        tracing::info!("stopped");
        Ok(())
    }

    fn serve_operators(&self, operators: Operators, done: &watch::Sender<bool>) {
        let gate = Gate::new(ADMIN_CONNECTIONS_MAX, ADMIN_CONNECTIONS_MAX / 2);
        let site = Site { gate, pool: None, worker: 0, stop: done.subscribe() };
        let pages = admin::router(Arc::clone(&self.service), self.settings.admin.token.clone());
        spawn_logged(accept_all(operators.admin, site.clone(), ServeHttp::new(pages, None)));
        if let (Some(listener), Some(own)) = (operators.prometheus, &self.settings.metrics.prometheus) {
            let page = admin::prometheus_router(Arc::clone(&self.service), &own.path);
            spawn_logged(accept_all(listener, site, ServeHttp::new(page, None)));
        }
    }

    fn follow_rules(&self, done: &watch::Sender<bool>) {
        let source = RuleSource::new(&self.settings.rules, Arc::new(SystemClock::new()));
        let mut status = source.status();
        let health = Arc::clone(self.service.health());
        tokio::spawn(async move {
            while status.changed().await.is_ok() {
                let now = status.borrow_and_update().clone();
                health.set_rules(now);
            }
        });
        let (service, addresses) = (Arc::clone(&self.service), Arc::clone(&self.addresses));
        let curl = first_lines::curl(self.settings.http_tls.as_ref(), addresses.http);
        let mut is_first = true;
        let on_load = move |outcome: Result<Loaded, LoadError>| match outcome {
            Ok(loaded) => {
                service.limiter().replace_rules(loaded.rules);
                service.health().set_rules_in_force();
                let rules = service.limiter().rules();
                if std::mem::take(&mut is_first) {
                    first_lines::what_to_try(&rules, &curl);
                }
                service.metrics().rules_loaded(rules, service.now());
            }
            Err(_) => service.metrics().rules_refused(),
        };
        tokio::spawn(source.run(on_load, self.control.reload_notice(), until(done)));
    }

    /// Sends what has been counted and traced since the last time.
    async fn tell_the_last(&self, statsd: Option<tokio::task::JoinHandle<()>>) {
        if let Some(statsd) = statsd
            && tokio::time::timeout(LAST_FLUSH_MAX, statsd).await.is_err()
        {
            tracing::warn!("the last counters could not be sent to StatsD in time");
        }
        if let Some(snapshots) = self.snapshots.clone() {
            snapshots.save(Arc::clone(&self.service)).await;
        }
        history::write_the_last(&self.service).await;
        self.service.tracer().shutdown().await;
    }
}

/// Resolves when `done` says so.
fn until(done: &watch::Sender<bool>) -> impl Future<Output = ()> + Send + use<> {
    let mut done = done.subscribe();
    async move { stopped(&mut done).await }
}

/// Lets nobody new in, and waits for those who are.
async fn drain(closing: watch::Sender<bool>) {
    closing.send_replace(true);
    // Every accept loop and every connection holds a receiver.
    if tokio::time::timeout(DRAIN_MAX, closing.closed()).await.is_err() {
        tracing::warn!("some calls did not finish within {} s and are cut off", DRAIN_MAX.as_secs());
    }
}

async fn sweep(service: Arc<Service>, mut done: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = stopped(&mut done) => return,
            () = tokio::time::sleep(SWEEP_EVERY) => {}
        }
        let service = Arc::clone(&service);
        // Only a panic ends it early, and the next one is a minute away.
        drop(tokio::task::spawn_blocking(move || service.limiter().store().sweep(service.now())).await);
    }
}

fn spawn_logged(work: impl Future<Output = io::Result<()>> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(error) = work.await {
            tracing::error!(%error, "a listener for operators ended");
        }
    });
}
