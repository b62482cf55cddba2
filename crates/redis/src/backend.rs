//! The servers of one endpoint, asked as if they were one.
//!
//! [`crate::RedisStore`] has one backend, or two where limits by the second
//! are kept apart. A backend knows which server to ask for a name.

use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::time::Instant;
use tollgate_core::Time;

use crate::cluster::Cluster;
use crate::codec::Seen;
use crate::config::{Endpoint, Topology};
use crate::dial::{self, DIAL_TIMEOUT, Dialer};
use crate::error::{Error, Trouble};
use crate::keys;
use crate::node::{self, Ask, Node};
use crate::question::Question;
use crate::round::Round;
use crate::stats::Stats;

/// The servers of one endpoint.
#[derive(Debug)]
pub(crate) struct Backend {
    servers: Servers,
    pub(crate) timeout: Duration,
}

#[derive(Debug)]
enum Servers {
    One(Arc<Node>),
    Cluster(Arc<Cluster>),
}

impl Backend {
    pub(crate) fn new(endpoint: &Endpoint, prefix: &str, stats: &Arc<Stats>) -> Result<Self, Error> {
        let dialer = Dialer::new(endpoint)?;
        let (probe_key, stats) = (keys::probe(prefix), Arc::clone(stats));
        let servers = match &endpoint.topology {
            Topology::Cluster(seeds) => {
                Servers::Cluster(Cluster::new(seeds.clone(), dialer, probe_key, stats))
            }
            Topology::Single(address) => {
                Servers::One(Node::new(dial::Target::Address(address.clone()), dialer, probe_key, stats))
            }
            Topology::Sentinel { master, sentinels, credentials } => {
                let target = dialer.master(master, sentinels, credentials);
                Servers::One(Node::new(target, dialer, probe_key, stats))
            }
        };
        Ok(Self { servers, timeout: endpoint.timeout })
    }

    /// The slot of a name, where that matters.
    pub(crate) fn slot(&self, name: &str) -> Option<u16> {
        match &self.servers {
            Servers::One(_) => None,
            Servers::Cluster(_) => Some(keys::slot(name)),
        }
    }

    /// Has a script decide; all keys are of one slot. On the server's own clock
    /// unless `now` is given.
    pub(crate) async fn ask(
        &self,
        question: Question,
        now: Option<Time>,
        deadline: Instant,
    ) -> Result<Seen, Trouble> {
        match &self.servers {
            Servers::One(node) if now.is_none() => {
                let told = node.ask(question, deadline);
                told.await.unwrap_or(Err(Trouble::Lost))
            }
            Servers::One(_) | Servers::Cluster(_) => {
                Box::pin(self.ask_alone(Round::new(question, now), deadline)).await
            }
        }
    }

    /// Keys of several slots cannot share a call, and neither can times.
    async fn ask_alone(&self, round: Round, deadline: Instant) -> Result<Seen, Trouble> {
        let name = round.keys().first().map(String::as_str).unwrap_or_default();
        let answer = self.call(name, &Ask::Script(&round), deadline).await?;
        round.read(answer).and_then(|mut seen| seen.pop()).ok_or(Trouble::Other)
    }

    /// Runs commands that all are about this name, or about its slot.
    pub(crate) async fn commands(
        &self,
        name: &str,
        commands: &Pipeline,
        deadline: Instant,
    ) -> Result<Vec<Value>, Trouble> {
        let answer = self.call(name, &Ask::Commands(commands), deadline).await?;
        if let Value::Array(values) = answer { Ok(values) } else { Err(Trouble::Other) }
    }

    /// Whether a key of ours can be written.
    pub(crate) async fn takes_a_write(&self, prefix: &str) -> bool {
        let name = keys::probe(prefix);
        let mut write = Pipeline::new();
        write.add_command(node::probe(&name));
        self.commands(&name, &write, Instant::now() + DIAL_TIMEOUT).await.is_ok()
    }

    async fn call(&self, name: &str, ask: &Ask<'_>, deadline: Instant) -> Result<Value, Trouble> {
        match &self.servers {
            Servers::One(node) => node.call(ask, deadline).await.map_err(dial::trouble),
            Servers::Cluster(cluster) => Box::pin(cluster.call(keys::slot(name), ask, deadline)).await,
        }
    }
}
