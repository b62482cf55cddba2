//! The timed tables of `spec/vectors/`, read and run.
//!
//! [`load`] reads every file of a folder into [`Group`]s; [`run`] plays each
//! on an engine and compares what a row says. `spec/vectors/README.md`
//! describes the format.
//!
//! Invariant: a field that is not known is refused, and so is a file or a
//! group without rows: a table that tests nothing must not pass.
//!
//! Deliberately not here: sequences made by a program; a person wrote these.

mod text;

use std::path::{Path, PathBuf};

use serde::Deserialize;
use tollgate_core::{Algorithm, Decision, Limit, LimitError, Micros, Operation, Refill, Shape, Verdict};

use crate::engine::Engine;
use crate::scenario::{Failure, Scenario, Step};

/// Why vectors cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VectorError {
    /// The file cannot be read.
    #[error("{path}: {source}", path = .path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file is not YAML of this form.
    #[error("{path}: {message}", path = .path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// Where and what.
        message: String,
    },
    /// A group of the file makes no sense.
    #[error("{path}, group `{group}`: {message}", path = .path.display())]
    Group {
        /// The file.
        path: PathBuf,
        /// Its name.
        group: String,
        /// What is wrong.
        message: String,
    },
}

/// A limit and a timed table for one key of it.
#[derive(Debug, Clone)]
pub struct Group {
    /// The file and the promise that the group shows.
    pub name: String,
    limit: Limit,
    rows: Vec<Row>,
}

#[derive(Debug, Clone)]
struct Row {
    step: Step,
    verdict: Verdict,
    remaining: Option<u64>,
    used: Option<u64>,
    reset_after: Option<Micros>,
    soft: bool,
}

/// The vectors of this repository.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/vectors")
}

/// Reads every `.yaml` file of the folder, in the order of their names.
///
/// # Errors
/// The first file or group that is not right, by name.
pub fn load(folder: &Path) -> Result<Vec<Group>, VectorError> {
    let read_error = |source| VectorError::Read { path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(read_error)? {
        let path = entry.map_err(read_error)?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut groups = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path)
            .map_err(|source| VectorError::Read { path: path.clone(), source })?;
        groups.extend(parse(&path, &text)?);
    }
    if groups.is_empty() {
        return Err(VectorError::Form { path: folder.to_owned(), message: "no vectors".to_owned() });
    }
    Ok(groups)
}

/// Reads the text of one file.
///
/// # Errors
/// What is not right, with the file and the group.
pub fn parse(path: &Path, text: &str) -> Result<Vec<Group>, VectorError> {
    let form = |message: String| VectorError::Form { path: path.to_owned(), message };
    let file: RawFile = serde_saphyr::from_str(text).map_err(|error| form(error.to_string()))?;
    let algorithm = Algorithm::from_name(&file.algorithm)
        .ok_or_else(|| form(format!("`{}` is no algorithm", file.algorithm)))?;
    if file.groups.is_empty() {
        return Err(form("no groups".to_owned()));
    }
    let groups = file.groups.into_iter().map(|raw| {
        let name = raw.name.clone();
        let in_group = |message| VectorError::Group { path: path.to_owned(), group: name.clone(), message };
        group(algorithm, raw).map_err(in_group)
    });
    groups.collect()
}

/// Plays each group on an engine of its own; the number of rows that agreed.
///
/// # Errors
/// The first row that the engine decides differently.
pub fn run<E: Engine>(engines: &impl Fn(Limit) -> E, groups: &[Group]) -> Result<u64, Failure> {
    let mut compared = 0;
    for group in groups {
        let steps = group.rows.iter().map(|row| row.step).collect();
        let scenario = Scenario { limit: group.limit, steps };
        let mut engine = engines(group.limit);
        for (done, row) in (1..).zip(&group.rows) {
            let decision = row.step.run(&mut engine);
            row.agree(decision).map_err(|detail| scenario.failure(done, &group.name, detail))?;
            compared += 1;
        }
    }
    Ok(compared)
}

impl Row {
    fn agree(&self, actual: Decision) -> Result<(), String> {
        let expected = Decision {
            verdict: self.verdict,
            limit: actual.limit,
            used: self.used.unwrap_or(actual.used),
            remaining: self.remaining.unwrap_or(actual.remaining),
            reset_after: self.reset_after.unwrap_or(actual.reset_after),
            soft: self.soft,
            blocked_for: self.verdict.blocked_for(),
        };
        crate::scenario::agree(expected, actual)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    algorithm: String,
    groups: Vec<RawGroup>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGroup {
    name: String,
    limit: RawLimit,
    rows: Vec<RawRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLimit {
    count: u32,
    window: String,
    burst: Option<u32>,
    refill: Option<String>,
    buckets: Option<u32>,
    max_wait: Option<String>,
    soft: Option<u32>,
    #[serde(default)]
    count_rejected: bool,
}

impl RawLimit {
    /// A field that limits of this algorithm do not have.
    fn stranger(&self, algorithm: Algorithm) -> Option<&'static str> {
        use Algorithm::{LeakyBucket, SlidingBuckets, TokenBucket};
        let fields: [(_, _, &[Algorithm]); 4] = [
            ("burst", self.burst.is_some(), &[TokenBucket, LeakyBucket]),
            ("refill", self.refill.is_some(), &[TokenBucket]),
            ("buckets", self.buckets.is_some(), &[SlidingBuckets]),
            ("max_wait", self.max_wait.is_some(), &[LeakyBucket]),
        ];
        let stranger = |(name, given, owners): (_, bool, &[Algorithm])| {
            (given && !owners.contains(&algorithm)).then_some(name)
        };
        fields.into_iter().find_map(stranger)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRow {
    at: String,
    check: Option<u64>,
    peek: Option<u64>,
    report: Option<u64>,
    refund: Option<u64>,
    verdict: String,
    remaining: Option<u64>,
    used: Option<u64>,
    reset_after: Option<String>,
    #[serde(default)]
    soft: bool,
}

fn group(algorithm: Algorithm, raw: RawGroup) -> Result<Group, String> {
    if raw.rows.is_empty() {
        return Err("no rows".to_owned());
    }
    let limit = limit(algorithm, &raw.limit)?;
    let rows = (1..)
        .zip(&raw.rows)
        .map(|(number, raw): (usize, _)| row(raw).map_err(|message| format!("row {number}: {message}")));
    Ok(Group { name: format!("{algorithm}: {}", raw.name), limit, rows: rows.collect::<Result<_, _>>()? })
}

fn limit(algorithm: Algorithm, raw: &RawLimit) -> Result<Limit, String> {
    let burst = raw.burst.unwrap_or(raw.count);
    let max_wait = raw.max_wait.as_deref().map(text::span).transpose()?;
    let refill = match raw.refill.as_deref() {
        None | Some("smooth") => Refill::Smooth,
        Some("interval") => Refill::Interval,
        Some(other) => return Err(format!("`{other}` is no refill")),
    };
    let shape = match algorithm {
        Algorithm::FixedWindow => Shape::FixedWindow,
        Algorithm::SlidingLog => Shape::SlidingLog,
        Algorithm::SlidingCounter => Shape::SlidingCounter,
        Algorithm::SlidingBuckets => Shape::SlidingBuckets { buckets: raw.buckets.unwrap_or(60) },
        Algorithm::TokenBucket => Shape::TokenBucket { burst, refill },
        Algorithm::LeakyBucket => Shape::LeakyBucket { burst, max_wait },
    };
    if let Some(field) = raw.stranger(algorithm) {
        return Err(format!("{algorithm} has no `{field}`"));
    }
    let refused = |error: LimitError| error.to_string();
    let limit = Limit::new(raw.count, text::span(&raw.window)?, shape).map_err(refused)?;
    let limit = match raw.soft {
        Some(percent) => limit.soft(percent).map_err(refused)?,
        None => limit,
    };
    Ok(limit.counting_rejected(raw.count_rejected))
}

fn row(raw: &RawRow) -> Result<Row, String> {
    let named = [
        (Operation::Check, raw.check),
        (Operation::Peek, raw.peek),
        (Operation::Report, raw.report),
        (Operation::Refund, raw.refund),
    ];
    let mut named = named.into_iter().filter_map(|(operation, cost)| Some((operation, cost?)));
    let (operation, cost) = named.next().unwrap_or((Operation::Check, 1));
    if named.next().is_some() {
        return Err("a row has one operation".to_owned());
    }
    Ok(Row {
        step: Step { at: text::instant(&raw.at)?, operation, cost },
        verdict: text::verdict(&raw.verdict)?,
        remaining: raw.remaining,
        used: raw.used,
        reset_after: raw.reset_after.as_deref().map(text::span).transpose()?,
        soft: raw.soft,
    })
}
