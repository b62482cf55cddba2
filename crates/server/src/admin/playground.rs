//! `/v1/playground` of the admin listener: what each algorithm would say to the same requests.
//!
//! The decisions come from the code that limits, `tollgate_core::decide`, on a clock that
//! the request brings along. Nothing is kept and no store is asked.
//!
//! Invariants: at most [`REQUESTS_MAX`] requests within [`SPAN_MAX_MS`], so that a call takes
//! milliseconds; the times begin at the edge of a window.
//!
//! Deliberately not here: the shapes of traffic, which the dashboard draws.

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use tollgate_core::{
    Algorithm, Change, Limit, LimitError, Micros, Operation, Parameters, Shape, State, Time, Verdict, decide,
};
use utoipa::{IntoResponses, ToSchema};

use crate::http::v1::decide::receive;
use crate::http::v1::error::V1Error;
use crate::http::v1::to_wire::{self, ProblemBody, VerdictName};

/// Requests of one call: six algorithms decide each.
const REQUESTS_MAX: usize = 2_000;
/// From the first request to the last: a day.
const SPAN_MAX_MS: u64 = 86_400_000;
/// The longest window.
const WINDOW_MAX_MS: u64 = 86_400_000;
/// How many may pass in a window, and the largest bucket.
const COUNT_MAX: u32 = 10_000;
/// Where the clock starts, in windows: no algorithm knows anything from before.
const START_WINDOWS: u64 = 1_000;

/// A limit and requests.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PlaygroundRequest)]
pub(super) struct PlaygroundRequest {
    /// How many may pass in a window.
    #[schema(minimum = 1, maximum = 10_000)]
    requests_per_unit: u32,
    /// The window, in milliseconds.
    #[schema(minimum = 1, maximum = 86_400_000)]
    window_ms: u64,
    /// The size of the token bucket, and the length of the queue of the leaky bucket.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 10_000)]
    burst: Option<u32>,
    /// When requests come, in milliseconds from the start, the earliest first.
    #[schema(min_items = 1, max_items = 2_000)]
    at_ms: Vec<u64>,
}

/// What every algorithm says.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Playground)]
pub(super) struct PlaygroundBody {
    /// One for each algorithm, in the order of the documentation.
    algorithms: Vec<AlgorithmRun>,
}

/// What one algorithm says.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PlaygroundAlgorithm)]
struct AlgorithmRun {
    /// Its name in rule files.
    algorithm: &'static str,
    /// Why this limit cannot be kept with it; there are no decisions then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<String>,
    /// One for each request.
    decisions: Vec<PlaygroundDecision>,
    /// How many passed, at once or later.
    admitted: usize,
    /// How many had to wait.
    delayed: usize,
    /// How many did not pass.
    denied: usize,
    /// The most that passed within any one window, wherever it begins.
    most_in_window: usize,
}

/// What one algorithm says to one request.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PlaygroundDecision)]
struct PlaygroundDecision {
    verdict: VerdictName,
    /// How long it has to wait, or when it would pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    after_ms: Option<u64>,
}

/// What comes back.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it is only described")]
enum PlayedSchema {
    /// What every algorithm says.
    #[response(status = 200)]
    Fine(PlaygroundBody),
    /// The request is not as it must be.
    #[response(status = "4XX", content_type = "application/problem+json")]
    Bad(ProblemBody<'static>),
}

/// Lets all six algorithms decide the same requests.
#[utoipa::path(
    post, path = "/v1/playground", tag = "playground", operation_id = "playground",
    request_body = PlaygroundRequest,
    responses(PlayedSchema)
)]
pub(super) async fn play(request: Request<Body>) -> Response {
    let answered = async { run(&from_body(&receive(request).await?.bytes)?) }.await;
    answered.map_or_else(|error| to_wire::error(&error).into(), |body| to_wire::respond(&body))
}

fn from_body(bytes: &[u8]) -> Result<PlaygroundRequest, V1Error> {
    let wrong = |pointer: String, detail: String| {
        let fix = r#"send {"requests_per_unit":10,"window_ms":60000,"at_ms":[0,100,200]}"#.to_owned();
        V1Error::Field { pointer, detail, fix }
    };
    // A list would be taken for the fields in their order.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(wrong(String::new(), "the body is no JSON object".to_owned()));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let request = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let pointer = match error.path().to_string().as_str() {
            "." => String::new(),
            path => format!("/{}", path.replace(['.', '['], "/").replace(']', "")),
        };
        wrong(pointer, error.inner().to_string())
    })?;
    json.end().map_err(|error| wrong(String::new(), error.to_string()))?;
    Ok(request)
}

fn run(request: &PlaygroundRequest) -> Result<PlaygroundBody, V1Error> {
    check(request)?;
    let window = Micros::from_millis(request.window_ms);
    let parameters = Parameters { burst: request.burst, ..Parameters::default() };
    let runs = Algorithm::ALL.map(|algorithm| {
        let shape = Shape::new(algorithm, &parameters, request.requests_per_unit);
        match Limit::new(request.requests_per_unit, window, shape) {
            Ok(limit) => AlgorithmRun::of(&limit, &request.at_ms),
            Err(error) => AlgorithmRun::without_limit(algorithm, &error),
        }
    });
    Ok(PlaygroundBody { algorithms: runs.into() })
}

/// Whether everything is within its bounds.
fn check(request: &PlaygroundRequest) -> Result<(), V1Error> {
    let PlaygroundRequest { requests_per_unit, window_ms, burst, at_ms } = request;
    let wrong = |name: &str, fix: String| {
        Err(V1Error::Field { pointer: format!("/{name}"), detail: "it is out of bounds".to_owned(), fix })
    };
    if !(1..=COUNT_MAX).contains(requests_per_unit) {
        return wrong("requests_per_unit", format!("send 1 to {COUNT_MAX}"));
    }
    if !(1..=WINDOW_MAX_MS).contains(window_ms) {
        return wrong("window_ms", format!("send 1 to {WINDOW_MAX_MS}, which is a day"));
    }
    if burst.is_some_and(|burst| !(1..=COUNT_MAX).contains(&burst)) {
        return wrong("burst", format!("send 1 to {COUNT_MAX}, or leave it out"));
    }
    if at_ms.is_empty() || at_ms.len() > REQUESTS_MAX {
        return wrong("at_ms", format!("send 1 to {REQUESTS_MAX} times"));
    }
    if !at_ms.is_sorted() || at_ms.last().is_some_and(|last| *last > SPAN_MAX_MS) {
        return wrong(
            "at_ms",
            format!("send the earliest first, and none after {SPAN_MAX_MS}, which is a day"),
        );
    }
    Ok(())
}

impl AlgorithmRun {
    fn of(limit: &Limit, at_ms: &[u64]) -> Self {
        let start = Time::EPOCH + limit.window().times(START_WINDOWS);
        let mut state: Option<State> = None;
        let mut verdicts = Vec::with_capacity(at_ms.len());
        let mut passes: Vec<Time> = Vec::new();
        for at in at_ms {
            let now = start + Micros::from_millis(*at);
            let (decision, change) =
                decide(state.as_ref().map(State::as_ref), limit, now, Operation::Check, 1);
            match change {
                Change::Keep => {}
                Change::Put(next) => state = Some(next),
                Change::Remove => state = None,
            }
            match decision.verdict {
                Verdict::Allow => passes.push(now),
                Verdict::Delay { wait } => passes.push(now + wait),
                Verdict::Deny { .. } => {}
            }
            verdicts.push(decision.verdict);
        }
        let is_delay = |verdict: &&Verdict| matches!(verdict, Verdict::Delay { .. });
        Self {
            algorithm: limit.algorithm().name(),
            error: None,
            admitted: passes.len(),
            delayed: verdicts.iter().filter(is_delay).count(),
            denied: verdicts.iter().filter(|verdict| verdict.is_deny()).count(),
            most_in_window: most_in_window(&mut passes, limit.window()),
            decisions: verdicts.into_iter().map(PlaygroundDecision::of).collect(),
        }
    }

    fn without_limit(algorithm: Algorithm, error: &LimitError) -> Self {
        Self {
            algorithm: algorithm.name(),
            error: Some(error.to_string()),
            decisions: Vec::new(),
            admitted: 0,
            delayed: 0,
            denied: 0,
            most_in_window: 0,
        }
    }
}

impl PlaygroundDecision {
    fn of(verdict: Verdict) -> Self {
        Self { verdict: verdict.into(), after_ms: to_wire::next_after_ms(verdict) }
    }
}

/// The most of these instants that lie in (t − window, t], for any t.
fn most_in_window(passes: &mut [Time], window: Micros) -> usize {
    passes.sort_unstable();
    let (mut most, mut first) = (0, 0);
    for (index, pass) in passes.iter().enumerate() {
        while passes.get(first).is_some_and(|earliest| pass.since(*earliest) >= window) {
            first += 1;
        }
        most = most.max(index + 1 - first);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(count: u32, window_ms: u64, at_ms: &[u64]) -> Vec<AlgorithmRun> {
        let request =
            PlaygroundRequest { requests_per_unit: count, window_ms, burst: None, at_ms: at_ms.to_vec() };
        run(&request).unwrap().algorithms
    }

    #[test]
    fn a_burst_at_the_edge_of_a_window_tells_the_algorithms_apart() {
        let at: Vec<u64> = (0..20).map(|n| 59_000 + n * 100).collect();
        let runs = played(10, 60_000, &at);
        let most = |name: &str| runs.iter().find(|run| run.algorithm == name).unwrap().most_in_window;
        assert_eq!(most("fixed_window"), 20, "both windows are used to the full");
        assert_eq!(most("sliding_log"), 10);
        assert_eq!(most("sliding_buckets"), 10);
        assert!(runs.iter().all(|run| run.admitted + run.denied == 20), "{runs:?}");
    }

    #[test]
    fn the_promises_of_the_documentation_are_played() {
        // 2/min at 00:40 00:50 01:10 01:20 01:40, as the algorithms' page has it.
        let runs = played(2, 60_000, &[40_000, 50_000, 70_000, 80_000, 100_000]);
        let denied = |index: usize| {
            let verdicts = runs[index].decisions.iter();
            verdicts.map(|decision| matches!(decision.verdict, VerdictName::Deny)).collect::<Vec<_>>()
        };
        assert_eq!(denied(0), [false, false, false, false, true]);
        assert_eq!(denied(1), [false, false, true, true, false]);
    }

    #[test]
    fn what_is_out_of_bounds_is_refused_by_name() {
        let refused = |body: &str| match from_body(body.as_bytes()).and_then(|request| run(&request)) {
            Err(V1Error::Field { pointer, .. }) => pointer,
            other => format!("{other:?}"),
        };
        let many = format!(r#"{{"requests_per_unit":1,"window_ms":1,"at_ms":{:?}}}"#, vec![0; 2_001]);
        for (body, pointer) in [
            (r#"{"requests_per_unit":0,"window_ms":1,"at_ms":[0]}"#, "/requests_per_unit"),
            (r#"{"requests_per_unit":1,"window_ms":0,"at_ms":[0]}"#, "/window_ms"),
            (r#"{"requests_per_unit":1,"window_ms":1,"burst":0,"at_ms":[0]}"#, "/burst"),
            (r#"{"requests_per_unit":1,"window_ms":1,"at_ms":[]}"#, "/at_ms"),
            (r#"{"requests_per_unit":1,"window_ms":1,"at_ms":[2,1]}"#, "/at_ms"),
            (r#"{"requests_per_unit":1,"window_ms":1,"at_ms":[86400001]}"#, "/at_ms"),
            (&many, "/at_ms"),
            (r#"{"requests_per_unit":-1,"window_ms":1,"at_ms":[0]}"#, "/requests_per_unit"),
            (r#"{"requests_per_unit":10001,"window_ms":1,"at_ms":[0]}"#, "/requests_per_unit"),
            (r#"{"requests_per_unit":4294967296,"window_ms":1,"at_ms":[0]}"#, "/requests_per_unit"),
            (r#"{"requests_per_unit":"1","window_ms":1,"at_ms":[0]}"#, "/requests_per_unit"),
            (r#"{"requests_per_unit":1,"window_ms":86400001,"at_ms":[0]}"#, "/window_ms"),
            (r#"{"requests_per_unit":1,"window_ms":1,"burst":10001,"at_ms":[0]}"#, "/burst"),
            (r#"{"requests_per_unit":1,"window_ms":1,"at_ms":[0,-5]}"#, "/at_ms/1"),
            (r#"{"requests_per_unit":1,"window_ms":1,"at_ms":[1.5]}"#, "/at_ms/0"),
            (r#"{"requests_per_unit":1,"window_ms":1,"at_ms":"0"}"#, "/at_ms"),
            (r#"{"requests_per_unit":1,"window_ms":1,"at_ms":[0],"cost":2}"#, "/cost"),
            (r#"{"requests_per_unit":1,"window_ms":1,"at_ms":[0]} more"#, ""),
            ("[1,1,null,[0]]", ""),
            ("{}", ""),
            ("", ""),
        ] {
            assert_eq!(refused(body), pointer, "{}", body.get(..80).unwrap_or(body));
        }
    }
}
