//! Asks Redis from threads that may wait.
//!
//! The connections of this crate live on a Tokio runtime; a history is written and
//! asked by threads that have none. So a thread of its own drives the connection,
//! and whoever asks waits for its answer.
//!
//! Invariant: every call ends, by the timeout or because the thread has ended.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use crate::calls::endpoint_client::EndpointClient;
use crate::config::RedisConfig;
use crate::error::{Error, StoreFailure};
use crate::stats::Stats;

/// A history is not in a hurry, and reads more at once than a request does; but
/// a thread that stops the service waits for it.
const TIMEOUT_MIN: Duration = Duration::from_secs(2);

/// What the thread is asked for.
struct Job {
    /// A key of the slot that all commands are about.
    key: Arc<str>,
    commands: Pipeline,
    answer: SyncSender<Result<Vec<Value>, StoreFailure>>,
}

/// A connection that is asked from anywhere. It is made when it is first needed.
#[derive(Debug)]
pub(super) struct Client {
    jobs: UnboundedSender<Job>,
    key: Arc<str>,
    /// Where it goes, without a password.
    pub(super) server: String,
}

impl Client {
    /// Asks the main endpoint about keys that are in the slot of `key`.
    pub(super) fn new(config: &RedisConfig, key: &str) -> Result<Self, Error> {
        let backend = EndpointClient::new(&config.main, &config.key_prefix, &Arc::new(Stats::default()))?;
        let (jobs, waiting) = unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| Error::Thread { source })?;
        std::thread::Builder::new()
            .name("history-redis".into())
            .spawn(move || runtime.block_on(serve(backend, waiting)))
            .map_err(|source| Error::Thread { source })?;
        Ok(Self { jobs, key: key.into(), server: config.main.to_string() })
    }

    /// Sends commands and waits for all answers.
    pub(super) fn send(&self, commands: Pipeline) -> Result<Vec<Value>, StoreFailure> {
        let (answer, answered) = sync_channel(1);
        let job = Job { key: Arc::clone(&self.key), commands, answer };
        self.jobs.send(job).map_err(|_| StoreFailure::Lost)?;
        answered.recv().unwrap_or(Err(StoreFailure::Lost))
    }
}

/// Answers one job after the other, until nobody is left to ask.
async fn serve(backend: EndpointClient, mut jobs: UnboundedReceiver<Job>) {
    let timeout = backend.timeout.max(TIMEOUT_MIN);
    while let Some(job) = jobs.recv().await {
        let answer = backend.run_commands(&job.key, &job.commands, Instant::now() + timeout).await;
        // Whoever asked waits for it, and if not, nobody needs it.
        drop(job.answer.send(answer));
    }
}
