//! The signal that the server stops, for everything that waits for it: listeners, TLS, held requests.
//!
//! A file of its own, so that none of them has to know another.

use tokio::sync::watch;

/// Resolves when the server stops.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone means the same.
    drop(stop.wait_for(|is_stopping| *is_stopping).await);
}
