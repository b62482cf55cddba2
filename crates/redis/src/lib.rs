//! One limit across many nodes: the shared store on Redis.
//!
//! A batch of charges becomes one script call ([`codec`]); the script
//! ([`script`]) loads all states, decides all, and writes all or nothing, on
//! the clock of the server; [`codec`] takes the same steps again over the
//! states that the script saw, and so tells every detail of the decisions.
//!
//! Not here yet: the connection, what happens without it, and the wiring into
//! the service. The scripts and the codec are complete and tested.

pub mod codec;
pub mod script;
