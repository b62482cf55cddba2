//! wrk and h2load before it, nginx behind it: every request is answered well, whatever the load.

use super::nginx::Nginx;
use super::{GatewayProcess, output};

#[test]
fn wrk_gets_an_answer_to_every_request() {
    let nginx = Nginx::start();
    let gateway = GatewayProcess::start(nginx.address);
    let said = output("wrk", &["-t1", "-c64", "-d1s", &gateway.url("/")]);
    let said = String::from_utf8(said).unwrap();
    assert!(!said.contains("Socket errors") && !said.contains("Non-2xx"), "{said}");
    let count = said.lines().find_map(|line| line.trim().split_once(" requests in ")?.0.parse::<u64>().ok());
    assert!(count.is_some_and(|count| count > 100), "{said}");
}

#[test]
fn h2load_gets_an_answer_to_every_request_of_every_stream() {
    let nginx = Nginx::start();
    let gateway = GatewayProcess::start(nginx.address);
    nginx.put("large", &super::pattern(0, 100_000));
    let (small, large) = (gateway.url("/"), gateway.url("/large"));
    let said = output("h2load", &["-n2000", "-c16", "-m16", &small, &large]);
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("2000 succeeded, 0 failed, 0 errored, 0 timeout"), "{said}");
    assert!(said.contains("status codes: 2000 2xx, 0 3xx, 0 4xx, 0 5xx"), "{said}");
}
