//! A connection that is ready to be asked.
//!
//! [`super::connect`] makes it; all requests of a thread share it, pipelined.
//!
//! Invariants: its driver lives on the runtime that connected; it knows that it
//! is dead as soon as its socket is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, RedisError, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;

use super::script::Script;
use crate::error::{FailureReport, ServerError, StoreFailure};

/// Requests that may queue for one connection before they wait to be queued.
/// A worker seldom has more at once.
const QUEUE: usize = 4096;

/// A connection that is ready to be asked.
#[derive(Debug)]
pub(crate) struct Connection {
    inner: MultiplexedConnection,
    is_dead: Arc<AtomicBool>,
    driver: AbortHandle,
    /// The names that the server has for the scripts.
    shas: Vec<(Script, String)>,
}

impl Connection {
    /// A connection over this stream, which is not logged in yet.
    pub(super) async fn new<S>(stream: S) -> Result<Self, ServerError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        // The library keeps the server's words about a login to itself.
        let info = RedisConnectionInfo::default().set_skip_set_lib_name();
        let (inner, driver) = MultiplexedConnection::new_with_config(&info, stream, config)
            .await
            .map_err(|error| ServerError::of(&error))?;
        let is_dead = Arc::new(AtomicBool::new(false));
        let dies = Arc::clone(&is_dead);
        let driver = tokio::spawn(async move {
            driver.await;
            dies.store(true, Ordering::Release);
        });
        Ok(Self { inner, is_dead, driver: driver.abort_handle(), shas: Vec::new() })
    }

    /// Loads all scripts, so that calls need only name them.
    pub(super) async fn load_scripts(&mut self) -> Result<(), ServerError> {
        let mut load = Pipeline::new();
        for script in Script::ALL {
            load.cmd("SCRIPT").arg("LOAD").arg(script.text());
        }
        for (script, reply) in Script::ALL.into_iter().zip(self.send_all(&load).await?) {
            let sha = redis::from_redis_value(reply)
                .map_err(|error| FailureReport::new(StoreFailure::Other, error))?;
            self.shas.push((script, sha));
        }
        Ok(())
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Acquire)
    }

    /// The name that the server has for a script.
    pub(crate) fn sha(&self, script: Script) -> &str {
        self.shas.iter().find(|(other, _)| *other == script).map_or("", |(_, sha)| sha)
    }

    /// Sends one command and awaits its reply.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, ServerError> {
        let mut inner = self.inner.clone();
        let value = inner.send_packed_command(command).await.map_err(|error| ServerError::of(&error))?;
        checked(value)
    }

    /// Sends several commands at once and awaits all replies.
    pub(crate) async fn send_all(&self, commands: &Pipeline) -> Result<Vec<Value>, ServerError> {
        let mut inner = self.inner.clone();
        let values = inner
            .send_packed_commands(commands, 0, commands.len())
            .await
            .map_err(|error| ServerError::of(&error))?;
        values.into_iter().map(checked).collect()
    }
}

/// Otherwise a driver would wait for replies that nobody wants any more.
impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

fn checked(value: Value) -> Result<Value, ServerError> {
    if let Value::ServerError(error) = value {
        return Err(ServerError::of(&RedisError::from(error)));
    }
    Ok(value)
}
