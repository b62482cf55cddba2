//! Every bound on what clients and upstreams may send or hold, in one place, with its reason.
//!
//! The listener's own bounds, such as how many connections there may be, are the server's.

use std::time::Duration;

/// Bytes of a request's head. nginx takes 8 KB a line and four of them; hyper reads no more than
/// this at a time either.
pub const HEAD_MAX: usize = 32 << 10;

/// Fields in a head, of a request or of an answer; hyper has room for as many over HTTP/1.
pub const FIELDS_MAX: usize = 100;

/// A head must be whole so long after its first byte.
pub const HEAD_WAIT_MAX: Duration = Duration::from_secs(10);

/// A connection without a request may stay so long, over HTTP/1 and over HTTP/2.
pub const KEEP_ALIVE_MAX: Duration = Duration::from_secs(60);

/// A client that takes nothing of an answer for so long is cut off, so that it cannot hold a
/// connection to the upstream for ever: its connection over HTTP/1, the stream over HTTP/2, where
/// it must take [`ANSWER_PIECE_MAX`] bytes in that time.
pub const WRITE_WAIT_MAX: Duration = Duration::from_secs(60);

/// Bytes of an answer that are handed to HTTP/2 at a time; what its frames have.
pub const ANSWER_PIECE_MAX: usize = 16 << 10;

/// Bytes of a body that are read and thrown away after a denial, so that the client can read the
/// answer and keep its connection.
pub const DRAIN_BYTES: usize = 256 << 10;

/// How long that may take.
pub const DRAIN_WAIT_MAX: Duration = Duration::from_secs(2);

/// Bytes that are thrown away after the last answer on a connection. The kernel resets a connection
/// that is closed with unread bytes, and the client would lose the answer.
pub const LINGER_BYTES: usize = 1 << 20;

/// How long that may take.
pub const LINGER_MAX: Duration = Duration::from_secs(2);

/// Answers of our own to requests that came together are written together, up to so many bytes.
pub const DIRECT_OUT_BYTES: usize = 64 << 10;

/// A client that expects `100 Continue` sends its body after so long even if the upstream says
/// nothing; curl itself waits for a second.
pub const CONTINUE_WAIT_MAX: Duration = Duration::from_secs(1);

/// Routes that may be written; a request is compared with one after the other.
pub const ROUTES_MAX: usize = 1_000;

/// Upstreams of a group.
pub const GROUP_MAX: usize = 256;

/// Upstreams of a group that are tried, one after the other, for a connection.
pub const CONNECT_TRIES_MAX: usize = 3;

/// An upstream that fails is left alone for at most this long; what Envoy has.
pub const EJECTION_MAX: Duration = Duration::from_secs(300);

/// The shortest time between two health checks, and for one.
pub const CHECK_MIN: Duration = Duration::from_millis(100);

/// Requests at a time on one HTTP/2 connection to an upstream, if it allows as many.
pub const UPSTREAM_STREAMS_MAX: usize = 128;

/// HTTP/2 connections that a worker has to an upstream; further requests wait for a stream.
pub const SHARED_MAX: usize = 32;

/// How long it keeps one without a request. An upstream that wants to close one says so before, so
/// that no request meets one that is being closed.
pub const SHARED_IDLE_TIME: Duration = Duration::from_secs(60);

/// Connections without a request that a worker keeps to an upstream.
pub const POOL_IDLE_MAX: usize = 256;

/// How long it keeps them where the upstream says nothing about it: less than the 5 s after which Node.js
/// and uvicorn close theirs, so that a request hardly ever meets a connection that is being closed.
pub const POOL_IDLE_TIME: Duration = Duration::from_secs(4);

/// How much shorter it is than what the upstream says in `Keep-Alive: timeout=N`: the way there, a busy machine,
/// and seconds that were rounded up.
pub const POOL_IDLE_MARGIN: Duration = Duration::from_secs(1);

/// The longest time that it is, whatever the upstream says: what is between the two may forget a silent connection.
pub const POOL_IDLE_TIME_MAX: Duration = Duration::from_secs(60);

/// Requests at a time on one HTTP/2 connection; what nginx allows.
pub const STREAMS_MAX: u32 = 128;

/// Bytes on the way that one HTTP/2 connection may have us hold.
pub const CONNECTION_WINDOW: u32 = 1 << 20;

/// Bytes on the way that one request over HTTP/2 may have us hold, each way.
pub const STREAM_WINDOW: u32 = 64 << 10;

/// Streams that a client opened and reset before we looked at them. More is a rapid-reset attack.
pub const RESETS_MAX: usize = 64;

/// Streams that we had to reset because of what the client sent on them. More is the attack that
/// is known as MadeYouReset.
pub const LOCAL_RESETS_MAX: usize = 64;

/// A silent HTTP/2 connection is pinged so often, to notice clients that are gone.
pub const PING_EVERY: Duration = Duration::from_secs(15);

/// A ping must be answered after this.
pub const PING_WAIT_MAX: Duration = Duration::from_secs(10);

/// Bytes of the head of an upstream's answer; a larger one is a 502.
pub const UPSTREAM_HEAD_MAX: usize = 64 << 10;

/// Lines of the access log that wait to be written; more are dropped. With lines of the usual 200
/// bytes it is less than 2 MB.
pub const ACCESS_LOG_LINES_MAX: usize = 8_192;

/// Bytes of a text in the access log, such as a path or the name of a browser.
pub const ACCESS_LOG_TEXT_MAX: usize = 1_024;

/// Bytes of the access log that are written at a time.
pub const ACCESS_LOG_WRITE_BYTES: usize = 64 << 10;

/// The end of a server waits so long for what is left of the access log.
pub const ACCESS_LOG_END_MAX: Duration = Duration::from_secs(2);

/// A tunnel, such as a WebSocket, stays for as long as both ends do, however silent they are: only
/// they know what silence means. An end that is gone without a word is noticed by TCP, which asks
/// after this much silence,
pub const TUNNEL_PROBE_AFTER: Duration = Duration::from_secs(60);

/// then so often,
pub const TUNNEL_PROBE_EVERY: Duration = Duration::from_secs(15);

/// and closes the connection if so many questions got no answer. The server's listeners do the same for
/// all clients.
pub const TUNNEL_PROBES: u32 = 4;

/// A tunnel ends so long after the server is told to stop.
pub const TUNNEL_DRAIN: Duration = Duration::from_secs(2);
