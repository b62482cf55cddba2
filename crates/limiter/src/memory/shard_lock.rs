//! The lock of a shard: taken by one atomic operation, and let go by a plain write.
//!
//! A lock that lets threads sleep has to ask, when it is let go, whether anybody does, which is a second atomic
//! operation: a third of what a check of a key in the cache costs. A shard is held for some twenty nanoseconds, and
//! there are 256 of them, so that hardly anybody ever waits. Whoever does tries again for about a microsecond; then
//! the holder was put off by the system, or copies the shard into a snapshot, and the thread gives way to others; and
//! if that does not help, because it is of a higher priority than the holder, it sleeps.
//!
//! Invariant: whoever waits gets the lock once it is free for long enough to be seen so; nothing keeps it but a
//! check, a sweep, the growth of a shard or its copy, each of which ends.
//!
//! Deliberately not here: fairness.

use std::hint::spin_loop;
use std::thread;
use std::time::Duration;

/// How often a waiting thread tries before it gives way to others.
const SPINS: usize = 64;
/// How often it gives way before it sleeps.
const YIELDS: usize = 32;
/// How long it sleeps: short beside what copying or growing a shard takes.
const NAP: Duration = Duration::from_micros(50);

/// A value that one thread at a time may use.
#[derive(Debug)]
pub(super) struct ShardLock<T>(spin::mutex::SpinMutex<T>);

/// Lets go of the lock when it is dropped.
pub(super) type ShardGuard<'a, T> = spin::mutex::SpinMutexGuard<'a, T>;

impl<T> ShardLock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(spin::mutex::SpinMutex::new(value))
    }

    /// Takes the lock if nobody has it.
    #[cfg(test)]
    pub(super) fn try_lock(&self) -> Option<ShardGuard<'_, T>> {
        self.0.try_lock()
    }

    #[inline]
    pub(super) fn lock(&self) -> ShardGuard<'_, T> {
        match self.0.try_lock() {
            Some(guard) => guard,
            None => self.wait(),
        }
    }

    #[cold]
    fn wait(&self) -> ShardGuard<'_, T> {
        for attempt in 0_usize.. {
            match attempt {
                0..SPINS => spin_loop(),
                _ if attempt < SPINS + YIELDS => thread::yield_now(),
                _ => nap(),
            }
            // A failed attempt to take it would take the line of memory away from the holder.
            if !self.0.is_locked()
                && let Some(guard) = self.0.try_lock()
            {
                return guard;
            }
        }
        unreachable!("nobody tries as often as a usize can count")
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a thread that gave way in vain must let the holder of the lock run"
)]
fn nap() {
    thread::sleep(NAP);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn threads_that_wait_get_it_one_by_one() {
        const THREADS: u64 = 8;
        const TIMES: u64 = 20_000;
        let lock = ShardLock::new(0_u64);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| (0..TIMES).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), THREADS * TIMES);
    }

    #[test]
    fn a_thread_that_waits_for_long_gets_it_in_the_end() {
        let lock = ShardLock::new(0_u64);
        let (said, heard) = mpsc::channel();
        thread::scope(|scope| {
            let mut held = lock.lock();
            scope.spawn(|| {
                // Spins, yields and naps, as the holder waits for a word of a third thread.
                *lock.lock() += 1;
            });
            scope.spawn(move || {
                (0..YIELDS * 4).for_each(|_| thread::yield_now());
                said.send(()).unwrap();
            });
            heard.recv().unwrap();
            *held = 41;
        });
        assert_eq!(*lock.lock(), 42);
    }
}
