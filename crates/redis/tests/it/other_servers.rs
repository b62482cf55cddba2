//! The promises once more, on servers that people use besides Debian's Redis 7.0.

use tollgate_testkit::redis::{OtherServer, pass_on};

/// What depends on the server most: scripts, errors, slots, outages.
const TESTS: &[&str] = &[
    "conformance::the_vectors",
    "exact::",
    "outage::",
    "server_errors::",
    "batch_calls::",
    "multi_slot::",
    "slots::",
    "charge_sets::",
    "load::failed_over",
    "memory::",
];

#[test]
fn on_redis_6() {
    // It does not know how to load slowly.
    pass_on(OtherServer::Redis6, TESTS, &["a_server_that_reads_its_data_from_disk"]);
}

#[test]
fn on_valkey() {
    pass_on(OtherServer::Valkey, TESTS, &[]);
}
