//! The integration tests of HTTP in and out, in one binary to save link time.

mod addresses;
mod denials;
mod mapping;
mod outcomes;
mod passes;
mod paths;
mod problems;
mod token_reference;
mod token_time;
mod tokens;
