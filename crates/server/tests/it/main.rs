//! The integration tests of the server, in one binary to save link time.

mod admin;
mod authz;
mod health;
mod hostile;
mod json;
mod metrics;
mod resp;
mod rls;
mod settings;
mod source;
mod support;
mod tls;
mod unix;
