//! How many may be connected.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::bounds::{CONNECTIONS_CROWDED, CONNECTIONS_MAX, DESCRIPTORS_RESERVED};

/// Counts connections and keeps them within a bound.
#[derive(Debug)]
pub(crate) struct Gate {
    open: AtomicUsize,
    max: usize,
    crowded: usize,
}

/// One connection that was let in; it leaves with this value.
#[derive(Debug)]
pub(crate) struct Pass(Arc<Gate>);

impl Gate {
    /// A gate for callers, as wide as the bounds and the file descriptors of
    /// this process allow.
    pub(crate) fn for_callers() -> Arc<Self> {
        let descriptors = raise_descriptor_limit().unwrap_or(CONNECTIONS_MAX + DESCRIPTORS_RESERVED);
        let max = CONNECTIONS_MAX.min(descriptors.saturating_sub(DESCRIPTORS_RESERVED)).max(1);
        Self::new(max, CONNECTIONS_CROWDED.min(max / 2))
    }

    /// A gate for so many.
    pub(crate) fn new(max: usize, crowded: usize) -> Arc<Self> {
        Arc::new(Self { open: AtomicUsize::new(0), max, crowded })
    }

    /// Lets one in, if there is room.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Pass> {
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        let pass = Pass(Arc::clone(self));
        (before < self.max).then_some(pass)
    }
}

impl Pass {
    /// Whether those who are silent should make room.
    pub(crate) fn is_crowded(&self) -> bool {
        self.0.open.load(Ordering::Relaxed) > self.0.crowded
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Allows this process as many file descriptors as it may have, since the
/// usual 1,024 are too few for a server; how many that are.
fn raise_descriptor_limit() -> Option<usize> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let allowed = if raised.is_ok() { maximum } else { current };
    // None means without bound.
    usize::try_from(allowed?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_closes_at_its_bound_and_opens_again() {
        let gate = Gate::new(2, 1);
        let first = gate.enter().expect("there is room");
        assert!(!first.is_crowded());
        let second = gate.enter().expect("there is room");
        assert!(first.is_crowded());
        assert!(gate.enter().is_none());
        drop(second);
        assert!(gate.enter().is_some());
    }

    #[test]
    fn callers_get_as_many_as_the_bounds_say_or_the_system_allows() {
        assert!((1..=CONNECTIONS_MAX).contains(&Gate::for_callers().max));
    }
}
