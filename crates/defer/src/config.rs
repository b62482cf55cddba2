//! How many requests are kept, how large, for how long, and how often each is tried.

use std::time::Duration;

use tollgate_core::Micros;

/// The first pause after an attempt that failed; each further one is twice as long.
pub const BACKOFF_MIN: Micros = Micros::from_secs(1);
/// The longest pause between two attempts.
pub const BACKOFF_MAX: Micros = Micros::from_secs(300);

/// The bounds on requests that are sent later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeferConfig {
    /// How many may wait.
    pub max_requests: usize,
    /// How many bytes they may take together.
    pub max_bytes: usize,
    /// The longest body of a request that is kept; a longer answer to it is cut there.
    pub max_body: usize,
    /// How long a request may wait.
    pub max_age: Duration,
    /// How long one can ask what became of it.
    pub keep_results: Duration,
    /// How often it is sent at most.
    pub max_attempts: u32,
    /// Headers that are kept although they may hold credentials, in lower case.
    pub keep_headers: Vec<String>,
}

impl Default for DeferConfig {
    fn default() -> Self {
        Self {
            max_requests: 10_000,
            max_bytes: 64 << 20,
            max_body: 256 << 10,
            max_age: Duration::from_secs(3_600),
            keep_results: Duration::from_secs(3_600),
            max_attempts: 10,
            keep_headers: Vec::new(),
        }
    }
}

/// The pause after so many attempts that failed.
pub fn backoff(attempts: u32) -> Micros {
    let factor = 1_u64.checked_shl(attempts.saturating_sub(1)).unwrap_or(u64::MAX);
    BACKOFF_MIN.times(factor).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_their_bound() {
        let seconds = [1, 2, 3, 9, 10, 64, 65, u32::MAX].map(|attempts| backoff(attempts).as_secs_ceil());
        assert_eq!(seconds, [1, 2, 4, 256, 300, 300, 300, 300]);
    }
}
