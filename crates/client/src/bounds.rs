//! Every bound on what this crate holds, sends and waits for, with its reason.
//!
//! Deliberately not here: what callers choose; [`crate::ClientSettings`] has those with their defaults.

use std::time::Duration;

/// One reply of a Tollgate server. A reply to a thousand descriptors has a few hundred KB.
pub const REPLY_MAX: usize = 4 << 20;

/// A request whose encoding is longer is not remembered when it is denied. Most have a few dozen bytes.
pub const DENIAL_KEY_MAX: usize = 1 << 10;

/// A denial by more limits than this is not remembered, because its reply is kept along.
pub const DENIAL_DECISIONS_MAX: usize = 16;

/// How long a connection is kept that nobody uses: shorter than the 60 s after which a server closes it.
pub const POOL_IDLE_MAX: Duration = Duration::from_secs(30);

/// How often a silent HTTP/2 connection is pinged, to notice a server that is gone without a word.
pub const PING_EVERY: Duration = Duration::from_secs(15);

/// How long a ping may be unanswered.
pub const PING_WAIT_MAX: Duration = Duration::from_secs(5);

/// No instant is further ahead than this, whatever a server tells: the arithmetic of clocks has an end.
pub const AHEAD_MAX: Duration = Duration::from_secs(30 * 365 * 86_400);
