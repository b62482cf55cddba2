//! On demand: what a decision costs, beside something to compare it with, in one run.

pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod redis;
pub(crate) mod resp;
mod rounds;
mod tools;
mod under_load;
