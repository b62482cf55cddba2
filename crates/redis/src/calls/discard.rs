//! Discards states that cannot be read.
//!
//! A file of its own because nothing else deletes what no user asked to delete.
//! It is called when a script read a value that no script can have written: a
//! list under a counter's key, half a number, somebody else's text. The keys are
//! versioned and ours alone, so that such a value is damage, and a counter that
//! starts afresh is better than one that never counts.

use redis::Pipeline;
use tokio::time::Instant;

use super::endpoint_client::EndpointClient;
use crate::error::StoreFailure;
use crate::stats::Stats;

/// Deletes keys of one slot whose states cannot be read.
pub(super) async fn discard(
    client: &EndpointClient,
    keys: &[&String],
    deadline: Instant,
    stats: &Stats,
) -> Result<(), StoreFailure> {
    for key in keys {
        let mut delete = Pipeline::new();
        delete.cmd("DEL").arg(key);
        client.run_commands(key, &delete, deadline).await?;
        stats.discarded.add(1);
        tracing::warn!(key = *key, "the state under this key could not be read and was deleted");
    }
    Ok(())
}
