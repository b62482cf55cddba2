//! Turns are as far apart as the limit says, to the millisecond, whichever way requests came.

use std::time::Duration;

use super::paced::{Paced, TURN, get};

const COUNT: usize = 100;

/// The hundred come one by one, half a second apart, as they were decided.
async fn come_evenly(mut paced: Paced, way: &str) {
    let decided = paced.until_decided(COUNT).await;
    for (turn, path) in (0..).zip(&decided) {
        if turn > 0 {
            // Nothing comes a moment before.
            paced.pass(TURN - Duration::from_millis(1)).await;
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let arrival = paced.arrival().await;
        assert_eq!((&arrival.path, arrival.at), (path, TURN * turn), "{way}, number {turn}");
    }
    assert_eq!(decided.len(), COUNT);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_at_once_over_http1_come_half_a_second_apart_as_they_were_decided() {
    for (way, more) in [("the short way", ""), ("hyper's way", "TE: trailers\r\n")] {
        let paced = Paced::start().await;
        let mut clients = Vec::new();
        for number in 0..COUNT {
            let mut client = paced.connect();
            client.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n{more}\r\n")).await;
            clients.push(client);
        }
        come_evenly(paced, way).await;
        for client in &mut clients {
            assert!(client.head().await.starts_with("HTTP/1.1 200"), "{way}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_streams_of_http2_come_half_a_second_apart_as_they_were_decided() {
    let paced = Paced::start().await;
    let mut sender = paced.connect_http2().await;
    let mut answers = Vec::new();
    for number in 0..COUNT {
        answers.push(tokio::spawn(sender.send_request(get(format_args!("/{number}")))));
    }
    come_evenly(paced, "HTTP/2").await;
    for answer in answers {
        assert_eq!(answer.await.unwrap().unwrap().status(), 200);
    }
}
