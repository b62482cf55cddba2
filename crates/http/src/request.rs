//! From an HTTP request to descriptors, in the words of Envoy's rate limit actions.
//!
//! Whoever speaks HTTP makes [`HttpRequestFacts`] of a request; a [`Mapping`] turns them
//! into descriptors; the limiter takes it from there.
//!
//! | module | what it holds |
//! |---|---|
//! | [`facts`] | [`HttpRequestFacts`]: what is known about a request |
//! | [`header_fields`] | [`HeaderFields`]: its fields, wherever they are kept |
//! | [`mapping`] | [`Mapping`]: which facts become which entries |
//! | [`charge_terms`] | [`ChargeTerms`]: when a descriptor is charged, and what |
//! | [`address`] | who asks: addresses behind trusted proxies, and their prefixes |
//! | [`path`] | one spelling for each path; templates |
//! | [`token`] | JSON web tokens, verified |
//! | [`value`] | how long a value may be |

pub mod address;
pub mod charge_terms;
mod cookie;
pub mod facts;
pub mod header_fields;
pub mod mapping;
pub mod path;
mod query;
pub mod token;
pub mod value;

pub use address::{AddressHeader, AddressPrefixes, ClientAddress};
pub use charge_terms::{ChargeTerms, ResponseCost, StatusPattern, StatusSet};
pub use facts::HttpRequestFacts;
pub use header_fields::{FieldLine, FieldLines, FieldSpan, HeaderFields};
pub use mapping::{
    Action, Fact, MappedDescriptors, MappedEntries, MappedRequest, Mapping, MappingDenial, MappingDescriptor,
    MissingValue,
};
pub use path::{EscapedSlashes, PathSpelling, PathTemplates};
pub use token::{TokenSource, TokenVerifier};
