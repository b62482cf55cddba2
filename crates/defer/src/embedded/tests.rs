//! The queue in a file keeps its promises, also across restarts.

use std::time::Duration;

use super::*;
use crate::request::KeptResponse;
use tollgate_core::OwnedRequest;

fn request(path: &str) -> DeferredRequest {
    DeferredRequest {
        id: DeferredId::random(),
        accepted: Time::from_secs(1),
        expires: Time::from_secs(100),
        key: "k".into(),
        rule: "r".into(),
        check: OwnedRequest::default(),
        method: "POST".into(),
        host: Some("shop".into()),
        path: path.into(),
        headers: vec![("content-type".into(), b"text/plain".to_vec())],
        body: b"body".to_vec(),
    }
}

fn done(body: &str) -> Box<DeferredEnd> {
    let (headers, body) = (Vec::new(), body.as_bytes().to_vec());
    Box::new(DeferredEnd::Done(KeptResponse { status: 200, headers, body, is_cut: false }))
}

fn apply(queue: &mut EmbeddedQueue, change: QueueChange, second: u64) -> QueueReply {
    queue.apply(&[change], Time::from_secs(second)).unwrap()[0]
}

fn accept(queue: &mut EmbeddedQueue, request: &DeferredRequest) -> QueueReply {
    apply(queue, QueueChange::Accept(Box::new(request.clone())), 1)
}

fn taken(queue: &mut EmbeddedQueue) -> Vec<(String, u32)> {
    let taken = queue.take(Time::from_secs(2)).unwrap().requests;
    taken.into_iter().map(|(request, progress)| (request.path, progress.attempts)).collect()
}

fn state(queue: &mut EmbeddedQueue, id: DeferredId) -> Option<&'static str> {
    queue.status(id).unwrap().map(|status| status.state.name())
}

#[test]
fn what_was_accepted_is_there_after_a_restart_in_its_order_until_it_is_done_with() {
    let folder = tempfile::tempdir().unwrap();
    let open = || EmbeddedQueue::open(folder.path(), DeferConfig::default()).unwrap();
    let (first, second) = (request("/1"), request("/2"));
    {
        let mut queue = open();
        assert_eq!(accept(&mut queue, &first), QueueReply::Done);
        assert_eq!(accept(&mut queue, &second), QueueReply::Done);
        assert_eq!(taken(&mut queue), [("/1".into(), 0), ("/2".into(), 0)]);
        assert!(taken(&mut queue).is_empty(), "each is given out once");
        assert_eq!(apply(&mut queue, QueueChange::Start(first.id), 2), QueueReply::Done);
        assert_eq!(state(&mut queue, first.id), Some("sending"));
        assert_eq!(state(&mut queue, second.id), Some("waiting"));
        let progress = SendProgress { attempts: 1, not_before: Time::from_secs(9) };
        assert_eq!(apply(&mut queue, QueueChange::Retry(first.id, progress), 2), QueueReply::Done);
        assert_eq!(state(&mut queue, first.id), Some("waiting"));
    }
    {
        let mut queue = open();
        assert_eq!(taken(&mut queue), [("/1".into(), 1), ("/2".into(), 0)]);
        let finish = || QueueChange::Finish(first.id, 1, done("ok"));
        assert_eq!(apply(&mut queue, finish(), 3), QueueReply::Done);
        assert_eq!(apply(&mut queue, finish(), 3), QueueReply::NotOurs, "it ends once");
        assert_eq!(apply(&mut queue, QueueChange::Start(first.id), 3), QueueReply::NotOurs);
    }
    let mut queue = open();
    assert_eq!(taken(&mut queue), [("/2".into(), 0)]);
    let status = queue.status(first.id).unwrap().unwrap();
    assert_eq!((status.state, status.attempts), (DeferredState::Ended(*done("ok")), 1));
    assert_eq!(queue.status(DeferredId::random()).unwrap(), None);
    let length = u64::try_from(second.encode().len()).unwrap();
    assert_eq!(queue.size().unwrap(), QueueSize { requests: 1, bytes: length });
}

#[test]
fn a_queue_is_full_by_number_and_by_bytes_and_takes_more_once_something_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let length = request("/1").encode().len();
    for config in [
        DeferConfig { max_requests: 2, ..DeferConfig::default() },
        DeferConfig { max_bytes: 2 * length + 1, ..DeferConfig::default() },
    ] {
        let folder = tempfile::tempdir_in(folder.path()).unwrap();
        let mut queue = EmbeddedQueue::open(folder.path(), config).unwrap();
        let requests = ["/1", "/2", "/3"].map(request);
        let replies = requests.each_ref().map(|request| accept(&mut queue, request));
        assert_eq!(replies, [QueueReply::Done, QueueReply::Done, QueueReply::Full]);
        assert_eq!(state(&mut queue, requests[2].id), None);
        apply(&mut queue, QueueChange::Finish(requests[0].id, 0, done("")), 2);
        assert_eq!(accept(&mut queue, &requests[2]), QueueReply::Done);
    }
}

#[test]
fn results_are_dropped_when_they_are_old_or_too_many() {
    let folder = tempfile::tempdir().unwrap();
    let keep_results = Duration::from_secs(10);
    let config = DeferConfig { max_requests: 2, keep_results, ..DeferConfig::default() };
    let mut queue = EmbeddedQueue::open(folder.path(), config).unwrap();
    let requests = ["/1", "/2", "/3", "/4"].map(request);
    for (request, second) in requests.iter().zip([5, 6, 7, 17]) {
        assert_eq!(accept(&mut queue, request), QueueReply::Done);
        apply(&mut queue, QueueChange::Finish(request.id, 0, done("")), second);
        assert_eq!(state(&mut queue, request.id), Some("done"));
    }
    let states = requests.each_ref().map(|request| state(&mut queue, request.id));
    assert_eq!(states, [None, None, Some("done"), Some("done")], "two are kept, for ten seconds");
    apply(&mut queue, QueueChange::Finish(DeferredId::random(), 0, done("")), 18);
    assert_eq!(state(&mut queue, requests[2].id), None);
}

#[test]
fn a_calendar_that_was_ahead_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let open = || EmbeddedQueue::open(folder.path(), DeferConfig::default()).unwrap();
    let own = request("/1");
    let mut queue = open();
    accept(&mut queue, &own);
    let progress = SendProgress { attempts: 1, not_before: Time::from_secs(1_000_000) };
    apply(&mut queue, QueueChange::Retry(own.id, progress), 2);
    drop(queue);
    let taken = open().take(Time::from_secs(2)).unwrap().requests;
    assert_eq!(taken[0].1.not_before, Time::from_secs(302));
}

#[test]
fn a_file_that_another_process_has_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let _first = EmbeddedQueue::open(folder.path(), DeferConfig::default()).unwrap();
    let second = EmbeddedQueue::open(folder.path(), DeferConfig::default());
    assert!(matches!(second, Err(DeferError::Open { .. })), "{second:?}");
}
