//! Every bound on what this crate holds, sends and waits for, with its reason.
//!
//! Deliberately not here: what callers choose; [`crate::ClientSettings`] and [`crate::OutgoingSettings`] have
//! those with their defaults.

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

/// Hosts whose limits are known. A program that calls more at once has them go in turn.
pub const HOSTS_MAX: usize = 1_000;

/// Turns at one host that were given back and nobody has taken yet; further ones are lost.
pub const FREE_TURNS_MAX: usize = 1_000;

/// Where a server does not tell how much there is in all, calls slow down when fewer than this are left.
pub const SLOW_REMAINING: u64 = 10;

/// An answer that is older on arrival, in seconds, is not kept: RFC 9111 knows no greater age.
pub const AGE_MAX_S: u64 = 1 << 31;

/// What an answer in the cache takes besides its URI, its fields and its body.
pub const CACHE_ENTRY_BYTES: usize = 1 << 10;

/// Answers of one URI that differ by fields that `Vary` names.
pub const VARIANTS_MAX: usize = 8;

/// A server that asks to be left alone is asked again after this at the latest, and told again if it meant it: a
/// mistake of years would keep a program from it until a restart. What is left of a longer quota is still spread
/// over all of its window.
pub const TOLD_MAX: Duration = Duration::from_secs(86_400);

/// No instant is further ahead than this, whatever a server tells: the arithmetic of clocks has an end.
pub const AHEAD_MAX: Duration = Duration::from_secs(30 * 365 * 86_400);
