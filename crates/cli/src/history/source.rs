//! Where answers come from: a data folder, or a running server. Both give the
//! same answers, so that everything after this does not know which it was.

use tollgate_history::engine::{Access, Embedded};
use tollgate_history::query::{
    Compare, Order, SeriesAnswer, SeriesQuestion, Span, Status, Summary, Top, TopQuestion,
};
use tollgate_history::{Bounds, Error, History};

use super::Place;
use crate::remote::{self, Remote};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    #[error("{}", .0.full())]
    Folder(#[from] Error),
    #[error(transparent)]
    Server(#[from] remote::Error),
}

/// What can be asked.
pub(super) enum Source {
    Folder(Box<History<Embedded>>),
    Server(Box<Remote>),
}

impl Source {
    /// Opens the folder, or finds the server.
    pub(super) fn open(place: &Place) -> Result<Self, Unanswered> {
        match &place.server {
            Some(url) => Ok(Self::Server(Box::new(Remote::new(url)?))),
            None => {
                let engine = Embedded::open(&place.data, Access::Read)?;
                Ok(Self::Folder(Box::new(History::open(engine, Bounds::default())?)))
            }
        }
    }

    pub(super) fn series(&self, question: &SeriesQuestion) -> Result<SeriesAnswer, Unanswered> {
        let server = match self {
            Self::Folder(history) => return Ok(history.series(question)?),
            Self::Server(server) => server,
        };
        let mut parameters = span(question.span);
        parameters.push(("by", question.by.to_string()));
        parameters.push(("max_points", question.points.to_string()));
        parameters.extend(question.name.clone().map(|name| ("name", name)));
        parameters.extend(question.step_s.map(|step| ("step", step.to_string())));
        parameters.extend(question.compare.map(|compare| ("compare", Compare::name(compare).to_owned())));
        Ok(server.json("/v1/history/series", &parameters)?)
    }

    pub(super) fn top(&self, question: &TopQuestion, order: Order) -> Result<Top, Unanswered> {
        let server = match self {
            Self::Folder(history) => return Ok(history.top_by(question, order)?),
            Self::Server(server) => server,
        };
        let mut parameters = span(question.span);
        parameters.push(("by", question.by.to_string()));
        parameters.push(("limit", question.limit.to_string()));
        parameters.push(("order", Order::name(order).to_owned()));
        Ok(server.json("/v1/history/top", &parameters)?)
    }

    pub(super) fn summary(&self, asked: Span) -> Result<Summary, Unanswered> {
        match self {
            Self::Folder(history) => Ok(history.summary(asked)?),
            Self::Server(server) => Ok(server.json("/v1/history/summary", &span(asked))?),
        }
    }

    /// The newest minute that was counted.
    pub(super) fn newest(&self) -> Result<Option<u64>, Unanswered> {
        /// What matters here of how a server's history is doing.
        #[derive(serde::Deserialize)]
        struct Newest {
            newest: Option<u64>,
        }
        match self {
            Self::Folder(history) => {
                let Status { newest, .. } = history.status()?;
                Ok(newest)
            }
            Self::Server(server) => Ok(server.json::<Newest>("/v1/history/status", &[])?.newest),
        }
    }
}

fn span(span: Span) -> Vec<(&'static str, String)> {
    vec![("from", span.from_s.to_string()), ("to", span.to_s.to_string())]
}
