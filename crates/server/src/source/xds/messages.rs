//! The messages of `ratelimit.config.ratelimit.v3`, as an xDS server sends them.
//!
//! They are not among Envoy's own messages, so that they are written here;
//! the numbers are those of envoyproxy/ratelimit.

use envoy_types::pb::google::protobuf::Struct;

/// What a resource of rules is called.
pub(super) const TYPE_URL: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/// One domain.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RateLimitConfig {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) domain: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) descriptors: Vec<RateLimitDescriptor>,
}

/// One node of its tree.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RateLimitDescriptor {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
    #[prost(message, optional, tag = "3")]
    pub(super) rate_limit: Option<RateLimitPolicy>,
    #[prost(message, repeated, tag = "4")]
    pub(super) descriptors: Vec<RateLimitDescriptor>,
    #[prost(bool, tag = "5")]
    pub(super) shadow_mode: bool,
    #[prost(bool, tag = "6")]
    pub(super) detailed_metric: bool,
    #[prost(bool, tag = "7")]
    pub(super) quota_mode: bool,
    #[prost(message, optional, tag = "8")]
    pub(super) metadata: Option<Struct>,
}

/// One limit.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RateLimitPolicy {
    /// 0 is none; see `unit_of`.
    #[prost(int32, tag = "1")]
    pub(super) unit: i32,
    #[prost(uint32, tag = "2")]
    pub(super) requests_per_unit: u32,
    #[prost(bool, tag = "3")]
    pub(super) unlimited: bool,
    #[prost(string, tag = "4")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "5")]
    pub(super) replaces: Vec<RateLimitReplace>,
}

/// A limit that steps back.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RateLimitReplace {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}
