//! The servers of one endpoint, called as if they were one.
//!
//! [`crate::RedisStore`] has one client, or two where limits by the second are
//! kept elsewhere. A client knows which server has a key.

use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::time::Instant;
use tollgate_core::Time;

use super::batch_call::{BatchCall, KeyPassing};
use super::batcher;
use super::cluster::Cluster;
use super::connect::{CONNECT_TIMEOUT, ConnectTarget, Connector};
use super::script_args::ScriptArgs;
use super::script_reply::ScriptReply;
use super::server::{ServerCall, StoreServer, probe};
use crate::config::{Endpoint, Topology};
use crate::error::{Error, StoreFailure};
use crate::placement::keys;
use crate::stats::Stats;

/// The servers of one endpoint.
#[derive(Debug)]
pub(crate) struct EndpointClient {
    servers: EndpointServers,
    pub(crate) timeout: Duration,
}

#[derive(Debug)]
enum EndpointServers {
    One(Arc<StoreServer>),
    Cluster(Arc<Cluster>),
}

impl EndpointClient {
    pub(crate) fn new(endpoint: &Endpoint, prefix: &str, stats: &Arc<Stats>) -> Result<Self, Error> {
        let connector = Connector::new(endpoint)?;
        let (probe_key, stats) = (keys::probe(prefix), Arc::clone(stats));
        let target = match &endpoint.topology {
            Topology::Cluster(seeds) => {
                let cluster = Cluster::new(seeds.clone(), connector, probe_key, stats);
                return Ok(Self { servers: EndpointServers::Cluster(cluster), timeout: endpoint.timeout });
            }
            Topology::Single(address) => ConnectTarget::Address(address.clone()),
            Topology::Sentinel { master, sentinels, credentials } => {
                connector.sentinel_master(master, sentinels, credentials)
            }
        };
        let server = StoreServer::new(target, connector, probe_key, stats);
        Ok(Self { servers: EndpointServers::One(server), timeout: endpoint.timeout })
    }

    /// The slot of a key, if this is a cluster.
    pub(crate) fn slot(&self, key: &str) -> Option<u16> {
        match &self.servers {
            EndpointServers::One(_) => None,
            EndpointServers::Cluster(_) => Some(keys::slot(key)),
        }
    }

    /// Runs a script; all keys are of one slot. It decides at `now` if that is
    /// given, else by the server's own clock.
    pub(crate) async fn run_script(
        &self,
        args: impl Fn() -> ScriptArgs,
        now: Option<Time>,
        deadline: Instant,
    ) -> Result<ScriptReply, StoreFailure> {
        let reply = match &self.servers {
            _ if now.is_some() => None,
            EndpointServers::One(server) => {
                batcher::call(server, args(), KeyPassing::Declared, deadline).await?
            }
            EndpointServers::Cluster(cluster) => Box::pin(cluster.call_shared(args(), deadline)).await?,
        };
        match reply {
            Some(reply) => Ok(reply),
            None => Box::pin(self.run_alone(args(), now, deadline)).await,
        }
    }

    /// Requests with clocks of their own cannot share a call. One whose slot has
    /// moved must be redirected, for which its keys are declared.
    async fn run_alone(
        &self,
        args: ScriptArgs,
        now: Option<Time>,
        deadline: Instant,
    ) -> Result<ScriptReply, StoreFailure> {
        let batch = BatchCall::new(args, KeyPassing::Declared, now);
        let key = batch.keys().first().map(String::as_str).unwrap_or_default();
        let reply = self.call(key, &ServerCall::Script(&batch), deadline).await?;
        batch.read(reply).and_then(|mut replies| replies.pop()).ok_or(StoreFailure::Other)
    }

    /// Runs commands for this key, or for others of its slot.
    pub(crate) async fn run_commands(
        &self,
        key: &str,
        commands: &Pipeline,
        deadline: Instant,
    ) -> Result<Vec<Value>, StoreFailure> {
        let reply = self.call(key, &ServerCall::Commands(commands), deadline).await?;
        if let Value::Array(values) = reply { Ok(values) } else { Err(StoreFailure::Other) }
    }

    /// Whether a key of ours can be written.
    pub(crate) async fn takes_a_write(&self, prefix: &str) -> bool {
        let key = keys::probe(prefix);
        let mut write = Pipeline::new();
        write.add_command(probe(&key));
        self.run_commands(&key, &write, Instant::now() + CONNECT_TIMEOUT).await.is_ok()
    }

    async fn call(&self, key: &str, call: &ServerCall<'_>, deadline: Instant) -> Result<Value, StoreFailure> {
        match &self.servers {
            EndpointServers::One(server) => {
                server.call(call, deadline).await.map_err(|error| server.not_followed(error))
            }
            EndpointServers::Cluster(cluster) => {
                Box::pin(cluster.call(keys::slot(key), call, deadline)).await
            }
        }
    }
}
