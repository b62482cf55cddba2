//! Requests that are sent later, in the Redis that all nodes share.
//!
//! Any node takes requests in. One node at a time has the lease and sends, so that requests of one key
//! go out in their order; the stream's consumer group remembers which ones it was given. When it has
//! given the lease up, or has not been heard of for [`LEASE`], the next node that asks claims them.
//!
//! | key | what |
//! |---|---|
//! | `d1:{deferred}:stream` | a stream: the requests, in their order |
//! | `d1:{deferred}:waiting` | a hash by id: entry in the stream, bytes, attempts, not before, on its way |
//! | `d1:{deferred}:bytes` | what they take |
//! | `d1:{deferred}:lease` | which node sends |
//! | `d1:{deferred}:ended`, `:ended_at`, `:ended_bytes` | results by id, when they came, what they take |
//!
//! Invariants: one hash tag for all, so that a cluster keeps them in one slot. A request is in the
//! stream before its caller is told, and leaves it after its result is there. A node starts to send
//! only while it has the lease; a result counts whoever brings it, because it was sent.
//!
//! Deliberately not here: what happens when Redis itself loses what it had acknowledged.

use std::time::Duration;

use redis::{FromRedisValue, Pipeline, Value};
use tollgate_core::Time;
use tollgate_defer::config::BACKOFF_MAX;
use tollgate_defer::{
    DeferConfig, DeferError, DeferQueue, DeferredEnd, DeferredId, DeferredRequest, DeferredState,
    DeferredStatus, QueueChange, QueueReply, QueueSize, SendProgress, TakenRequests,
};

use crate::calls::blocking_client::BlockingClient;
use crate::config::RedisConfig;
use crate::error::{Error, StoreFailure};

/// A node that was not heard of for so long does not send any more, and another one does.
pub const LEASE: Duration = Duration::from_secs(2);
/// Requests that are given out at once: with the longest bodies 25 MB.
const TAKEN_MAX: usize = 100;
/// The name of the consumer group.
const GROUP: &str = "senders";

const ACCEPT: &str = include_str!("../lua/deferred/accept.lua");
const TAKE: &str = concat!(
    include_str!("../lua/deferred/row.lua"),
    include_str!("../lua/deferred/sweep.lua"),
    include_str!("../lua/deferred/take.lua")
);
const START: &str =
    concat!(include_str!("../lua/deferred/row.lua"), include_str!("../lua/deferred/start.lua"));
const RETRY: &str =
    concat!(include_str!("../lua/deferred/row.lua"), include_str!("../lua/deferred/retry.lua"));
const FINISH: &str = concat!(
    include_str!("../lua/deferred/row.lua"),
    include_str!("../lua/deferred/sweep.lua"),
    include_str!("../lua/deferred/finish.lua")
);
const GIVE_UP: &str = include_str!("../lua/deferred/give_up.lua");
const STATUS: &str =
    concat!(include_str!("../lua/deferred/row.lua"), include_str!("../lua/deferred/status.lua"));

/// The queue in the Redis of all nodes. It connects when it is first asked, and blocks: not for a
/// thread that answers requests.
#[derive(Debug)]
pub struct RedisQueue {
    client: BlockingClient,
    config: DeferConfig,
    keys: QueueKeys,
    /// This process, as a holder of the lease and a consumer.
    node: String,
    /// What is to be claimed of what others were given; empty if nothing is.
    cursor: String,
}

#[derive(Debug)]
struct QueueKeys {
    stream: String,
    waiting: String,
    bytes: String,
    lease: String,
    ended: String,
    ended_at: String,
    ended_bytes: String,
}

/// Whether it is this node's turn, where to go on claiming, and requests with their progress.
type TakeReply = (u8, String, Vec<(Vec<u8>, u32, u64)>);
/// Whether it waits (1) or has ended (2), its result, how often it was tried, whether it is on its way.
type StatusReply = (u8, Vec<u8>, u32, u8);

impl RedisQueue {
    /// The queue in the main endpoint, behind the same prefix as the counters.
    ///
    /// # Errors
    /// If certificates or keys for TLS cannot be used, or there can be no thread.
    pub fn new(redis: &RedisConfig, config: DeferConfig) -> Result<Self, Error> {
        let key = |name: &str| format!("{}d1:{{deferred}}:{name}", redis.key_prefix);
        let keys = QueueKeys {
            stream: key("stream"),
            waiting: key("waiting"),
            bytes: key("bytes"),
            lease: key("lease"),
            ended: key("ended"),
            ended_at: key("ended_at"),
            ended_bytes: key("ended_bytes"),
        };
        let client = BlockingClient::new(redis, &keys.stream, "defer-redis")?;
        let node = DeferredId::random().to_string();
        Ok(Self { client, config, keys, node, cursor: String::new() })
    }

    fn send(&self, commands: Pipeline) -> Result<Vec<Value>, DeferError> {
        self.client.send(commands).map_err(|failure| self.failed(failure))
    }

    fn failed(&self, failure: StoreFailure) -> DeferError {
        let said = self.client.said();
        let colon = if said.is_empty() { "" } else { ": " };
        DeferError::store(format!(
            "{} could not be asked ({}{colon}{said})",
            self.client.server,
            failure.name()
        ))
    }

    fn one<T: FromRedisValue>(&self, commands: Pipeline) -> Result<T, DeferError> {
        let reply = self.send(commands)?.pop().unwrap_or(Value::Nil);
        self.read(reply)
    }

    fn read<T: FromRedisValue>(&self, reply: Value) -> Result<T, DeferError> {
        redis::from_redis_value(reply).map_err(|_| self.failed(StoreFailure::BadState))
    }

    fn add(&self, commands: &mut Pipeline, change: &QueueChange) {
        let Self { keys, config, node, .. } = self;
        match change {
            QueueChange::Accept(request) => {
                let call = script(commands, ACCEPT, &[&keys.stream, &keys.waiting, &keys.bytes]);
                let call = call.arg(request.id.to_string()).arg(request.encode());
                call.arg(config.max_requests).arg(config.max_bytes);
            }
            QueueChange::Start(id) => {
                script(commands, START, &[&keys.waiting, &keys.lease]).arg(id.to_string()).arg(node);
            }
            QueueChange::Retry(id, SendProgress { attempts, not_before }) => {
                let call = script(commands, RETRY, &[&keys.waiting, &keys.lease]);
                call.arg(id.to_string()).arg(node).arg(attempts).arg(not_before.get());
            }
            QueueChange::Finish(id, attempts, end) => {
                let QueueKeys { stream, waiting, bytes, ended, ended_at, ended_bytes, .. } = keys;
                let call = script(commands, FINISH, &[stream, waiting, bytes, ended, ended_at, ended_bytes]);
                let call = call.arg(id.to_string()).arg(end.encode(*attempts)).arg(GROUP);
                self.result_bounds(call);
            }
        }
    }

    fn result_bounds(&self, call: &mut Pipeline) {
        let keep = self.config.keep_results.as_millis();
        call.arg(u64::try_from(keep).unwrap_or(u64::MAX));
        call.arg(self.config.max_requests).arg(self.config.max_bytes);
    }
}

fn script<'p>(commands: &'p mut Pipeline, text: &str, keys: &[&String]) -> &'p mut Pipeline {
    commands.cmd("EVAL").arg(text).arg(keys.len()).arg(keys)
}

impl DeferQueue for RedisQueue {
    fn apply(&mut self, changes: &[QueueChange], _: Time) -> Result<Vec<QueueReply>, DeferError> {
        let mut commands = Pipeline::new();
        for change in changes {
            self.add(&mut commands, change);
        }
        let replies = self.send(commands)?;
        if replies.len() != changes.len() {
            return Err(self.failed(StoreFailure::BadState));
        }
        let reply = |(change, reply): (&QueueChange, Value)| {
            let is_done = self.read::<u8>(reply)? == 1;
            Ok(match change {
                _ if is_done => QueueReply::Done,
                QueueChange::Accept(_) => QueueReply::Full,
                QueueChange::Start(_) | QueueChange::Retry(..) | QueueChange::Finish(..) => {
                    QueueReply::NotOurs
                }
            })
        };
        changes.iter().zip(replies).map(reply).collect()
    }

    fn take(&mut self, now: Time) -> Result<TakenRequests, DeferError> {
        let QueueKeys { stream, waiting, lease, ended, ended_at, ended_bytes, .. } = &self.keys;
        let mut commands = Pipeline::new();
        let call = script(&mut commands, TAKE, &[stream, waiting, lease, ended, ended_at, ended_bytes]);
        let lease_ms = u64::try_from(LEASE.as_millis()).unwrap_or(u64::MAX);
        call.arg(&self.node).arg(lease_ms).arg(GROUP).arg(TAKEN_MAX).arg(&self.cursor);
        self.result_bounds(call);
        let (is_ours, cursor, rows): TakeReply = self.one(commands)?;
        self.cursor = cursor;
        let mut requests = Vec::with_capacity(rows.len());
        for (bytes, attempts, not_before) in rows {
            match DeferredRequest::decode(&bytes) {
                Ok(request) => {
                    // A calendar that was ahead must not hold it up for longer than a pause.
                    let not_before = Time::new(not_before).min(now + BACKOFF_MAX);
                    requests.push((request, SendProgress { attempts, not_before }));
                }
                Err(error) => tracing::error!(%error, "a deferred request is lost"),
            }
        }
        Ok(TakenRequests { requests, is_ours: is_ours == 1 })
    }

    fn give_up(&mut self) -> Result<(), DeferError> {
        let mut commands = Pipeline::new();
        script(&mut commands, GIVE_UP, &[&self.keys.lease]).arg(&self.node);
        self.one::<u8>(commands).map(drop)
    }

    fn status(&mut self, id: DeferredId) -> Result<Option<DeferredStatus>, DeferError> {
        let mut commands = Pipeline::new();
        let call = script(&mut commands, STATUS, &[&self.keys.waiting, &self.keys.ended]);
        call.arg(id.to_string());
        let (place, result, attempts, is_sending): StatusReply = self.one(commands)?;
        Ok(match (place, is_sending) {
            (2, _) => {
                let (end, attempts) = DeferredEnd::decode(&result)?;
                Some(DeferredStatus { state: DeferredState::Ended(end), attempts })
            }
            (1, 1) => Some(DeferredStatus { state: DeferredState::Sending, attempts }),
            (1, _) => Some(DeferredStatus { state: DeferredState::Waiting, attempts }),
            _ => None,
        })
    }

    fn size(&mut self) -> Result<QueueSize, DeferError> {
        let mut commands = Pipeline::new();
        commands.cmd("HLEN").arg(&self.keys.waiting);
        commands.cmd("GET").arg(&self.keys.bytes);
        let mut replies = self.send(commands)?;
        let bytes: Option<i64> = self.read(replies.pop().unwrap_or(Value::Nil))?;
        let requests = self.read(replies.pop().unwrap_or(Value::Nil))?;
        let bytes = u64::try_from(bytes.unwrap_or(0)).unwrap_or(0);
        Ok(QueueSize { requests, bytes: if requests == 0 { 0 } else { bytes } })
    }
}
