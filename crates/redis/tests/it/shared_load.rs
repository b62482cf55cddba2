//! Nodes tell each other how loaded they are, on a real server.

use tollgate_limiter::Load;
use tollgate_testkit::RedisServer;

use crate::support::store;

#[tokio::test]
async fn each_node_hears_the_largest_load_of_the_others() {
    let server = RedisServer::start();
    let [a, b, c] = [(); 3].map(|()| store(&server.url()));
    let shop = || Some("shop {1} %".to_owned());
    assert_eq!(a.share_load(&[(None, Load::percent(20)), (shop(), Load::percent(90))]).await, Some(vec![]));
    let heard = b.share_load(&[(None, Load::percent(60))]).await.unwrap();
    assert_eq!(heard, [(None, Load::percent(20)), (shop(), Load::percent(90))]);
    let mut heard = c.share_load(&[]).await.unwrap();
    heard.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(heard, [(None, Load::percent(60)), (shop(), Load::percent(90))], "the largest wins");
    // What a node says replaces what it said.
    let heard = a.share_load(&[(None, Load::percent(10))]).await.unwrap();
    assert_eq!(heard, [(None, Load::percent(60))]);
    assert_eq!(b.share_load(&[]).await.unwrap(), [(None, Load::percent(10))]);
    let life: i64 = server.cli(&["pttl", "t1:load"]).trim().parse().unwrap();
    assert!((1..=3_000).contains(&life), "it expires by itself: {life}");
}
