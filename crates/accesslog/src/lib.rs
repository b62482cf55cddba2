//! Access logs of web servers and proxies: a line becomes a request.
//!
//! | module | what it does |
//! |---|---|
//! | [`line`](LogLine) | what a line says |
//! | `timestamp` | the time stamps that logs have |
//! | `template` | lines by a pattern: format strings of nginx, Apache and Envoy |
//! | `columns` | W3C extended logs, CloudFront's among them |
//! | `json` | a JSON object a line |
//! | `container` | what a container runtime writes in front |
//! | `format` | the formats by name, and which of them a log has |
//!
//! Replay and the import of history read logs with it.
//!
//! Invariants: a line borrows from the bytes it was read from wherever it can; no line, however
//! hostile, makes a parser panic or take more than time linear in its length.
//!
//! Deliberately not here: files, compression, and what becomes of a request.

mod columns;
mod container;
mod decimal;
mod error;
mod format;
mod json;
mod line;
mod template;
mod timestamp;

pub use error::FormatError;
pub use format::{FORMAT_NAMES, LineParser, LogFormat, Parsed};
pub use line::{LogHeaders, LogLine};
