//! Sends commands to Redis from threads that may block.
//!
//! The connections of this crate live on a Tokio runtime, and a history or a queue is written and
//! read by threads without one. So a thread of its own drives the connection, and
//! callers wait for its reply.
//!
//! Invariant: every call ends, by the timeout or because the thread has ended.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use super::endpoint_client::EndpointClient;
use crate::config::RedisConfig;
use crate::error::{Error, StoreFailure};
use crate::stats::Stats;

/// These read more at once than a request does, so they have more time; but a server
/// that stops waits for them.
const TIMEOUT_MIN: Duration = Duration::from_secs(2);

/// Commands for the thread.
struct CommandJob {
    /// A key in the slot of all commands.
    key: Arc<str>,
    commands: Pipeline,
    answer: SyncSender<Result<Vec<Value>, StoreFailure>>,
}

/// A connection that any thread may use. It connects when it is first needed.
#[derive(Debug)]
pub(crate) struct BlockingClient {
    jobs: UnboundedSender<CommandJob>,
    key: Arc<str>,
    /// The server, without a password.
    pub(crate) server: String,
    stats: Arc<Stats>,
}

impl BlockingClient {
    /// For commands on keys in the slot of `key`, at the main endpoint, by a thread of
    /// this name.
    pub(crate) fn new(config: &RedisConfig, key: &str, thread: &str) -> Result<Self, Error> {
        let stats = Arc::new(Stats::default());
        let backend = EndpointClient::new(&config.main, &config.key_prefix, &stats)?;
        let (jobs, waiting) = unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| Error::Thread { source })?;
        std::thread::Builder::new()
            .name(thread.into())
            .spawn(move || {
                // The counters log an outage, and whoever asks its own errors.
                let silent = tracing::subscriber::NoSubscriber::default();
                tracing::subscriber::with_default(silent, || runtime.block_on(serve(backend, waiting)));
            })
            .map_err(|source| Error::Thread { source })?;
        Ok(Self { jobs, key: key.into(), server: config.main.to_string(), stats })
    }

    /// What the server or the system said about the last outage; empty if nothing.
    pub(crate) fn said(&self) -> Box<str> {
        self.stats.outage_said()
    }

    /// Sends commands and waits for all replies.
    pub(crate) fn send(&self, commands: Pipeline) -> Result<Vec<Value>, StoreFailure> {
        let (answer, answered) = sync_channel(1);
        let job = CommandJob { key: Arc::clone(&self.key), commands, answer };
        self.jobs.send(job).map_err(|_| StoreFailure::Lost)?;
        answered.recv().unwrap_or(Err(StoreFailure::Lost))
    }
}

/// Runs one job after the other, until the last client is dropped.
async fn serve(backend: EndpointClient, mut jobs: UnboundedReceiver<CommandJob>) {
    let timeout = backend.timeout.max(TIMEOUT_MIN);
    while let Some(job) = jobs.recv().await {
        let answer = backend.run_commands(&job.key, &job.commands, Instant::now() + timeout).await;
        // A caller that has gone does not need it.
        drop(job.answer.send(answer));
    }
}
