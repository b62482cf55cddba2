//! Whether the client's next bytes are HTTP.
//!
//! After a request to speak another protocol nobody knows what the bytes behind it are, until the
//! upstream has answered. `stream` holds them back, and whoever forwards the request says
//! what they are.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// What the client's next bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextBytes {
    Http,
    Tunnel,
}

#[derive(Debug, Default)]
struct SwitchState {
    /// None while nobody knows.
    next: Option<NextBytes>,
    waker: Option<Waker>,
}

/// What one connection's stream waits for after such a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct UpgradeSwitch(Arc<Mutex<SwitchState>>);

impl UpgradeSwitch {
    /// Takes what was said.
    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<NextBytes> {
        let mut state = self.0.lock();
        match state.next.take() {
            Some(next) => Poll::Ready(next),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn set(&self, next: NextBytes) {
        let mut state = self.0.lock();
        state.next = Some(next);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

/// A request to speak another protocol that is being forwarded; HTTP goes on when it is dropped.
#[derive(Debug)]
pub(crate) struct UpgradeTurn {
    switch: UpgradeSwitch,
    next: NextBytes,
}

impl UpgradeTurn {
    pub(crate) fn new(switch: &UpgradeSwitch) -> Self {
        Self { switch: switch.clone(), next: NextBytes::Http }
    }

    /// The upstream agrees: what follows is no HTTP.
    pub(crate) fn tunnel(mut self) {
        self.next = NextBytes::Tunnel;
    }
}

impl Drop for UpgradeTurn {
    fn drop(&mut self) {
        self.switch.set(self.next);
    }
}
