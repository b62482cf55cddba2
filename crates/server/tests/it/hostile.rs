//! Callers that mean harm or know no better get an error or are cut off, and
//! a well-behaved caller notices nothing meanwhile.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy knows the tests here, but not the functions that they share"
)]

mod bytes;
mod requests;
mod slow;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::support::Server;
use crate::support::wire::{descriptor, request};

const RULES: &str = "
domain: d
descriptors:
  - key: a
    rate_limit: { unit: year, requests_per_unit: 1000000 }
";

/// A well-behaved call may take so long on a busy machine; one that waits for
/// somebody else's silence to end takes ten seconds or more.
const SLOWEST: Duration = Duration::from_secs(5);

/// A caller that does nothing wrong, all the while.
struct Bystander {
    is_over: Arc<AtomicBool>,
    calls: JoinHandle<u32>,
}

impl Bystander {
    async fn at(server: &Server) -> Self {
        let mut client = server.client().await;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let calls = tokio::spawn(async move {
            let mut calls = 0;
            while !over.load(Ordering::Relaxed) {
                let asked = request("d", vec![descriptor(&[("a", "bystander")])]);
                let answer = tokio::time::timeout(SLOWEST, client.should_rate_limit(asked)).await;
                let Ok(Ok(_)) = answer else { panic!("a well-behaved call got {answer:?}") };
                calls += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            calls
        });
        Self { is_over, calls }
    }

    /// Was every call answered in time?
    async fn noticed_nothing(self) {
        self.is_over.store(true, Ordering::Relaxed);
        assert!(self.calls.await.unwrap() > 0, "there was a call");
    }
}
