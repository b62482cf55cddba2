//! What a server allows on a connection, and what it wants to know of a request.

/// What a server allows on a connection.
#[derive(Debug, Clone, Copy)]
pub struct Http2Config {
    /// Calls at a time.
    pub streams_max: u32,
    /// Bytes of one body on the way.
    pub stream_window: u32,
    /// Bytes of all bodies on the way.
    pub connection_window: u32,
    /// Bytes of the header fields of one request, 32 added for each.
    pub headers_max: u32,
    /// Streams that a caller may open and reset in one go.
    pub resets_max: usize,
    /// Paths that are told by their place in this list, without a copy.
    pub known_paths: &'static [&'static str],
    /// Whether the header fields of calls to known paths are kept; those of all others are.
    pub keeps_fields: bool,
}
