//! Lines of every format, each written for these tests.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that fails may say so this way")]

mod formats;
mod hostile;
