//! Reflection: what this server serves, for grpcurl and the like.
//!
//! tonic brings the descriptions of health and of reflection itself; Envoy's
//! messages are described in `files`, as far as they are reachable from
//! `ShouldRateLimit`.

mod build;
mod files;

use std::convert::Infallible;

use hyper::{Request, Response};
use prost_types::FileDescriptorSet;
use tonic::body::Body;
use tonic_reflection::server::Builder;
use tower::util::BoxCloneSyncService;

type Server = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

/// Reflection in the two versions that clients ask for.
#[derive(Clone)]
pub(super) struct Servers {
    pub(super) v1: Server,
    pub(super) v1alpha: Server,
}

/// Reflection of all that this server serves.
pub(super) fn servers() -> Servers {
    let v1 = builder().build_v1().expect("the descriptions are constants, and a test reads them");
    let v1alpha = builder().build_v1alpha().expect("the descriptions are constants, and a test reads them");
    Servers { v1: BoxCloneSyncService::new(v1), v1alpha: BoxCloneSyncService::new(v1alpha) }
}

fn builder() -> Builder<'static> {
    Builder::configure()
        .register_file_descriptor_set(envoy())
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

/// Envoy's rate limit service and every message it takes.
fn envoy() -> FileDescriptorSet {
    FileDescriptorSet { file: files::FILES.iter().map(build::file).collect() }
}

#[cfg(test)]
mod tests;
