//! What a service is wrapped with.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Extensions;
use tollgate_http::{AdmissionControl, LimiterChecker, Mapping, ResponseSettings};
use tollgate_limiter::{Limiter, MemoryStore, NoSink, SystemClock};

/// A request is held no longer than this, unless it is set: a client has seldom more patience.
const MAX_HOLD: Duration = Duration::from_secs(30);

/// Who is connected, as an extension of a request; see [`TollgateLayer::with_peer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddress(pub IpAddr);

type FindPeer = dyn Fn(&Extensions) -> Option<IpAddr> + Send + Sync;

/// Limits the requests of a service. The limiter is shared with whoever else holds it: rules that are
/// replaced there are in force here.
pub struct TollgateLayer<S = MemoryStore, C = SystemClock, E = NoSink> {
    pub(crate) checker: Arc<LimiterChecker<S, C, E>>,
    pub(crate) policy: Arc<Policy>,
}

/// What a request becomes, and whose it is.
#[derive(Clone)]
pub(crate) struct Policy {
    pub(crate) admission: AdmissionControl,
    pub(crate) find_peer: Arc<FindPeer>,
}

impl<S, C, E> TollgateLayer<S, C, E> {
    /// A layer that makes requests into descriptors by `mapping` and asks `limiter`.
    pub fn new(limiter: Arc<Limiter<S, C, E>>, mapping: Mapping) -> Self {
        let find_peer = Arc::new(|known: &Extensions| known.get::<PeerAddress>().map(|peer| peer.0));
        let policy = Policy { admission: AdmissionControl::new(mapping, MAX_HOLD), find_peer };
        let checker = LimiterChecker { limiter, responses: ResponseSettings::default() };
        Self { checker: Arc::new(checker), policy: Arc::new(policy) }
    }

    /// The same, telling callers as these settings say.
    #[must_use]
    pub fn with_responses(self, responses: ResponseSettings) -> Self {
        let limiter = Arc::clone(&self.checker.limiter);
        Self { checker: Arc::new(LimiterChecker { limiter, responses }), ..self }
    }

    /// The same, holding no delayed request for longer: what would have to wait longer is denied.
    #[must_use]
    pub fn with_max_hold(self, max_hold: Duration) -> Self {
        self.with_policy(|policy| policy.admission = policy.admission.clone().with_max_wait(max_hold))
    }

    /// The same, finding the peer's address in this way: every server keeps it in an extension of its
    /// own. Without this it is [`PeerAddress`].
    #[must_use]
    pub fn with_peer(
        self,
        find_peer: impl Fn(&Extensions) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        self.with_policy(|policy| policy.find_peer = Arc::new(find_peer))
    }

    fn with_policy(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(Arc::make_mut(&mut self.policy));
        self
    }
}

impl<S, C, E> Clone for TollgateLayer<S, C, E> {
    fn clone(&self) -> Self {
        Self { checker: Arc::clone(&self.checker), policy: Arc::clone(&self.policy) }
    }
}

impl<S, C, E> fmt::Debug for TollgateLayer<S, C, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TollgateLayer")
            .field("admission", &self.policy.admission)
            .field("responses", &self.checker.responses)
            .finish_non_exhaustive()
    }
}
