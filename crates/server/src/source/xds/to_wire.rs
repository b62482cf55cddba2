//! What an xDS server is told: who we are, what we want, and what became of its last response.

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::DiscoveryRequest;
use envoy_types::pb::google::protobuf::{Struct, Value, value::Kind};
use envoy_types::pb::google::rpc::Status as RpcStatus;
use tollgate_settings::XdsSettings;

use super::from_wire::TYPE_URL;

/// The most bytes of a reason that the server is sent; it stands in a log there.
const REASON_MAX: usize = 4_096;
/// `INVALID_ARGUMENT` of gRPC.
const INVALID_ARGUMENT: i32 = 3;

/// The answer to a response. The first request of a stream answers none.
#[derive(Debug, Default)]
pub(super) struct Acknowledgement {
    /// The version in force.
    pub(super) version: String,
    /// Which response it answers.
    pub(super) nonce: String,
    /// Why that one was refused.
    pub(super) refused: Option<String>,
}

/// The next request of a stream.
pub(super) fn request(xds: &XdsSettings, answer: Acknowledgement) -> DiscoveryRequest {
    let text = |value: &String| Value { kind: Some(Kind::StringValue(value.clone())) };
    let fields = xds.node_metadata.iter().map(|(name, value)| (name.clone(), text(value))).collect();
    let node = Node {
        id: xds.node_id.clone(),
        metadata: Some(Struct { fields }).filter(|metadata| !metadata.fields.is_empty()),
        ..Node::default()
    };
    DiscoveryRequest {
        version_info: answer.version,
        node: Some(node),
        type_url: TYPE_URL.to_owned(),
        response_nonce: answer.nonce,
        error_detail: answer.refused.map(|reason| RpcStatus {
            code: INVALID_ARGUMENT,
            message: cut(reason),
            details: Vec::new(),
        }),
        ..DiscoveryRequest::default()
    }
}

/// At most [`REASON_MAX`] bytes, cut between characters.
fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(REASON_MAX));
    text
}
