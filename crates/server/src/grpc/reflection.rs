//! Reflection: what this server serves, for grpcurl and the like.
//!
//! tonic brings the descriptions of health and of reflection itself. Envoy's
//! and our own are compiled by `build.rs` from `crates/server/proto`, which has
//! what `ShouldRateLimit` reaches.

use std::convert::Infallible;

use hyper::{Request, Response};
use tonic::body::Body;
use tonic_reflection::server::Builder;
use tower::util::BoxCloneSyncService;

use super::health_wire;
use crate::bounds::SIDE_MESSAGE_MAX;

/// Envoy's rate limit service, every message it takes, and the service that has peek and report.
const RATE_LIMIT_SERVICE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rls.binpb"));

type ReflectionServer = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

/// Reflection in the two versions that clients ask for.
#[derive(Clone)]
pub(super) struct Reflection {
    pub(super) v1: ReflectionServer,
    pub(super) v1alpha: ReflectionServer,
}

impl Reflection {
    /// Reflection of all that this server serves.
    pub(super) fn new() -> Self {
        const WHY: &str = "the descriptions are constants, and a test reads them";
        let v1 = builder().build_v1().expect(WHY).max_decoding_message_size(SIDE_MESSAGE_MAX);
        let v1alpha = builder().build_v1alpha().expect(WHY).max_decoding_message_size(SIDE_MESSAGE_MAX);
        Self { v1: BoxCloneSyncService::new(v1), v1alpha: BoxCloneSyncService::new(v1alpha) }
    }
}

fn builder() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(RATE_LIMIT_SERVICE)
        .register_encoded_file_descriptor_set(health_wire::FILE_DESCRIPTOR_SET)
}

#[cfg(test)]
mod tests;
