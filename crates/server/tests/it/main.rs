//! The integration tests of the server, in one binary to save link time.

mod settings;
mod source;
