//! The integration tests of the mapping, in one binary to save link time.

mod addresses;
mod mapping;
mod paths;
mod tokens;
