//! What responses look like, for the OpenAPI document.
//!
//! The results themselves are made in `tollgate_history`, which knows nothing of OpenAPI;
//! `tests/it/history/questions.rs` compares the two.
#![expect(dead_code, reason = "these only describe what others serialize")]

use utoipa::{IntoResponses, ToSchema};

use crate::http::v1::to_wire::ProblemBody;

/// Curves.
#[derive(ToSchema)]
#[schema(as = HistorySeries)]
pub(crate) struct SeriesSchema {
    /// The first second asked for.
    from: u64,
    /// The second after the last.
    to: u64,
    /// Seconds from one point to the next; at least what is kept of that time.
    step_s: u64,
    /// All curves together.
    total: u64,
    /// Whether the last bucket was not over when it was counted or asked for.
    partial_last: bool,
    /// One for each rule and outcome that came.
    series: Vec<CurveSchema>,
    /// The same of an earlier time, if it was asked for.
    #[schema(nullable = false)]
    compare: Option<ComparedSchema>,
}

/// The same curves of an earlier time.
#[derive(ToSchema)]
#[schema(as = HistoryCompared)]
struct ComparedSchema {
    /// The first second.
    from: u64,
    /// The second after the last.
    to: u64,
    /// All curves together.
    total: u64,
    /// One for each rule and outcome that came.
    series: Vec<CurveSchema>,
}

/// One curve.
#[derive(ToSchema)]
#[schema(as = HistoryCurve)]
struct CurveSchema {
    /// The series; `*` for everything.
    name: String,
    /// The domain of a rule or a key.
    #[schema(nullable = false)]
    domain: Option<String>,
    /// The rule of a key.
    #[schema(nullable = false)]
    rule: Option<String>,
    /// What became of the requests.
    outcome: String,
    /// The sum of the points.
    total: u64,
    /// Where each bucket begins, in unix seconds, and its count. A bucket in which
    /// nobody was there to count is left out.
    points: Vec<(u64, u64)>,
}

/// A top list.
#[derive(ToSchema)]
#[schema(as = HistoryTop)]
pub(crate) struct TopSchema {
    /// The first second asked for.
    from: u64,
    /// The second after the last.
    to: u64,
    /// The most first.
    rows: Vec<TopRowSchema>,
    /// Everything that is in no row.
    other: TopSumSchema,
    /// How many rows there are without a limit.
    row_count: usize,
}

/// One series of a top list.
#[derive(ToSchema)]
#[schema(as = HistoryTopRow)]
struct TopRowSchema {
    /// The series.
    name: String,
    /// The domain of a rule or a key.
    #[schema(nullable = false)]
    domain: Option<String>,
    /// The rule of a key.
    #[schema(nullable = false)]
    rule: Option<String>,
    /// All of its requests or decisions.
    total: u64,
    /// How many of them were denied.
    denied: u64,
}

/// The rest of a top list.
#[derive(ToSchema)]
#[schema(as = HistoryTopOther)]
struct TopSumSchema {
    /// All requests or decisions that are in no row.
    total: u64,
    /// How many of them were denied.
    denied: u64,
}

/// All requests of a span.
#[derive(ToSchema)]
#[schema(as = HistorySummary)]
pub(crate) struct SummarySchema {
    /// The first second asked for.
    from: u64,
    /// The second after the last.
    to: u64,
    /// All requests.
    total: u64,
    /// Within their limits.
    allowed: u64,
    /// Over a soft limit, and let through.
    soft: u64,
    /// Let through after a wait.
    delayed: u64,
    /// Refused.
    denied: u64,
    /// What rules in the shadow would have refused.
    shadow_denied: u64,
    /// Let through without asking the store.
    degraded: u64,
    /// Requests in the busiest minute.
    peak_minute: u64,
}

/// What one can ask by.
#[derive(ToSchema)]
#[schema(as = HistoryLabels)]
pub(crate) struct LabelsSchema {
    /// One for each kind of series.
    labels: Vec<LabelSchema>,
    /// All outcomes.
    outcomes: Vec<String>,
}

/// One kind of series.
#[derive(ToSchema)]
#[schema(as = HistoryLabel)]
struct LabelSchema {
    /// `route`, `rule` or `key`.
    name: String,
    /// How many names there are.
    values: usize,
}

/// Names.
#[derive(ToSchema)]
#[schema(as = HistoryValues)]
pub(crate) struct ValuesSchema {
    /// `route`, `rule` or `key`.
    name: String,
    /// Sorted.
    values: Vec<String>,
    /// Whether there are more than these.
    more: bool,
}

/// How history is doing.
#[derive(ToSchema)]
#[schema(as = HistoryStatus)]
pub(crate) struct StatusSchema {
    /// Where it is kept: a folder, or a Redis.
    place: String,
    /// How the names of keys are kept: `clear`, `hashed` or `off`.
    keys: String,
    /// Whether it can be asked.
    open: bool,
    /// Why the last attempt to write failed, and what to do.
    #[schema(nullable = false)]
    error: Option<String>,
    /// Names that have a series of their own in this process.
    tracked: usize,
    /// Flushes written since the start.
    written_flushes: u64,
    /// Flushes that wait to be written.
    waiting_flushes: usize,
    /// Attempts that failed since the start.
    failures: u64,
    /// Flushes given up since the start.
    lost_flushes: u64,
    /// Requests that they told of.
    lost_requests: u64,
    /// Requests refused since the start, because they were dated more than 5 minutes ahead
    /// of the store's clock.
    future_requests: u64,
    /// The newest minute that was counted, in unix seconds.
    newest: Option<u64>,
    /// Named series.
    #[schema(nullable = false)]
    series: Option<usize>,
    /// Hours that are not folded into blocks yet.
    #[schema(nullable = false)]
    open_hours: Option<usize>,
    /// Flushes and blocks that could not be read and are lost.
    #[schema(nullable = false)]
    damaged: Option<u64>,
    /// Bytes on disk, or in the memory of Redis.
    disk_bytes: Option<u64>,
    /// What is kept how finely.
    #[schema(nullable = false)]
    tiers: Option<Vec<TierSchema>>,
}

/// What one tier holds.
#[derive(ToSchema)]
#[schema(as = HistoryTier)]
struct TierSchema {
    /// `1m`, `5m`, `1h` or `1d`.
    name: String,
    /// Seconds from one point to the next.
    step_s: u64,
    /// From which second on time is kept so.
    from: u64,
}

/// What came of forgetting a key.
#[derive(ToSchema)]
#[schema(as = HistoryForgotten)]
pub(crate) struct ForgottenSchema {
    /// How many series it had, one for each rule.
    forgotten: usize,
}

/// The answers of one path: what it is asked for, or why there is none.
macro_rules! responses {
    ($name:ident, $body:ident, $words:literal) => {
        #[derive(IntoResponses)]
        pub(crate) enum $name {
            #[doc = $words]
            #[response(status = 200)]
            Fine($body),
            /// A parameter is not as it must be.
            #[response(status = "4XX", content_type = "application/problem+json")]
            Bad(ProblemBody<'static>),
            /// History is turned off or not kept at the moment, or there is too much to do.
            #[response(status = 503, content_type = "application/problem+json")]
            Later(ProblemBody<'static>),
        }
    };
}

responses!(SeriesResponses, SeriesSchema, "The curves; as NDJSON or CSV, a line for each point.");
responses!(TopResponses, TopSchema, "The most first; as NDJSON or CSV, a line for each row.");
responses!(SummaryResponses, SummarySchema, "A few numbers.");
responses!(LabelsResponses, LabelsSchema, "What one can ask by.");
responses!(ValuesResponses, ValuesSchema, "Names.");
responses!(StatusResponses, StatusSchema, "How history is doing.");
responses!(ForgottenResponses, ForgottenSchema, "It is in no answer any more.");
