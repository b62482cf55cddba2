//! Envoy's rate limit service over real gRPC, point by point of the reference.

mod answers;
mod modes;
mod refusals;
mod scenarios;
mod vectors;
