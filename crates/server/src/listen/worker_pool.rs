//! Which worker serves a connection.
//!
//! The kernel spreads connections over the workers' sockets by a hash, so that
//! of four connections of an Envoy all may end up at one worker. The worker that
//! accepts therefore hands a connection to the one that has the fewest. That
//! costs something for each connection, and nothing for each call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Handle;

/// A worker with so many connections finds several commands at each wake-up,
/// so that leaving other workers idle gains nothing any more.
const ENOUGH: usize = 64;

/// All workers.
#[derive(Debug)]
pub(crate) struct WorkerPool {
    workers: Vec<(Handle, AtomicUsize)>,
}

/// A connection that counts for a worker until this is dropped.
#[derive(Debug)]
pub(crate) struct WorkerSlot {
    pool: Arc<WorkerPool>,
    worker: usize,
}

impl WorkerPool {
    pub(crate) fn new(workers: Vec<Handle>) -> Arc<Self> {
        Arc::new(Self { workers: workers.into_iter().map(|handle| (handle, AtomicUsize::new(0))).collect() })
    }

    /// A slot at the worker with the fewest connections; at `own` if that is one
    /// of them. Only the first `among` workers are used until each has [`ENOUGH`].
    pub(crate) fn assign(self: &Arc<Self>, own: usize, among: usize) -> WorkerSlot {
        let load =
            |worker: usize| self.workers.get(worker).map_or(usize::MAX, |(_, n)| n.load(Ordering::Relaxed));
        let least = |among: usize| {
            (0..among).fold(own, |best, next| if load(next) < load(best) { next } else { best })
        };
        let preferred = least(among.min(self.workers.len()));
        let worker = if load(preferred) < ENOUGH { preferred } else { least(self.workers.len()) };
        if let Some((_, connections)) = self.workers.get(worker) {
            connections.fetch_add(1, Ordering::Relaxed);
        }
        WorkerSlot { pool: Arc::clone(self), worker }
    }
}

impl WorkerSlot {
    /// The worker to move to; none if it is `own`.
    pub(crate) fn other_than(&self, own: usize) -> Option<&Handle> {
        if self.worker == own {
            return None;
        }
        self.pool.workers.get(self.worker).map(|(handle, _)| handle)
    }
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        if let Some((_, connections)) = self.pool.workers.get(self.worker) {
            connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_spread_evenly_wherever_they_arrive() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let pool = WorkerPool::new(vec![runtime.handle().clone(); 3]);
        let mut slots: Vec<WorkerSlot> = (0..6).map(|_| pool.assign(1, 3)).collect();
        let count = |slots: &[WorkerSlot], worker| slots.iter().filter(|slot| slot.worker == worker).count();
        for worker in 0..3 {
            assert_eq!(count(&slots, worker), 2);
        }
        slots.retain(|slot| slot.worker != 2);
        assert_eq!(pool.assign(0, 3).worker, 2);
        assert_eq!(pool.assign(0, 2).worker, 0);
        assert_eq!(pool.workers[2].1.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn workers_beyond_the_first_ones_are_used_once_these_have_enough() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let pool = WorkerPool::new(vec![runtime.handle().clone(); 3]);
        let slots: Vec<WorkerSlot> = (0..ENOUGH).map(|_| pool.assign(0, 1)).collect();
        assert!(slots.iter().all(|slot| slot.worker == 0));
        assert_eq!(pool.assign(0, 1).worker, 1);
    }

    #[test]
    fn a_tie_stays_where_it_arrived() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let pool = WorkerPool::new(vec![runtime.handle().clone(); 2]);
        assert!(pool.assign(1, 2).other_than(1).is_none());
    }
}
