//! What is wrong with a log format that an operator wrote.
//!
//! Made while a format is compiled; each says what to write instead.

/// Why a format cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Neither a name nor a format string.
    #[error(
        "unknown log format '{text}'; write one of {known}, the format string of nginx, Apache or Envoy, or \
         json:time=NAME,target=NAME,…"
    )]
    Unknown {
        /// What was written.
        text: String,
        /// The names that there are.
        known: String,
    },
    /// No field is a time.
    #[error("the log format has no time; add $time_local, %t, %START_TIME% or json:time=NAME")]
    NoTime,
    /// No field is a path.
    #[error("the log format has no request; add \"$request\", \"%r\", %REQ(:PATH)% or json:target=NAME")]
    NoTarget,
    /// Two fields without a character between them.
    #[error(
        "nothing stands between {first} and {second} in the log format, so that nobody can tell them apart"
    )]
    Adjacent {
        /// The first field.
        first: String,
        /// The one behind it.
        second: String,
    },
    /// A field that does not end.
    #[error("'{what}' in the log format does not end; write '{close}' behind the name")]
    Unclosed {
        /// Where it begins.
        what: String,
        /// What is missing.
        close: char,
    },
    /// A pair that is no field.
    #[error(
        "'{text}' is no field of json:…; write FIELD=NAME with time, address, request, method, target, query, \
         host, status, duration (NAME:ms for milliseconds) or header.NAME"
    )]
    JsonField {
        /// The pair.
        text: String,
    },
}
