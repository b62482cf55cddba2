//! The thread answers for its queue, also when that fails.

use std::sync::mpsc;

use tollgate_core::Micros;

use super::*;
use crate::config::DeferConfig;
use crate::embedded::EmbeddedQueue;
use crate::request::DeferredRequest;
use tollgate_core::OwnedRequest;

fn accept(key: &str) -> (DeferredId, QueueChange) {
    let id = DeferredId::random();
    let request = DeferredRequest {
        id,
        accepted: NOW,
        expires: NOW + Micros::SECOND,
        key: key.into(),
        rule: "r".into(),
        check: OwnedRequest::default(),
        method: "GET".into(),
        host: None,
        path: "/".into(),
        headers: Vec::new(),
        body: Vec::new(),
    };
    (id, QueueChange::Accept(Box::new(request)))
}

const NOW: Time = Time::from_secs(1);

#[tokio::test]
async fn what_is_accepted_is_known_counted_and_given_out() {
    let folder = tempfile::tempdir().unwrap();
    let config = DeferConfig { max_requests: 1, ..DeferConfig::default() };
    let handle = DeferHandle::start(EmbeddedQueue::open(folder.path(), config).unwrap()).unwrap();
    let ((id, first), (_, second)) = (accept("a"), accept("b"));
    assert_eq!(handle.change(first, NOW).await.unwrap(), QueueReply::Done);
    handle.accepted().await;
    assert_eq!(handle.change(second, NOW).await.unwrap(), QueueReply::Full);
    assert_eq!(handle.status(id).await.unwrap().unwrap().state.name(), "waiting");
    assert_eq!(handle.take(NOW).await.unwrap().requests.len(), 1);
    assert_eq!(handle.counters().size().requests, 1);
    let end = Box::new(DeferredEnd::Expired);
    assert_eq!(handle.change(QueueChange::Finish(id, 0, end), NOW).await.unwrap(), QueueReply::Done);
    handle.take(NOW).await.unwrap();
    let counters = handle.counters();
    let counts = [&counters.accepted, &counters.rejected, &counters.expired, &counters.done];
    assert_eq!(counts.map(|counter| counter.load(Ordering::Relaxed)), [1, 1, 1, 0]);
    assert_eq!(counters.size(), QueueSize::default());
}

/// A queue that holds its first batch until it is let go, and then fails if it is told to.
struct HeldQueue {
    go: Receiver<bool>,
    batches: mpsc::Sender<usize>,
}

impl DeferQueue for HeldQueue {
    fn apply(&mut self, changes: &[QueueChange], _: Time) -> Result<Vec<QueueReply>, DeferError> {
        self.batches.send(changes.len()).unwrap();
        match self.go.recv().unwrap() {
            true => Ok(vec![QueueReply::Done; changes.len()]),
            false => Err(DeferError::store("the disk is full")),
        }
    }

    fn take(&mut self, _: Time) -> Result<TakenRequests, DeferError> {
        Ok(TakenRequests::default())
    }

    fn status(&mut self, _: DeferredId) -> Result<Option<DeferredStatus>, DeferError> {
        Ok(None)
    }

    fn size(&mut self) -> Result<QueueSize, DeferError> {
        Ok(QueueSize::default())
    }
}

#[tokio::test]
async fn changes_that_come_during_a_write_share_the_next_one_and_its_failure() {
    let ((let_go, go), (batches, batch)) = (mpsc::channel(), mpsc::channel());
    let handle = DeferHandle::start(HeldQueue { go, batches }).unwrap();
    let first = tokio::spawn({
        let handle = handle.clone();
        async move { handle.change(accept("a").1, NOW).await }
    });
    while batch.try_recv().is_err() {
        tokio::task::yield_now().await;
    }
    // Both are in the channel before the first write ends, because they are polled in order.
    let (second, third) = (handle.change(accept("b").1, NOW), handle.change(accept("c").1, NOW));
    let release = async {
        let_go.send(true).unwrap();
        let_go.send(false).unwrap();
    };
    let (second, third, ()) = tokio::join!(biased; second, third, release);
    assert_eq!(first.await.unwrap().unwrap(), QueueReply::Done);
    assert_eq!(batch.recv().unwrap(), 2, "one write for both");
    assert!(second.unwrap_err().to_string().ends_with("the disk is full") && third.is_err());
    assert_eq!(handle.counters().rejected.load(Ordering::Relaxed), 2);
}
