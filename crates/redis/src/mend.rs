//! Throws away what is not ours under our keys.
//!
//! Called when a state that a script saw is not one that it can have written: a
//! list under a counter's name, half a number, somebody else's text. The names
//! are versioned and nobody else's, so that such a value is damage; a counter
//! that starts afresh is better than one that never counts.

use redis::Pipeline;
use tokio::time::Instant;

use crate::backend::Backend;
use crate::error::Trouble;
use crate::stats::Stats;

/// Deletes keys of one slot that are known to be damaged.
pub(crate) async fn delete(
    backend: &Backend,
    names: &[&String],
    deadline: Instant,
    stats: &Stats,
) -> Result<(), Trouble> {
    for name in names {
        let mut delete = Pipeline::new();
        delete.cmd("DEL").arg(name);
        backend.commands(name, &delete, deadline).await?;
        stats.mended.add(1);
        tracing::warn!(key = *name, "what was kept under this key was not readable and is deleted");
    }
    Ok(())
}
