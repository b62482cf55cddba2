//! What upstream and client are told about limits, as lines that wait for them.
//!
//! Filled in by `Told` while a request is decided; the upstream gets its line with the request,
//! the client the others with the answer.

use tollgate_http::response::HeaderLines;

use super::buffers;
use crate::strict;

/// Lines that wait for an upstream and its answer, in one buffer.
#[derive(Debug, Default)]
pub(super) struct ToldLines {
    lines: HeaderLines,
    /// Bytes of the line that the upstream gets.
    rule_length: usize,
}

impl ToldLines {
    /// The line by which the upstream is told of the limit; empty if it is not.
    pub(super) fn rule(&self) -> &[u8] {
        self.lines.as_bytes().get(..self.rule_length).unwrap_or_default()
    }

    /// What the client is told about its limits.
    pub(super) fn limits(&self) -> &[u8] {
        self.lines.as_bytes().get(self.rule_length..).unwrap_or_default()
    }

    /// Whether the client is told something by this name, which is in lower case.
    pub(super) fn has(&self, name: &[u8]) -> bool {
        self.lines.has(name)
    }

    /// The lines, with room for more.
    pub(super) fn open(&mut self) -> &mut HeaderLines {
        if self.lines.as_bytes().is_empty() {
            self.lines = HeaderLines::from(buffers::take());
        }
        &mut self.lines
    }

    /// Tells the upstream of a limit, before anything is told to the client; not if its name may be no value.
    pub(super) fn write_rule(&mut self, name: &str) {
        if strict::text_length(name.as_bytes()) == name.len() {
            let lines = self.open();
            lines.append(b"x-tollgate-rule: ");
            lines.append(name.as_bytes());
            lines.append(b"\r\n");
            self.rule_length = lines.as_bytes().len();
        }
    }

    /// Lets others have the buffer.
    pub(super) fn give_back(self) {
        buffers::give(self.lines.into());
    }
}
