//! HTTP in and out, for whoever limits HTTP requests.
//!
//! [`request`] turns a request into descriptors, in the words of Envoy's rate
//! limit actions. The limiter decides. [`response`] turns its reply into what
//! the caller is told: headers, and the body of a denial. [`admission`] is the
//! whole way from the one to the other, for forward-auth, gateway and middleware,
//! so that a rule file means the same behind each; `/v1` and gRPC use the second.
//!
//! Invariants: nothing that a client can write freely is believed about its
//! address; a claim is used only if its token is verified; every value is
//! bounded. What is in shadow mode is told to nobody.
//!
//! Deliberately not here: limits, settings files, and anything of a server.

pub mod admission;
pub mod error;
pub mod request;
pub mod response;

pub use admission::{Admission, AdmissionControl, AdmissionError, Checker, LimiterChecker, MeteredBody};
pub use error::Error;
pub use request::{
    Action, AddressHeader, AddressPrefixes, ChargeTerms, ClientAddress, EscapedSlashes, Fact, FieldLine,
    FieldLines, FieldSpan, HeaderFields, HttpRequestFacts, MappedDescriptors, MappedEntries, MappedRequest,
    Mapping, MappingDenial, MappingDescriptor, MissingValue, PathSpelling, PathTemplates, ResponseCost,
    StatusPattern, StatusSet, TokenSource, TokenVerifier,
};
pub use response::{CallerView, RateLimitFields, ResponseSettings};
