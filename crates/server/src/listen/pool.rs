//! Which worker serves a connection.
//!
//! The kernel spreads connections over the workers' sockets by a hash, so that
//! of four connections of an Envoy all may end up at one worker. Whoever
//! accepts therefore hands a connection to the worker that has the fewest.
//! This costs something once for each connection, and nothing for each call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Handle;

/// A worker with so many connections finds several commands whenever it looks,
/// so that leaving others idle gains nothing any more.
const ENOUGH: usize = 64;

/// All workers.
#[derive(Debug)]
pub(crate) struct Pool {
    seats: Vec<(Handle, AtomicUsize)>,
}

/// A connection's place at a worker; given back with this value.
#[derive(Debug)]
pub(crate) struct Seat {
    pool: Arc<Pool>,
    worker: usize,
}

impl Pool {
    pub(crate) fn new(workers: Vec<Handle>) -> Arc<Self> {
        Arc::new(Self { seats: workers.into_iter().map(|handle| (handle, AtomicUsize::new(0))).collect() })
    }

    /// A place at the worker with the fewest connections, `among` so many from
    /// the first on unless all of these have enough to do; at `own` if it is one
    /// of those.
    pub(crate) fn seat(self: &Arc<Self>, own: usize, among: usize) -> Seat {
        let load =
            |worker: usize| self.seats.get(worker).map_or(usize::MAX, |(_, n)| n.load(Ordering::Relaxed));
        let least = |among: usize| {
            (0..among).fold(own, |best, next| if load(next) < load(best) { next } else { best })
        };
        let preferred = least(among.min(self.seats.len()));
        let worker = if load(preferred) < ENOUGH { preferred } else { least(self.seats.len()) };
        if let Some((_, connections)) = self.seats.get(worker) {
            connections.fetch_add(1, Ordering::Relaxed);
        }
        Seat { pool: Arc::clone(self), worker }
    }
}

impl Seat {
    /// The worker to move to; none if it is `own`.
    pub(crate) fn other_than(&self, own: usize) -> Option<&Handle> {
        if self.worker == own {
            return None;
        }
        self.pool.seats.get(self.worker).map(|(handle, _)| handle)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some((_, connections)) = self.pool.seats.get(self.worker) {
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
        let pool = Pool::new(vec![runtime.handle().clone(); 3]);
        let mut seats: Vec<Seat> = (0..6).map(|_| pool.seat(1, 3)).collect();
        let count = |seats: &[Seat], worker| seats.iter().filter(|seat| seat.worker == worker).count();
        for worker in 0..3 {
            assert_eq!(count(&seats, worker), 2);
        }
        seats.retain(|seat| seat.worker != 2);
        assert_eq!(pool.seat(0, 3).worker, 2);
        assert_eq!(pool.seat(0, 2).worker, 0);
        assert_eq!(pool.seats[2].1.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn who_has_enough_to_do_leaves_the_next_to_the_others() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let pool = Pool::new(vec![runtime.handle().clone(); 3]);
        let seats: Vec<Seat> = (0..ENOUGH).map(|_| pool.seat(0, 1)).collect();
        assert!(seats.iter().all(|seat| seat.worker == 0));
        assert_eq!(pool.seat(0, 1).worker, 1);
    }

    #[test]
    fn a_tie_stays_where_it_arrived() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let pool = Pool::new(vec![runtime.handle().clone(); 2]);
        assert!(pool.seat(1, 2).other_than(1).is_none());
    }
}
