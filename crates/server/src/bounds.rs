//! Every bound on what callers may send or hold, in one place, with its reason.
//!
//! Listeners and adapters use these; nothing else in the server decides how much
//! is too much. A caller beyond a bound gets an error in its protocol, or is cut
//! off; no other caller notices. docs/guide/operating.md has the table.
//!
//! Deliberately not here: what a rule file may hold (`tollgate_rules`)
//! and how many keys the store keeps (`--store`, `tollgate_limiter::Capacity`).

use std::time::Duration;

/// Open connections of all listeners together. An Envoy keeps one for each of
/// its threads, so that this serves hundreds of large proxies; at some 11 KB
/// each they take 180 MB at worst.
pub const CONNECTIONS_MAX: usize = 16_384;

/// From this many connections on, one that has been silent for a while is
/// closed to make room, so that idle callers cannot keep others out.
pub const CONNECTIONS_CROWDED: usize = CONNECTIONS_MAX / 2;

/// Addresses whose new connections are counted, if they are limited: an address is forgotten a second
/// after its last one. At 41 bytes each they take 3 MB at worst.
pub const ADDRESSES_MAX: usize = 1 << 16;

/// Refused connections that are told why at a time; any others are reset.
pub const REFUSALS_MAX: usize = 256;

/// How long that may take.
pub const REFUSAL_WAIT_MAX: Duration = Duration::from_secs(1);

/// Bytes of such a caller that are read and thrown away, so that it can read the answer.
pub const REFUSAL_BYTES: u64 = 16 << 10;

/// File descriptors that are not for connections: listeners, rule files, logs.
pub const DESCRIPTORS_RESERVED: usize = 256;

/// Connections that the kernel holds until they are accepted. A reconnect of
/// every proxy at once must fit. The kernel takes it as a hint.
pub const BACKLOG: i32 = 4_096;

/// The pause after `accept` fails, for example for want of file descriptors.
/// Short enough that nobody waits long, long enough that it takes no CPU.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a caller has for the TLS handshake, and then again for the preface of
/// HTTP/2, the first bytes of an HTTP/1.1 request, or the password over RESP.
pub const OPENING_MAX: Duration = Duration::from_secs(10);

/// How often a connection is checked for silence, slowness and its age.
pub const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How long a body may take to arrive whole, and a response to be read. A request is a few hundred bytes.
pub const BODY_WAIT_MAX: Duration = Duration::from_secs(10);

/// A caller whose responses wait must read at least this much of them in
/// [`LOOK_EVERY`]; if it has not for [`BODY_WAIT_MAX`], it is cut off.
pub const READ_LEAST: u64 = 16 << 10;

/// A batch with a longer answer is decided and written in parts of this size,
/// as fast as the caller reads. Two parts and the one that is being written are
/// what such a connection holds. Replies over RESP are written in such parts, too.
pub const RESPONSE_PART: usize = 16 << 10;

/// A batch of no more bytes is decided as it was read. A larger one takes some
/// twenty times its bytes once it is read, so that it is read again, request by request.
pub const BATCH_SHORT: usize = 2 << 10;

/// Responses of this size and more count against [`RESPONSES_MAX`] until they are read.
pub const RESPONSE_LARGE: usize = 64 << 10;

/// Bytes of large responses that wait to be read, of all callers together.
pub const RESPONSES_MAX: usize = 64 << 20;

/// Bytes of gRPC responses that wait for the window of one connection; further
/// calls on it are refused until the caller reads. What is beyond
/// [`RESPONSE_LARGE`] counts against [`RESPONSES_MAX`], too. Where all calls that
/// may be made at a time are answered at once, those fit that are beyond the
/// least window there is, 64 KB.
pub const CONNECTION_RESPONSES_MAX: usize = 2 << 20;

/// What a gRPC call counts while its response waits, besides the response. It takes half a kilobyte; this is
/// more, so that few calls on a closed window fill their connection's share.
pub const WAITING_CALL: usize = 3 << 10;

/// Calls of health and reflection at a time on one connection. Each takes some
/// 20 KB, and a client has one or two.
pub const SIDE_CALLS_MAX: usize = 8;

/// How long an HTTP/1.1 connection may be idle, and how long the head of a request may take.
pub const HTTP_IDLE_MAX: Duration = Duration::from_secs(60);

/// How often a silent HTTP/2 connection is pinged, to notice callers that are gone.
pub const PING_EVERY: Duration = Duration::from_secs(15);

/// How long a ping may be unanswered. It also ends connections that stop in the
/// middle of a frame.
pub const PING_WAIT_MAX: Duration = Duration::from_secs(10);

/// Bytes that one read of gRPC takes at most. Some 60 calls fit.
pub const GRPC_READ: usize = 8 << 10;

/// Bytes of messages that one connection has decided before others have their turn. A usual call counts
/// some hundred; one with hundreds of descriptors is a turn of its own.
pub const GRPC_TURN: usize = 16 << 10;

/// The message of a call of health or reflection: a name.
pub const SIDE_MESSAGE_MAX: usize = 16 << 10;

/// How long a gRPC connection is read on after its end, so that its caller can read the last answers and
/// why it has ended. Callers that close their side are let go at once.
pub const LINGER_MAX: Duration = Duration::from_secs(1);

/// Calls at a time on one connection. Envoy's own default for a cluster is
/// 1,024 requests, and a call takes microseconds.
pub const STREAMS_MAX: u32 = 1_024;

/// Bytes of requests on the way that one connection may have us hold.
pub const CONNECTION_WINDOW: u32 = 1 << 20;

/// The same for one call; a usual request fits many times.
pub const STREAM_WINDOW: u32 = 64 << 10;

/// The headers of one request. Ours are a dozen short ones; tracing adds some.
pub const HEADERS_MAX: u32 = 16 << 10;

/// Streams that a caller opened and reset before we looked at them. More is
/// not an impatient caller but a rapid-reset attack.
pub const RESETS_MAX: usize = 64;

/// The headers and the request line of an HTTP/1.1 request, and of what is
/// read at a time. The least that hyper accepts is 8 KB.
pub const HTTP_HEAD_MAX: usize = 32 << 10;

/// Bytes that one read of HTTP/1.1 takes at most where requests come whole,
/// which is what such a connection holds. A request is a few hundred.
pub const HTTP_READ: usize = 8 << 10;

/// One gRPC message. A thousand descriptors of usual length fit.
pub const GRPC_MESSAGE_MAX: usize = 1 << 20;

/// One JSON body; the same request takes twice the bytes at most.
pub const JSON_BODY_MAX: usize = 1 << 20;

/// Bytes of bodies that are not yet whole, of all callers together. A body
/// that comes in one piece, as nearly all do, needs none of it.
pub const BODIES_MAX: usize = 64 << 20;

/// Descriptors in a request. Envoy sends one for each rate limit of a route.
pub const DESCRIPTORS_MAX: usize = 1_000;

/// Requests in one batch of `/v1`. More save nothing any more.
pub const BATCH_MAX: usize = 1_000;

/// Descriptors of all requests of a batch together, so that its answer stays
/// below some megabytes.
pub const BATCH_DESCRIPTORS_MAX: usize = 4 * DESCRIPTORS_MAX;

/// Entries in a descriptor; rules nest no deeper than this.
pub const ENTRIES_MAX: usize = tollgate_core::ruleset::DEPTH_MAX;

/// Seconds between two reports of a load. Three without any count as full, and
/// a source that reports less often than once a day says nothing about now.
pub const LOAD_INTERVAL_MAX_S: u64 = 86_400;

/// Bytes of a domain or a key, which operators choose.
pub const KEY_MAX: usize = 4 << 10;

/// Bytes of a value. Envoy refuses header blocks above 60 KB, so that no value
/// it takes from a request is longer.
pub const VALUE_MAX: usize = 64 << 10;

/// Words of a command over RESP. `TOLLGATE.CHECK` has the most: a domain, a
/// key and a value for each entry, and a cost; clients may ask about as many
/// commands by name.
pub const RESP_WORDS_MAX: u64 = 256;

/// Bytes of a word over RESP; the longest value fits.
pub const RESP_WORD_MAX: usize = VALUE_MAX;

/// Bytes of a command over RESP. Several of the longest values fit.
pub const RESP_COMMAND_MAX: usize = 256 << 10;

/// Bytes of a command over RESP that is typed as a line.
pub const RESP_INLINE_MAX: usize = 4 << 10;

/// Commands of a pipeline that are decided together over RESP, before their replies are written. More would
/// only queue at a remote store, and hold the locks of more counters in memory.
pub const RESP_PIPELINE: usize = 64;

/// Bytes that one read over RESP takes at most, which is what a connection
/// holds. Some 200 commands fit, so that a pipeline of 64 is one batch.
pub const RESP_READ: usize = 16 << 10;

/// Overrides at a time. More is a rule that has not been written; with usual texts they take 5 MB.
pub const OVERRIDES_MAX: usize = 10_000;

/// Changes of overrides that are remembered.
pub const AUDIT_MAX: usize = 1_000;

/// Bytes of the reason for an override, and of the name of whoever makes it.
pub const OVERRIDE_TEXT_MAX: usize = 500;

/// How long an override lasts at most.
pub const OVERRIDE_LIFE_MAX: Duration = Duration::from_secs(366 * 86_400);

/// How long calls in flight have to finish on SIGTERM. Kubernetes kills after 30 s.
pub const DRAIN_MAX: Duration = Duration::from_secs(25);

/// After SIGTERM, a connection that was silent for this long is cut off: all its
/// calls are answered, and it does not even acknowledge the goodbye.
pub const DRAIN_SILENCE_MAX: Duration = Duration::from_secs(2);

/// How often certificates are read from disk; a change is used a second later.
pub const CERTIFICATE_LOOK_EVERY: Duration = Duration::from_secs(1);

/// A certificate chain, a key or a bundle of authorities. The largest public
/// bundle is about 250 KB.
pub const PEM_MAX: u64 = 4 << 20;
