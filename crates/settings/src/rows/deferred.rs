//! The settings of requests that are sent later.

use std::time::Duration;

use crate::row::SettingParser::{Value, Word};
use crate::row::{Setting, SettingSection, variable};
use crate::values;

section! {
    DEFERRED, "Deferred requests",
    "Bounds on requests that a limit with `over_limit: defer` puts off ([deferring](deferring.md)). They are kept in the folder of `--data`, or on Redis if that is the store.";

    /// The most requests that wait; more get a 429. As many results are kept.
    DEFER_MAX_REQUESTS: Setting<usize> =
        variable("TOLLGATE_DEFER_MAX_REQUESTS").key("defer.max_requests").default("10000", Word(values::at_least_one));
    /// The most bytes that they take together, bodies and headers; results may take as many.
    DEFER_MAX_BYTES: Setting<usize> =
        variable("TOLLGATE_DEFER_MAX_BYTES").key("defer.max_bytes").default("67108864", Word(values::at_least_one));
    /// The longest body of such a request, in bytes; one with a longer body gets a 429. The body of an
    /// answer is kept up to here.
    DEFER_MAX_BODY: Setting<usize> =
        variable("TOLLGATE_DEFER_MAX_BODY").key("defer.max_body").default("262144", Word(values::at_least_one));
    /// A request that was not sent after this time is dropped as expired.
    DEFER_MAX_AGE: Setting<Duration> =
        variable("TOLLGATE_DEFER_MAX_AGE").key("defer.max_age").default("1h", Word(values::some_time));
    /// For how long one can ask what became of it.
    DEFER_KEEP_RESULTS: Setting<Duration> =
        variable("TOLLGATE_DEFER_KEEP_RESULTS").key("defer.keep_results").default("1h", Word(values::some_time));
    /// How often a request is sent at most while the upstream fails.
    DEFER_MAX_ATTEMPTS: Setting<u32> =
        variable("TOLLGATE_DEFER_MAX_ATTEMPTS").key("defer.max_attempts").default("10", Word(values::at_least_one));
    /// Headers that are kept with such requests although they may hold credentials, such as
    /// `authorization`; all others of that kind are dropped.
    DEFER_KEEP_HEADERS: Setting<Vec<String>> =
        variable("TOLLGATE_DEFER_KEEP_HEADERS").key("defer.keep_headers").default("", Value(values::header_names));
}
