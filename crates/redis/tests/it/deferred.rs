//! The queue of deferred requests on a real Redis: it is bounded, one node sends at a time, and another
//! one goes on where it ended.

use std::time::Duration;

use tollgate_core::{OwnedRequest, Time};
use tollgate_defer::{
    DeferConfig, DeferQueue as _, DeferredEnd, DeferredId, DeferredRequest, KeptResponse, QueueChange,
    QueueReply, QueueSize, SendProgress,
};
use tollgate_redis::RedisConfig;
use tollgate_redis::deferred::RedisQueue;
use tollgate_testkit::redis::wait_until;
use tollgate_testkit::{RedisCluster, RedisServer};

const NOW: Time = Time::from_secs(1_000);
/// Far more than a lease lasts.
const DEADLINE: Duration = Duration::from_secs(30);

fn request(path: &str) -> DeferredRequest {
    DeferredRequest {
        id: DeferredId::random(),
        accepted: NOW,
        expires: Time::from_secs(2_000),
        key: "k".into(),
        rule: "r".into(),
        check: OwnedRequest::default(),
        method: "POST".into(),
        host: None,
        path: path.into(),
        headers: Vec::new(),
        body: vec![0, 255, b'\n'],
    }
}

fn done() -> Box<DeferredEnd> {
    let (headers, body) = (Vec::new(), vec![0, 255]);
    Box::new(DeferredEnd::Done(KeptResponse { status: 200, headers, body, is_cut: false }))
}

struct TestQueue(RedisQueue);

impl TestQueue {
    fn on(url: &str, config: &DeferConfig) -> Self {
        Self(RedisQueue::new(&RedisConfig::new(url.parse().unwrap()), config.clone()).unwrap())
    }

    fn apply(&mut self, change: QueueChange) -> QueueReply {
        self.0.apply(&[change], NOW).unwrap()[0]
    }

    fn accept(&mut self, request: &DeferredRequest) -> QueueReply {
        self.apply(QueueChange::Accept(Box::new(request.clone())))
    }

    fn finish(&mut self, id: DeferredId) -> QueueReply {
        self.apply(QueueChange::Finish(id, 0, done()))
    }

    /// Paths and attempts of what is given out; none if another node sends.
    fn take(&mut self) -> Option<Vec<(String, u32)>> {
        let taken = self.0.take(NOW).unwrap();
        let rows = taken.requests.into_iter().map(|(request, progress)| (request.path, progress.attempts));
        let rows = rows.collect();
        taken.is_ours.then_some(rows)
    }

    fn state(&mut self, id: DeferredId) -> Option<&'static str> {
        self.0.status(id).unwrap().map(|status| status.state.name())
    }
}

/// One node takes in and sends, then another one goes on.
fn a_second_node_goes_on(url: &str) {
    let config = DeferConfig::default();
    let (mut first, mut second) = (TestQueue::on(url, &config), TestQueue::on(url, &config));
    let requests = ["/1", "/2", "/3"].map(request);
    for own in &requests {
        assert_eq!(second.accept(own), QueueReply::Done, "any node takes in");
    }
    assert_eq!(first.take().unwrap(), [("/1".into(), 0), ("/2".into(), 0), ("/3".into(), 0)]);
    assert_eq!(first.take().unwrap(), [], "each is given out once");
    assert_eq!(second.take(), None, "one node sends at a time");
    let [one, two, three] = requests.each_ref().map(|own| own.id);
    assert_eq!(first.apply(QueueChange::Start(one)), QueueReply::Done);
    assert_eq!(second.apply(QueueChange::Start(two)), QueueReply::NotOurs);
    assert_eq!([second.state(one), second.state(two)], [Some("sending"), Some("waiting")]);
    assert_eq!(first.finish(one), QueueReply::Done);
    assert_eq!(first.finish(one), QueueReply::NotOurs, "it ends once");
    assert_eq!(second.0.status(one).unwrap().unwrap().state, tollgate_defer::DeferredState::Ended(*done()));
    let progress = SendProgress { attempts: 1, not_before: Time::from_secs(1_001) };
    assert_eq!(first.apply(QueueChange::Retry(two, progress)), QueueReply::Done);
    assert_eq!(first.apply(QueueChange::Start(three)), QueueReply::Done);
    // The first one is not heard of any more, while /3 is on its way.
    let mut taken = None;
    wait_until("the lease ends", DEADLINE, || {
        taken = second.take();
        taken.is_some()
    });
    assert_eq!(taken.unwrap(), [("/2".into(), 1), ("/3".into(), 0)]);
    assert_eq!(second.state(three), Some("waiting"));
    assert_eq!(first.apply(QueueChange::Start(two)), QueueReply::NotOurs, "it has lost the lease");
    assert_eq!(first.finish(three), QueueReply::Done, "what was sent was sent");
    assert_eq!(second.apply(QueueChange::Start(three)), QueueReply::NotOurs, "and is not sent again");
    assert_eq!(first.take(), None);
    let length = u64::try_from(requests[1].encode().len()).unwrap();
    assert_eq!(second.0.size().unwrap(), QueueSize { requests: 1, bytes: length });
    assert_eq!(second.finish(two), QueueReply::Done);
    assert_eq!(second.0.size().unwrap(), QueueSize::default());
    assert_eq!(second.state(DeferredId::random()), None);
}

#[test]
fn a_second_node_goes_on_where_the_first_ended() {
    a_second_node_goes_on(&RedisServer::start().url());
}

#[test]
fn a_second_node_goes_on_where_the_first_ended_on_a_cluster() {
    a_second_node_goes_on(&RedisCluster::start().url());
}

#[test]
fn a_node_that_gives_up_is_followed_at_once() {
    let (redis, config) = (RedisServer::start(), DeferConfig::default());
    let (mut first, mut second) =
        (TestQueue::on(&redis.url(), &config), TestQueue::on(&redis.url(), &config));
    let own = request("/1");
    assert_eq!(first.accept(&own), QueueReply::Done);
    assert_eq!(first.take().unwrap(), [("/1".into(), 0)]);
    second.0.give_up().unwrap();
    assert_eq!(second.take(), None, "nobody gives up what is another's");
    first.0.give_up().unwrap();
    assert_eq!(second.take().unwrap(), [("/1".into(), 0)], "without waiting for the lease to end");
    assert_eq!(first.apply(QueueChange::Start(own.id)), QueueReply::NotOurs);
    assert_eq!(second.apply(QueueChange::Start(own.id)), QueueReply::Done);
    assert_eq!(first.take(), None, "it may come back, and then waits for its turn");
}

#[test]
fn a_queue_is_bounded_by_number_and_bytes_and_results_by_number_and_age() {
    let redis = RedisServer::start();
    let length = request("/1").encode().len();
    let keep_results = Duration::from_millis(1);
    for (prefix, config) in [
        ("a", DeferConfig { max_requests: 2, ..DeferConfig::default() }),
        ("b", DeferConfig { max_bytes: 2 * length + 1, ..DeferConfig::default() }),
        ("c", DeferConfig { max_requests: 2, keep_results, ..DeferConfig::default() }),
    ] {
        let mut own = RedisConfig::new(redis.url().parse().unwrap());
        own.key_prefix = prefix.into();
        let mut queue = TestQueue(RedisQueue::new(&own, config.clone()).unwrap());
        let requests = ["/1", "/2", "/3", "/4"].map(request);
        let [one, two, three, _] = requests.each_ref().map(|own| own.id);
        assert_eq!([queue.accept(&requests[0]), queue.accept(&requests[1])], [QueueReply::Done; 2]);
        assert_eq!(queue.accept(&requests[2]), QueueReply::Full, "{prefix}");
        assert_eq!(queue.state(three), None);
        assert_eq!([queue.finish(one), queue.finish(two)], [QueueReply::Done; 2]);
        assert_eq!(queue.accept(&requests[2]), QueueReply::Done);
        assert_eq!(queue.finish(three), QueueReply::Done);
        assert_eq!(queue.accept(&requests[3]), QueueReply::Done);
        if config.keep_results == keep_results {
            wait_until("old results go", DEADLINE, || queue.take().is_some() && queue.state(three).is_none());
        } else if config.max_requests == 2 {
            // The bound is kept by whoever looks next.
            queue.take();
            assert_eq!([queue.state(one), queue.state(three)], [None, Some("done")]);
        }
    }
}

#[test]
fn a_redis_that_is_away_is_an_error_and_nothing_else() {
    let mut redis = RedisServer::start();
    let mut queue = TestQueue::on(&redis.url(), &DeferConfig::default());
    assert_eq!(queue.accept(&request("/1")), QueueReply::Done);
    redis.kill();
    let error = queue.0.take(NOW).unwrap_err().to_string();
    assert!(error.contains("could not be asked"), "{error}");
    assert!(queue.0.apply(&[QueueChange::Start(DeferredId::random())], NOW).is_err());
    assert!(queue.0.status(DeferredId::random()).is_err());
}
