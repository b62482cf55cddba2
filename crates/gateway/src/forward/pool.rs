//! Connections without a request, of each worker thread.
//!
//! A worker uses only its own, so that nothing is locked and no connection moves between threads.
//! They are kept for less time than upstreams keep them, and the one used last is used first, so
//! that few of them are open in quiet times.

use std::cell::RefCell;
use std::collections::HashMap;

use hyper::client::conn::http1::SendRequest;
use tokio::time::Instant;

use super::server::LoadGuard;
use crate::bounds::{POOL_IDLE_MAX, POOL_IDLE_TIME};
use crate::request_body::RequestBody;

/// A connection without a request.
struct IdleConnection {
    sender: SendRequest<RequestBody>,
    since: Instant,
}

#[derive(Default)]
struct UpstreamPool {
    /// By upstream, the one that was given back last at the end.
    idle: HashMap<u64, Vec<IdleConnection>>,
    is_swept: bool,
}

thread_local! {
    static POOL: RefCell<UpstreamPool> = RefCell::default();
}

/// A connection to this upstream that was used before.
pub(super) fn take(upstream: u64) -> Option<SendRequest<RequestBody>> {
    POOL.with_borrow_mut(|pool| {
        let idle = pool.idle.get_mut(&upstream)?;
        idle.retain(|connection| !connection.sender.is_closed());
        // One whose last answer is not quite over is left for later.
        let ready = idle.iter().rposition(|connection| connection.sender.is_ready())?;
        let connection = idle.remove(ready);
        (connection.since.elapsed() < POOL_IDLE_TIME).then_some(connection.sender)
    })
}

/// A connection that a request has for itself.
#[derive(Debug)]
pub(crate) struct Lease {
    load: LoadGuard,
    sender: SendRequest<RequestBody>,
}

impl Lease {
    pub(super) const fn new(load: LoadGuard, sender: SendRequest<RequestBody>) -> Self {
        Self { load, sender }
    }

    /// Lets another request have the connection; without this it is closed.
    pub(crate) fn give_back(self) {
        let Self { load, sender } = self;
        let upstream = load.server().id();
        let starts_sweep = POOL.with_borrow_mut(|pool| {
            let idle = pool.idle.entry(upstream).or_default();
            if sender.is_closed() || idle.len() >= POOL_IDLE_MAX {
                return false;
            }
            idle.push(IdleConnection { sender, since: Instant::now() });
            !std::mem::replace(&mut pool.is_swept, true)
        });
        if starts_sweep {
            tokio::spawn(sweep());
        }
    }
}

/// Closes connections that nobody wanted for a while, until there are none.
async fn sweep() {
    let _running = Sweeping;
    loop {
        tokio::time::sleep(POOL_IDLE_TIME / 2).await;
        let is_empty = POOL.with_borrow_mut(|pool| {
            for idle in pool.idle.values_mut() {
                idle.retain(|connection| {
                    !connection.sender.is_closed() && connection.since.elapsed() < POOL_IDLE_TIME
                });
            }
            pool.idle.retain(|_, idle| !idle.is_empty());
            pool.idle.is_empty()
        });
        if is_empty {
            return;
        }
    }
}

/// The sweep of this thread; another one can start when it has ended, with its runtime at the latest.
struct Sweeping;

impl Drop for Sweeping {
    fn drop(&mut self) {
        // At the end of a thread the pool may be gone before its runtime.
        drop(POOL.try_with(|pool| pool.try_borrow_mut().map(|mut pool| pool.is_swept = false)));
    }
}
