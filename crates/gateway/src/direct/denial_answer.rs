//! The whole answer of a denial, kept for the next one.
//!
//! Denials of one limit in one second differ in nothing but the milliseconds at the end of the body. What they
//! say is kept by [`tollgate_http::response::DenialTexts`]; here it is kept as it leaves, so that a denial is a
//! copy of one text, a number and a brace, instead of nine pieces.
//!
//! Before: the parts of a denial. After: bytes behind what was answered before, the same that
//! [`OwnAnswers::write`] would have put together; a test compares them.
//!
//! Invariants: a kept answer is used only while its date and the length of its body are right; new parts come
//! with a new one. The last answer of a connection and the one to a `HEAD` are put together by
//! [`OwnAnswers::write`], because they say something else.

use http::StatusCode;
use itoa::Buffer;
use tokio::time::Instant;
use tollgate_http::response::DenialParts;

use super::response_head::{OwnAnswer, OwnAnswers};
use super::{buffers, date};

/// A denial as it leaves, up to the milliseconds.
#[derive(Debug, Default)]
pub(super) struct DenialAnswer {
    bytes: Vec<u8>,
    /// The number of its date, and how many digits the milliseconds have.
    made_for: Option<(u64, usize)>,
}

impl OwnAnswers<'_> {
    /// Writes a denial; how many bytes its body has on the wire.
    pub(super) fn write_denial(&mut self, parts: DenialParts<'_, DenialAnswer>) -> usize {
        let DenialParts { lines, body, retry_after_ms, kept } = parts;
        let mut wait = Buffer::new();
        let wait = wait.format(retry_after_ms).as_bytes();
        let answer = OwnAnswer {
            status: StatusCode::TOO_MANY_REQUESTS,
            told: lines,
            body: [body, wait, DenialParts::END],
        };
        if self.is_last || self.is_head_request {
            return self.write(&answer);
        }
        let now = Instant::now();
        let made_for = Some((date::number(now, self.calendar), wait.len()));
        if kept.made_for != made_for {
            let start = self.out.len();
            let length = self.write(&answer);
            let written = self.out.get(start..).unwrap_or_default();
            let end = written.len().saturating_sub(wait.len() + DenialParts::END.len());
            kept.bytes.clear();
            kept.bytes.extend_from_slice(written.get(..end).unwrap_or_default());
            kept.made_for = made_for;
            return length;
        }
        *self.written_at = Some(now);
        let out = &mut *self.out;
        if out.capacity() == 0 {
            *out = buffers::take();
        }
        out.reserve(kept.bytes.len() + wait.len() + DenialParts::END.len());
        out.extend_from_slice(&kept.bytes);
        out.extend_from_slice(wait);
        out.extend_from_slice(DenialParts::END);
        body.len() + wait.len() + DenialParts::END.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;
    use tollgate_core::Time;

    use super::*;

    const LINES: &[u8] = b"retry-after: 1\r\n";
    const BODY: &[u8] = b"{\"retry_after_ms\":";

    #[tokio::test(start_paused = true)]
    async fn a_kept_answer_is_the_one_that_would_be_put_together() {
        let start = Instant::now();
        let elapsed_us = move || u64::try_from(start.elapsed().as_micros()).unwrap();
        let calendar = move || Time::new(1_700_000_000_250_000 + elapsed_us());
        let (mut kept, mut copies) = (DenialAnswer::default(), 0);
        for (step, retry_after_ms, (is_last, is_head_request)) in [
            (0, 1_000, (false, false)),
            (1, 999, (false, false)),
            (1, 998, (false, false)),
            (0, 998, (true, false)),
            (0, 998, (false, true)),
            (800, 198, (false, false)),
            (100, 98, (false, false)),
            (90, 8, (false, false)),
            (1, 7, (false, false)),
        ] {
            advance(Duration::from_millis(step)).await;
            let before = kept.made_for;
            let mut write = |wait: Option<&[u8]>| {
                let (mut out, mut written_at) = (b"before".to_vec(), None);
                let mut answers = OwnAnswers {
                    out: &mut out,
                    is_last,
                    is_head_request,
                    calendar: &calendar,
                    written_at: &mut written_at,
                };
                let length = match wait {
                    Some(wait) => answers.write(&OwnAnswer {
                        status: StatusCode::TOO_MANY_REQUESTS,
                        told: LINES,
                        body: [BODY, wait, DenialParts::END],
                    }),
                    None => {
                        let kept = &mut kept;
                        answers.write_denial(DenialParts { lines: LINES, body: BODY, retry_after_ms, kept })
                    }
                };
                (length, written_at.is_some(), String::from_utf8(out).unwrap())
            };
            assert_eq!(write(None), write(Some(retry_after_ms.to_string().as_bytes())));
            copies += usize::from(before.is_some() && before == kept.made_for);
        }
        assert_eq!(copies, 4, "the third, the two that are put together, and the last");
    }
}
