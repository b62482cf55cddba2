//! One server of the store: its connections, one for each thread, and its
//! circuit breaker.
//!
//! A worker of the service is a thread with a runtime of its own. Each worker
//! connects when it first asks, and sends all its requests down that connection,
//! so that no reply crosses from one thread to another.
//!
//! Invariants: [`StoreServer::call`] ends by its deadline, also while it
//! connects; while the circuit breaker is open it does not wait at all; nothing
//! is sent twice, because the server may have done what it did not live to
//! answer.
//!
//! Deliberately not here: slots, what scripts mean, and what to do without the
//! server.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::LocalKey;

use parking_lot::Mutex;
use redis::{Cmd, Pipeline, Value};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::batch_call::BatchCall;
use super::breaker::{self, CircuitBreaker};
use super::connect::{CONNECT_TIMEOUT, ConnectTarget, Connector};
use super::connection::Connection;
use super::outage_log::OutageLog;
use crate::error::{FailureReport, ServerError, StoreFailure};
use crate::stats::Stats;

/// How long the key of a probe lives; nobody reads it.
const PROBE_LIFE_MS: u32 = 1000;

/// What a server is called for.
#[derive(Clone, Copy)]
pub(crate) enum ServerCall<'a> {
    /// Run the script of a batch.
    Script(&'a BatchCall),
    /// Run these commands, and reply with an array.
    Commands(&'a Pipeline),
    /// The same, behind `ASKING`: the slot is moving to this server.
    AskingScript(&'a BatchCall),
    /// The same, behind `ASKING`: the slot is moving to this server.
    AskingCommands(&'a Pipeline),
}

impl ServerCall<'_> {
    /// How many requests wait for it.
    fn requests(&self) -> usize {
        match self {
            Self::Script(call) | Self::AskingScript(call) => call.requests(),
            Self::Commands(_) | Self::AskingCommands(_) => 1,
        }
    }

    /// The same for a server that the slot is moving to.
    pub(crate) const fn asking(&self) -> Self {
        match *self {
            Self::Script(call) | Self::AskingScript(call) => Self::AskingScript(call),
            Self::Commands(commands) | Self::AskingCommands(commands) => Self::AskingCommands(commands),
        }
    }
}

/// One server of the store.
#[derive(Debug)]
pub(crate) struct StoreServer {
    target: ConnectTarget,
    connector: Connector,
    probe_key: String,
    breaker: CircuitBreaker,
    log: OutageLog,
    /// Counts how often the breaker opened; older connections are not used.
    epoch: AtomicU64,
    stats: Arc<Stats>,
}

/// What a thread has of its own for each server.
pub(super) type PerThread<T> = RefCell<Vec<(Weak<StoreServer>, Arc<T>)>>;

/// What this thread has for a server.
pub(super) fn of_this_thread<T: Default>(
    all: &'static LocalKey<PerThread<T>>,
    server: &Arc<StoreServer>,
) -> Arc<T> {
    all.with_borrow_mut(|all| {
        if let Some((_, own)) = all.iter().find(|(other, _)| other.as_ptr() == Arc::as_ptr(server)) {
            return Arc::clone(own);
        }
        all.retain(|(other, _)| other.strong_count() > 0);
        let own = Arc::new(T::default());
        all.push((Arc::downgrade(server), Arc::clone(&own)));
        own
    })
}

/// The connection of one thread.
type ThreadConnection = Mutex<Option<ConnectionState>>;

#[derive(Debug)]
enum ConnectionState {
    Ready { connection: Arc<Connection>, epoch: u64 },
    Connecting(watch::Receiver<Option<ConnectResult>>),
}

type ConnectResult = Result<Arc<Connection>, StoreFailure>;

thread_local! {
    static CONNECTIONS: PerThread<ThreadConnection> = const { RefCell::new(Vec::new()) };
}

impl StoreServer {
    pub(crate) fn new(
        target: ConnectTarget,
        connector: Connector,
        probe_key: String,
        stats: Arc<Stats>,
    ) -> Arc<Self> {
        let (breaker, log, epoch) = (CircuitBreaker::default(), OutageLog::default(), AtomicU64::new(0));
        Arc::new(Self { target, connector, probe_key, breaker, log, epoch, stats })
    }

    /// Whether its circuit breaker is open.
    pub(crate) fn is_open(&self) -> bool {
        self.breaker.is_open()
    }

    /// Calls the server, once.
    pub(crate) async fn call(
        self: &Arc<Self>,
        call: &ServerCall<'_>,
        deadline: Instant,
    ) -> Result<Value, ServerError> {
        if self.breaker.is_open() {
            self.keep_probing();
            self.stats.note_failure(StoreFailure::Open);
            return Err(StoreFailure::Open.into());
        }
        let begin = Instant::now();
        let sent = async {
            let connection = self.connection().await?;
            self.send(&connection, call).await
        };
        let outcome = timeout_at(deadline, sent)
            .await
            .unwrap_or_else(|_| Err(FailureReport::new(StoreFailure::Timeout, "no reply in time").into()));
        match &outcome {
            Ok(_) => self.stats.note_round_trip(begin.elapsed()),
            Err(ServerError::Failure(report)) => self.stats.note_failure(report.failure),
            Err(_) => {}
        }
        self.judge(&outcome, call.requests());
        outcome
    }

    async fn send(&self, connection: &Connection, call: &ServerCall<'_>) -> Result<Value, ServerError> {
        let ServerCall::Script(batch) = call else {
            return Box::pin(self.send_rare(connection, call)).await;
        };
        match connection.send(&batch.evalsha(connection.sha(batch.script))).await {
            Err(ServerError::NoScript) => {
                self.stats.script_loads.add(1);
                Box::pin(connection.send(&batch.eval())).await
            }
            other => other,
        }
    }

    async fn send_rare(&self, connection: &Connection, call: &ServerCall<'_>) -> Result<Value, ServerError> {
        match call {
            ServerCall::Commands(commands) => connection.send_all(commands).await.map(Value::Array),
            ServerCall::Script(batch) => connection.send(&batch.eval()).await,
            ServerCall::AskingScript(batch) => {
                let mut commands = Pipeline::new();
                commands.cmd("ASKING").add_command(batch.eval());
                let mut replies = connection.send_all(&commands).await?;
                replies.pop().ok_or_else(|| StoreFailure::Other.into())
            }
            ServerCall::AskingCommands(plain) => {
                let mut commands = Pipeline::new();
                for command in plain.cmd_iter() {
                    commands.cmd("ASKING").add_command(command.clone());
                }
                let replies = connection.send_all(&commands).await?;
                Ok(Value::Array(replies.into_iter().skip(1).step_by(2).collect()))
            }
        }
    }

    /// Tells the circuit breaker how a call for so many requests ended.
    fn judge(self: &Arc<Self>, outcome: &Result<Value, ServerError>, requests: usize) {
        match outcome {
            Err(ServerError::Failure(report)) if report.failure == StoreFailure::Timeout => {
                if self.breaker.failed(u32::try_from(requests).unwrap_or(u32::MAX)) {
                    self.opened(report);
                }
            }
            // The next request connects, and if that fails the breaker opens.
            Err(ServerError::Failure(report)) if report.failure == StoreFailure::Lost => {}
            Err(ServerError::Failure(report)) if report.failure.is_lasting() => self.open(report),
            // The server works; it only did not do this.
            Err(ServerError::Failure(report)) => {
                self.breaker.succeeded();
                self.log.failed(&self.target, report);
            }
            Ok(_) | Err(_) => self.breaker.succeeded(),
        }
    }

    /// The failure where redirections are not followed.
    pub(crate) fn not_followed(&self, error: ServerError) -> StoreFailure {
        let is_logged = matches!(error, ServerError::Failure(_));
        let report = error.report();
        if !is_logged {
            self.log.failed(&self.target, &report);
        }
        report.failure
    }

    fn open(self: &Arc<Self>, report: &FailureReport) {
        if self.breaker.open() {
            self.opened(report);
        }
    }

    fn opened(self: &Arc<Self>, report: &FailureReport) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
        self.stats.opened.add(1);
        self.stats.set_outage(self.target.to_string(), report.clone());
        self.log.began(&self.target, report);
        self.keep_probing();
    }

    /// Probes the server from a task, with back-off, until it is back.
    fn keep_probing(self: &Arc<Self>) {
        if !self.breaker.claim_probe() {
            return;
        }
        let prober = Prober(Arc::downgrade(self));
        tokio::spawn(async move {
            let mut attempt = 0;
            loop {
                tokio::time::sleep(breaker::back_off(attempt)).await;
                let Some(server) = prober.0.upgrade() else { return };
                if server.probe().await {
                    return;
                }
                attempt = attempt.saturating_add(1);
            }
        });
    }

    /// Whether the server takes a write, on a new connection.
    async fn probe(self: &Arc<Self>) -> bool {
        let epoch = self.epoch.load(Ordering::Acquire);
        let connection = match self.connect_and_write().await {
            Ok(connection) => connection,
            Err(report) => {
                self.stats.note_failure(report.failure);
                self.stats.set_outage(self.target.to_string(), report.clone());
                self.log.goes_on(&self.target, &report);
                return false;
            }
        };
        self.stats.connections.add(1);
        let connection = Arc::new(connection);
        *of_this_thread(&CONNECTIONS, self).lock() = Some(ConnectionState::Ready { connection, epoch });
        let open_for = self.breaker.open_for();
        if self.breaker.close() {
            self.stats.closed.add(1);
            self.log.ended(&self.target, open_for);
        }
        true
    }

    async fn connect_and_write(&self) -> Result<Connection, FailureReport> {
        let connection = self.connector.connect_ready(&self.target).await?;
        match timeout(CONNECT_TIMEOUT, connection.send(&probe(&self.probe_key))).await {
            // In a cluster the key is most likely elsewhere, and only a server
            // that works says so.
            Ok(Ok(_) | Err(ServerError::Moved { .. })) => Ok(connection),
            Ok(Err(error)) => Err(error.report()),
            Err(_) => Err(FailureReport::new(StoreFailure::Timeout, "no reply in time")),
        }
    }

    /// The connection of this thread, which may have to be made.
    async fn connection(self: &Arc<Self>) -> ConnectResult {
        let mut connecting = match self.connection_state() {
            ConnectionState::Ready { connection, .. } => return Ok(connection),
            ConnectionState::Connecting(connecting) => connecting,
        };
        let connected = connecting.wait_for(Option::is_some).await.ok().and_then(|result| result.clone());
        connected.unwrap_or(Err(StoreFailure::Lost))
    }

    fn connection_state(self: &Arc<Self>) -> ConnectionState {
        let own = of_this_thread(&CONNECTIONS, self);
        let mut state = own.lock();
        match &*state {
            Some(ConnectionState::Ready { connection, epoch })
                if !connection.is_dead() && *epoch == self.epoch.load(Ordering::Acquire) =>
            {
                ConnectionState::Ready { connection: Arc::clone(connection), epoch: *epoch }
            }
            // A runtime that ended took its task with it.
            Some(ConnectionState::Connecting(connecting)) if connecting.has_changed().is_ok() => {
                ConnectionState::Connecting(connecting.clone())
            }
            _ => {
                let connecting = self.connect(Arc::clone(&own));
                *state = Some(ConnectionState::Connecting(connecting.clone()));
                ConnectionState::Connecting(connecting)
            }
        }
    }

    fn connect(self: &Arc<Self>, own: Arc<ThreadConnection>) -> watch::Receiver<Option<ConnectResult>> {
        let (sender, connecting) = watch::channel(None);
        let server = Arc::clone(self);
        tokio::spawn(async move {
            let epoch = server.epoch.load(Ordering::Acquire);
            let connected = server.connector.connect_ready(&server.target).await;
            let connected = connected.map(Arc::new).map_err(|report| {
                server.open(&report);
                report.failure
            });
            *own.lock() = connected.as_ref().ok().map(|connection| {
                server.stats.connections.add(1);
                ConnectionState::Ready { connection: Arc::clone(connection), epoch }
            });
            sender.send_replace(Some(connected));
        });
        connecting
    }
}

/// A write that harms nobody.
pub(crate) fn probe(key: &str) -> Cmd {
    let mut write = redis::cmd("SET");
    write.arg(key).arg(1).arg("PX").arg(PROBE_LIFE_MS);
    write
}

/// A server that leaves a cluster no longer counts as open.
impl Drop for StoreServer {
    fn drop(&mut self) {
        if self.breaker.is_open() {
            self.stats.closed.add(1);
        }
    }
}

/// The task that probes. Wherever it ends, another may begin.
struct Prober(Weak<StoreServer>);

impl Drop for Prober {
    fn drop(&mut self) {
        if let Some(server) = self.0.upgrade() {
            server.breaker.release_probe();
        }
    }
}
