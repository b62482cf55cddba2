//! The script: the algorithms in Lua, and the one file that talks to Redis.
//!
//! Each file in `lua/` mirrors one of `tollgate-core`, step by step; here they
//! are only put together.

/// The algorithms, pure: local functions and nothing else.
pub const ALGORITHMS: &str = concat!(
    include_str!("../lua/ask.lua"),
    include_str!("../lua/fixed_window.lua"),
    include_str!("../lua/sliding_counter.lua"),
    include_str!("../lua/pace.lua"),
    include_str!("../lua/token_bucket.lua"),
    include_str!("../lua/leaky_bucket.lua"),
    include_str!("../lua/window_log.lua"),
    include_str!("../lua/sliding_log.lua"),
    include_str!("../lua/sliding_buckets.lua"),
);

/// The file that talks to Redis, to be run behind [`ALGORITHMS`].
pub const TOGETHER: &str = include_str!("../lua/check.lua");

/// The whole script: decides all charges of a request, all or nothing.
pub fn check() -> String {
    [ALGORITHMS, TOGETHER].concat()
}
