//! The limiter as its users see it.

mod events;
mod flood;
mod reload;
mod rule_files;
mod support;
mod threads;
mod together;
