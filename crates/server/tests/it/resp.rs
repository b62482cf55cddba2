//! RESP over real connections, by hand and by real clients.

mod bytes;
mod clients;
mod doors;
pub(crate) mod support;
