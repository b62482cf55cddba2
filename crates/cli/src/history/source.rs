//! Where results come from: a data folder, or a running server. Both give the same, so
//! nothing after this knows which it was.

use tollgate_history::query::{
    Comparison, KeyName, RuleFilter, SeriesQuery, SeriesResult, Summary, TimeRange, TopQuery, TopResult,
};
use tollgate_history::tables::{Access, RedbTables};
use tollgate_history::{Bounds, Error, History as _, LocalHistory, SeriesKind};
use tollgate_settings::{Environment, Variables as _, rows};

use super::{ForgetArgs, HistoryArgs};
use crate::remote::{self, Remote};

/// Why a query has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    #[error("{}", .0.full())]
    Folder(#[from] Error),
    #[error(transparent)]
    Server(#[from] remote::Error),
}

/// What can be queried.
pub(super) enum HistorySource {
    Folder(Box<LocalHistory<RedbTables>>),
    Server(Box<Remote>),
}

impl HistorySource {
    /// Opens the folder, or finds the server.
    pub(super) fn open(place: &HistoryArgs) -> Result<Self, SourceError> {
        match &place.server {
            Some(url) => Ok(Self::Server(Box::new(Remote::new(url)?))),
            None => {
                let tables = RedbTables::open(&place.data, Access::Read)?;
                Ok(Self::Folder(Box::new(LocalHistory::open(tables, Bounds::default())?)))
            }
        }
    }

    pub(super) fn series(&self, query: &SeriesQuery) -> Result<SeriesResult, SourceError> {
        let server = match self {
            Self::Folder(history) => return Ok(history.reader()?.series(query)?),
            Self::Server(server) => server,
        };
        let mut parameters = range(query.range);
        parameters.push(("by", query.kind.to_string()));
        parameters.push(("max_points", query.points.to_string()));
        parameters.extend(query.name.clone().map(|name| ("name", name)));
        parameters.extend(rules(&query.filter));
        parameters.extend(query.step_s.map(|step| ("step", step.to_string())));
        parameters.extend(query.compare.map(|compare| ("compare", Comparison::name(compare).to_owned())));
        Ok(server.json("/v1/history/series", &parameters)?)
    }

    pub(super) fn top(&self, query: &TopQuery) -> Result<TopResult, SourceError> {
        let server = match self {
            Self::Folder(history) => return Ok(history.reader()?.top(query)?),
            Self::Server(server) => server,
        };
        let mut parameters = range(query.range);
        parameters.push(("by", query.kind.to_string()));
        parameters.push(("limit", query.limit.to_string()));
        parameters.push(("order", query.order.name().to_owned()));
        parameters.extend(rules(&query.filter));
        Ok(server.json("/v1/history/top", &parameters)?)
    }

    pub(super) fn summary(&self, of: TimeRange) -> Result<Summary, SourceError> {
        match self {
            Self::Folder(history) => Ok(history.reader()?.summary(of)?),
            Self::Server(server) => Ok(server.json("/v1/history/summary", &range(of))?),
        }
    }

    /// How much of it is damaged. A server says so in its log.
    pub(super) fn damaged(&self) -> Result<u64, SourceError> {
        match self {
            Self::Folder(history) => Ok(history.reader()?.status()?.damaged),
            Self::Server(_) => Ok(0),
        }
    }

    /// The name that was probably meant; none if there is that name, or nothing like it.
    pub(super) fn nearest(&self, kind: SeriesKind, name: &str) -> Result<Option<String>, SourceError> {
        /// The part of a server's answer that matters here.
        #[derive(serde::Deserialize)]
        struct Values {
            values: Vec<String>,
        }
        let names = match self {
            Self::Folder(history) => history.reader()?.names(kind, "", usize::MAX),
            Self::Server(server) => {
                server.json::<Values>(&format!("/v1/history/labels/{kind}/values"), &[])?.values
            }
        };
        if names.iter().any(|known| known == name) {
            return Ok(None);
        }
        Ok(tollgate_yaml::nearest(name, names.iter().map(String::as_str)).map(str::to_owned))
    }

    /// The newest minute that was counted.
    pub(super) fn newest(&self) -> Result<Option<u64>, SourceError> {
        /// The part of a server's history status that matters here.
        #[derive(serde::Deserialize)]
        struct Newest {
            newest: Option<u64>,
        }
        match self {
            Self::Folder(history) => Ok(history.reader()?.status()?.newest),
            Self::Server(server) => Ok(server.json::<Newest>("/v1/history/status", &[])?.newest),
        }
    }
}

/// Erases a key; how many series it had.
pub(super) fn forget(args: &ForgetArgs, filter: &RuleFilter) -> Result<usize, SourceError> {
    /// What a server says.
    #[derive(serde::Deserialize)]
    struct Forgotten {
        forgotten: usize,
    }
    if let Some(url) = &args.server {
        let mut parameters = vec![("name", args.key.clone())];
        parameters.extend(rules(filter));
        return Ok(Remote::new(url)?.delete::<Forgotten>("/v1/history/keys", &parameters)?.forgotten);
    }
    // Nothing is made where there is nothing to forget.
    drop(RedbTables::open(&args.data, Access::Read)?);
    let tables = RedbTables::open(&args.data, Access::Write)?;
    let mut history = LocalHistory::open(tables, Bounds::default())?;
    let salt = Environment.get(rows::HISTORY_SALT.row.variable).unwrap_or_default();
    let key = KeyName::new(&args.key, &salt);
    Ok(history.forget(&|label| filter.takes_key(label, &key))?)
}

fn rules(filter: &RuleFilter) -> impl Iterator<Item = (&'static str, String)> {
    let given = |name, text: &Option<String>| text.clone().map(|text| (name, text));
    [given("domain", &filter.domain), given("rule", &filter.rule)].into_iter().flatten()
}

fn range(range: TimeRange) -> Vec<(&'static str, String)> {
    vec![("from", range.from_s.to_string()), ("to", range.to_s.to_string())]
}
