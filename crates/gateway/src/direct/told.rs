//! What a client is told about its limits, as bytes: the lines of a head, and the body of a denial.

use std::cell::RefCell;

use http::{HeaderName, StatusCode};
use tollgate_http::CallerView;
use tollgate_http::response::{DenialTexts, HeaderLines, HeaderSink, PassNumbers, PassText};

use super::buffers;

thread_local! {
    static DENIALS: RefCell<DenialTexts> = RefCell::default();
}

/// What a client is told.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) lines: HeaderLines,
    /// The body of a denial; empty if there is none, or somebody else writes it.
    pub(super) body: Vec<u8>,
}

impl Told {
    /// Nothing as yet.
    pub(super) fn new() -> Self {
        Self { lines: HeaderLines::from(buffers::take()), body: Vec::new() }
    }

    /// Lets others have the room.
    pub(super) fn give_back(self) {
        buffers::give(self.lines.into());
        buffers::give(self.body);
    }
}

impl HeaderSink for Told {
    fn number(&mut self, name: HeaderName, value: u64) {
        self.lines.number(name, value);
    }

    fn text(&mut self, name: HeaderName, value: &str) {
        self.lines.text(name, value);
    }

    fn written(&mut self, name: HeaderName, write: &dyn Fn(&mut Vec<u8>)) {
        self.lines.written(name, write);
    }

    fn pass(&mut self, text: &PassText, numbers: PassNumbers) {
        self.lines.pass(text, numbers);
    }

    fn take_denial(&mut self, view: &CallerView<'_>) -> bool {
        self.body = buffers::take();
        let status = StatusCode::TOO_MANY_REQUESTS.as_u16();
        DENIALS.with_borrow_mut(|texts| texts.write(view, status, &mut self.lines, &mut self.body))
    }
}
