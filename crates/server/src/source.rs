//! Where rules come from: files that change, or an xDS server.
//!
//! [`crate::settings::Rules`] says where to look; a source loads, watches and
//! loads again, hands every result on, and keeps a [`RuleStatus`] for health,
//! metrics and the admin pages.
//!
//! Invariant: a set that cannot be loaded changes nothing but the status.
//!
//! Deliberately not here: what rules mean, and who puts them in force.

mod status;

pub use status::{Failure, RuleStatus};
