//! How a server decides: calls of scripts.
//!
//! | module | what it holds |
//! |---|---|
//! | [`script`] | the scripts: the algorithms in Lua |
//! | [`script_args`] | what a script is sent for a request |
//! | [`batch_call`] | several requests in one call |
//! | `blocking_client` | sends commands from threads that may block |
//! | `batcher` | collects requests that arrive together into batch calls |
//! | `endpoint_client` | the servers of one endpoint; a `cluster` of them |
//! | `server` | one server: a connection for each thread, and its circuit `breaker` |
//! | `connect`, `tls` | make a `connection` |
//! | `outage_log` | logs why a server cannot be asked |
//! | [`script_reply`] | the reply of a script, as decisions |
//! | `discard` | discards states that cannot be read |
//! | [`shared_load`] | tells other nodes how loaded this one is |
//! | `heartbeat` | tells the store that this node is alive, and counts the nodes |
//!
//! [`crate::RedisStore`] calls `decide` for charges that have one placement.
//!
//! Deliberately not here: where a charge lives (`placement`).

pub mod batch_call;
mod batcher;
pub(crate) mod blocking_client;
mod breaker;
mod cluster;
pub(crate) mod connect;
mod connection;
mod discard;
pub(crate) mod endpoint_client;
pub(crate) mod heartbeat;
mod outage_log;
pub mod script;
pub mod script_args;
pub mod script_reply;
mod server;
pub mod shared_load;
pub(crate) mod tls;

use tokio::time::Instant;
use tollgate_core::Time;

use crate::error::StoreFailure;
use crate::placement::PlacedCharges;
use crate::stats::Stats;
use endpoint_client::EndpointClient;
use script_args::ScriptArgs;
use script_reply::Replay;

/// Decides charges that have one placement, at `now` if that is given, else by
/// the server's clock. States that cannot be read are discarded on the way.
pub(crate) async fn decide(
    client: &EndpointClient,
    placed: &PlacedCharges<'_, '_>,
    now: Option<Time>,
    deadline: Instant,
    stats: &Stats,
) -> Result<Replay, StoreFailure> {
    let args = || ScriptArgs::new(placed.charge_set, placed.keys.clone(), placed.not_after);
    let replay = |reply| Replay::new(placed.charge_set, &reply, &placed.keys);
    let unreadable = match replay(client.run_script(args, now, deadline).await?) {
        Ok(decided) => return Ok(decided),
        Err(unreadable) => unreadable,
    };
    // Boxed, because it is rare: a future is as large as its largest part.
    let once_more = async {
        let keys: Vec<_> = unreadable.iter().filter_map(|charge| placed.keys.get(*charge)).collect();
        discard::discard(client, &keys, deadline, stats).await?;
        replay(client.run_script(args, now, deadline).await?).map_err(|_| StoreFailure::BadState)
    };
    Box::pin(once_more).await
}
