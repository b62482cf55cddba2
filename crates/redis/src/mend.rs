//! Throws away what is not ours under our keys.
//!
//! Called when the script stumbled, or when a state that it saw is not one that
//! it can have written: a list under a counter's name, half a number, somebody
//! else's text. The names are versioned and nobody else's, so that such a value
//! is damage; a counter that starts afresh is better than one that never counts.

use redis::{Pipeline, Value};
use tokio::time::Instant;
use tollgate_core::State;
use tollgate_limiter::store::Batch;

use crate::backend::Backend;
use crate::error::Trouble;
use crate::stats::Stats;

/// Looks at each of the keys, and deletes what cannot be read.
pub(crate) async fn mend(
    backend: &Backend,
    batch: &Batch<'_>,
    names: &[String],
    deadline: Instant,
    stats: &Stats,
) -> Result<(), Trouble> {
    let mut unreadable = Vec::new();
    for (name, charge) in names.iter().zip(&batch.charges) {
        let mut get = Pipeline::new();
        get.cmd("GET").arg(name);
        let is_ours = match backend.commands(name, &get, deadline).await.as_deref() {
            Ok([Value::Nil]) => true,
            Ok([Value::BulkString(text)]) => State::read_text(text, charge.limit()).is_some(),
            Ok(_) | Err(Trouble::BadState) => false,
            Err(trouble) => return Err(*trouble),
        };
        if !is_ours {
            unreadable.push(name);
        }
    }
    delete(backend, &unreadable, deadline, stats).await
}

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
