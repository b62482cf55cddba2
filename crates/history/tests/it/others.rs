//! The history once more on servers that people use besides Debian's Redis 7.0.

use tollgate_testkit::redis::{OtherServer, pass_on};

/// What asks a server.
const TESTS: &[&str] = &["tables::redis", "tables::a_cluster", "nodes::", "torn::no_acknowledged"];

#[test]
fn on_redis_6() {
    pass_on(OtherServer::Redis6, TESTS, &[]);
}

#[test]
fn on_valkey() {
    pass_on(OtherServer::Valkey, TESTS, &[]);
}
