//! How many connections there may be.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::address_limit::AddressPermit;
use crate::bounds::{CONNECTIONS_CROWDED, CONNECTIONS_MAX, DESCRIPTORS_RESERVED};

/// Counts connections, and keeps them within a bound.
#[derive(Debug)]
pub(crate) struct ConnectionLimit {
    open: AtomicUsize,
    max: usize,
    crowded: usize,
}

/// One connection that counts until this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    limit: Arc<ConnectionLimit>,
    /// The same for the connections of its address, if they are limited.
    _address: Option<AddressPermit>,
}

impl ConnectionLimit {
    /// As many as the bounds and the file descriptors of this process allow.
    pub(crate) fn for_callers() -> Arc<Self> {
        let descriptors = raise_descriptor_limit().unwrap_or(CONNECTIONS_MAX + DESCRIPTORS_RESERVED);
        let max = CONNECTIONS_MAX.min(descriptors.saturating_sub(DESCRIPTORS_RESERVED)).max(1);
        Self::new(max, CONNECTIONS_CROWDED.min(max / 2))
    }

    /// At most `max`; from `crowded` on, silent ones should make room.
    pub(crate) fn new(max: usize, crowded: usize) -> Arc<Self> {
        Arc::new(Self { open: AtomicUsize::new(0), max, crowded })
    }

    /// Lets one more in, if there is room.
    pub(crate) fn acquire(self: &Arc<Self>) -> Option<ConnectionPermit> {
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        let permit = ConnectionPermit { limit: Arc::clone(self), _address: None };
        (before < self.max).then_some(permit)
    }
}

impl ConnectionPermit {
    /// The same, with what its address is counted by.
    pub(crate) fn with_address(mut self, address: Option<AddressPermit>) -> Self {
        self._address = address;
        self
    }

    /// Whether silent connections should make room.
    pub(crate) fn is_crowded(&self) -> bool {
        self.limit.open.load(Ordering::Relaxed) > self.limit.crowded
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limit.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Raises the soft limit of file descriptors to the hard one, since the usual
/// 1,024 are too few for a server. Returns the limit.
fn raise_descriptor_limit() -> Option<usize> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let allowed = if raised.is_ok() { maximum } else { current };
    // None means no limit.
    usize::try_from(allowed?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_in_at_the_bound_until_somebody_leaves() {
        let limit = ConnectionLimit::new(2, 1);
        let first = limit.acquire().expect("there is room");
        assert!(!first.is_crowded());
        let second = limit.acquire().expect("there is room");
        assert!(first.is_crowded());
        assert!(limit.acquire().is_none());
        drop(second);
        assert!(limit.acquire().is_some());
    }

    #[test]
    fn callers_get_as_many_as_the_bounds_say_or_the_system_allows() {
        assert!((1..=CONNECTIONS_MAX).contains(&ConnectionLimit::for_callers().max));
    }
}
