//! On demand: what a decision costs, beside something to compare it with, in one run.

pub(crate) mod grpc;
pub(crate) mod redis;
mod under_load;
