//! What a held request took, for when its caller goes away.
//!
//! Made by [`super::AdmissionControl::admit`] for a request that is to wait, and dropped when it was
//! its turn or when nobody waits for it any more.

use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tollgate_core::{Descriptor, Entry, Operation, Request};
use tollgate_limiter::Reply;

use super::Checker;
use super::waiting_room::{WaitingPlace, WaitingRoom};

/// Seeded at random, so that nobody can aim at another's line.
static LINE_HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A request that waits for its turn.
#[derive(Debug)]
pub(super) struct HeldRequest<C: Checker> {
    checker: Arc<C>,
    /// None once it was its turn.
    waiting: Option<(WaitingPlace, OwnedRequest)>,
}

impl<C: Checker> HeldRequest<C> {
    /// Takes a place at the end of a line. Requests that wait for the same limit on the same entries
    /// are in one line.
    pub(super) fn enter(
        room: &WaitingRoom,
        wait: Duration,
        checker: Arc<C>,
        (request, reply): (&Request<'_>, &Reply),
    ) -> Self {
        let binding = reply.binding();
        let entries = binding.and_then(|decision| request.descriptors.get(decision.descriptor));
        let entries = entries.map(|descriptor| descriptor.entries);
        let rule = binding.and_then(|decision| reply.rule(decision)).map(|rule| &rule.path);
        let line = LINE_HASHER.hash_one((request.domain, entries, rule));
        Self { checker, waiting: Some((room.enter(line, wait), OwnedRequest::new(request))) }
    }

    pub(super) async fn turn(&mut self) {
        if let Some((place, _)) = &mut self.waiting {
            place.turn().await;
        }
        self.waiting = None;
    }
}

impl<C: Checker> Drop for HeldRequest<C> {
    fn drop(&mut self) {
        let Some((place, taken)) = self.waiting.take() else { return };
        // Those behind move up before the limiter gives the last turn away again.
        drop(place);
        let checker = Arc::clone(&self.checker);
        detach(async move {
            let entries = taken.entries();
            let descriptors: Vec<Descriptor<'_>> = entries.iter().map(|own| Descriptor::new(own)).collect();
            let request = Request::new(&taken.domain, &descriptors);
            // Without rules there is nothing to give back.
            drop(checker.operate(&request, Operation::Refund, checker.now()).await);
        });
    }
}

/// A request that outlives what it was made of.
#[derive(Debug)]
struct OwnedRequest {
    domain: String,
    descriptors: Vec<Vec<(String, String)>>,
}

impl OwnedRequest {
    fn new(request: &Request<'_>) -> Self {
        let own = |entry: &Entry<'_>| (entry.key.to_owned(), entry.value.to_owned());
        let descriptors = request.descriptors.iter();
        Self {
            domain: request.domain.to_owned(),
            descriptors: descriptors.map(|own_one| own_one.entries.iter().map(own).collect()).collect(),
        }
    }

    fn entries<'a>(&'a self) -> Vec<Vec<Entry<'a>>> {
        let of = |(key, value): &'a (String, String)| Entry { key, value };
        self.descriptors.iter().map(|descriptor| descriptor.iter().map(of).collect()).collect()
    }
}

/// Does what nobody waits for: at once where the store is in this process, and else as a task. It is
/// given up if the runtime has ended.
fn detach(work: impl Future<Output = ()> + Send + 'static) {
    let mut work = Box::pin(work);
    if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
        && let Ok(runtime) = Handle::try_current()
    {
        runtime.spawn(work);
    }
}
