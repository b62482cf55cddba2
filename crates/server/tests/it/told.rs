//! What people are told, byte by byte.

mod exact;
mod wire;
