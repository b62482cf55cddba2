//! What a client is told about its limits, as bytes.
//!
//! Filled in while a request is decided. A request that passes gets its lines with the upstream's answer, so
//! they wait here, behind the line by which the upstream is told of the limit; a denial is written where it
//! leaves from, at once.

use std::cell::RefCell;

use http::{HeaderName, StatusCode};
use tollgate_http::CallerView;
use tollgate_http::response::{DenialTexts, HeaderLines, HeaderSink, PassNumbers, PassText};

use super::denial_answer::DenialAnswer;
use super::response_head::OwnAnswers;
use super::told_lines::ToldLines;

thread_local! {
    static DENIALS: RefCell<DenialTexts<DenialAnswer>> = RefCell::default();
}

/// What a client is told.
pub(super) struct Told<'a> {
    lines: ToldLines,
    /// Who writes denials.
    answers: OwnAnswers<'a>,
    /// There is an access log.
    is_logged: bool,
    denied_bytes: Option<usize>,
}

/// What it came to.
pub(super) struct ToldEnd {
    /// For whoever answers; nothing if that was done.
    pub(super) lines: ToldLines,
    /// Bytes of the body of a denial, if one was written.
    pub(super) denied_bytes: Option<usize>,
}

impl<'a> Told<'a> {
    /// Nothing as yet.
    pub(super) fn new(answers: OwnAnswers<'a>, is_logged: bool) -> Self {
        Self { lines: ToldLines::default(), answers, is_logged, denied_bytes: None }
    }

    /// All was said.
    pub(super) fn end(self) -> ToldEnd {
        ToldEnd { lines: self.lines, denied_bytes: self.denied_bytes }
    }

    fn lines(&mut self) -> &mut HeaderLines {
        self.lines.open()
    }
}

impl HeaderSink for Told<'_> {
    fn number(&mut self, name: HeaderName, value: u64) {
        self.lines().number(name, value);
    }

    fn text(&mut self, name: HeaderName, value: &str) {
        self.lines().text(name, value);
    }

    fn written(&mut self, name: HeaderName, write: &dyn Fn(&mut Vec<u8>)) {
        self.lines().written(name, write);
    }

    fn pass(&mut self, text: &PassText, numbers: PassNumbers) {
        self.lines().pass(text, numbers);
    }

    /// The upstream gets it, and the log.
    fn wants_rule(&self, is_denied: bool) -> bool {
        self.is_logged || !is_denied
    }

    fn take_rule(&mut self, name: &str) -> bool {
        self.lines.write_rule(name);
        !self.is_logged
    }

    fn take_denial(&mut self, view: &CallerView<'_>) -> bool {
        let status = StatusCode::TOO_MANY_REQUESTS;
        DENIALS.with_borrow_mut(|texts| {
            let Some(parts) = texts.find(view, status.as_u16()) else { return false };
            self.denied_bytes = Some(self.answers.write_denial(parts));
            true
        })
    }
}
