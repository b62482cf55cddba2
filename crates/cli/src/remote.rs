//! Asks the admin listener of a running server.
//!
//! `history --server`, `override` and `top` go through here. The token comes from
//! `TOLLGATE_ADMIN_TOKEN`, so that no process list shows it.
//!
//! Invariants: an answer is bounded in size and in time; what is wrong is told
//! with what to do.
//!
//! Deliberately not here: what is asked, and what the answer means.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};
use tollgate_settings::{Environment, Secret, Variables as _, rows};

/// The largest answer: ten thousand points of many curves are a few megabytes.
const ANSWER_MAX: usize = 64 << 20;
/// The server itself gives up after 15 s.
const PATIENCE: Duration = Duration::from_secs(20);
/// Where a server that was told nothing has its admin listener.
pub(crate) const USUAL: &str = "http://127.0.0.1:6070";

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("'{url}' is not the address of a server")]
    Url { url: String },
    #[error("cannot ask {url}: {reason}")]
    Unreachable { url: String, reason: String },
    #[error("{url} does not answer within {} s", PATIENCE.as_secs())]
    Slow { url: String },
    #[error("{url} wants a token")]
    Token { url: String },
    #[error("{url} says: {detail}")]
    Refused { url: String, detail: String, fix: String },
    #[error("{url} gives an answer that makes no sense: {reason}")]
    Nonsense { url: String, reason: String },
}

impl Error {
    /// What to do about it.
    pub(crate) fn fix(&self) -> &str {
        match self {
            Self::Url { .. } => "write http://HOST:PORT, such as http://127.0.0.1:6070",
            Self::Unreachable { .. } => {
                "start it with 'tollgate serve', or name another one with --server http://HOST:PORT; \
                 it is the admin listener that is asked"
            }
            Self::Slow { .. } => "ask about a shorter time, or look at the server's log",
            Self::Token { .. } => "set TOLLGATE_ADMIN_TOKEN to the token that the server was started with",
            Self::Refused { fix, .. } => fix,
            Self::Nonsense { .. } => "see that it is the admin listener of a tollgate of this version",
        }
    }
}

/// What a refusal says.
#[derive(Debug, Deserialize)]
struct ProblemDetails {
    detail: String,
    #[serde(default)]
    fix: String,
}

/// A server that can be asked.
pub(crate) struct Remote {
    url: String,
    token: Option<Secret>,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: Runtime,
}

impl Remote {
    /// The server at `http://HOST:PORT`.
    pub(crate) fn new(url: &str) -> Result<Self, Error> {
        let wrong = || Error::Url { url: url.to_owned() };
        let parsed: Uri = url.parse().map_err(|_| wrong())?;
        if !matches!(parsed.scheme_str(), Some("http" | "https")) || parsed.authority().is_none() {
            return Err(wrong());
        }
        let failed =
            |reason: std::io::Error| Error::Unreachable { url: url.to_owned(), reason: reason.to_string() };
        let connector = HttpsConnectorBuilder::new().with_native_roots().map_err(failed)?;
        let client =
            Client::builder(TokioExecutor::new()).build(connector.https_or_http().enable_http1().build());
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let token = Environment.get(rows::ADMIN_TOKEN.row.variable).filter(|token| !token.is_empty());
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self { url, token: token.map(Secret::new), client, runtime })
    }

    /// Where it is.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The text at a path.
    pub(crate) fn text(&self, path: &str) -> Result<String, Error> {
        let bytes = self.send(Method::GET, path, &[])?;
        String::from_utf8(bytes.into()).map_err(|_| self.nonsense("it is no text"))
    }

    /// The JSON at a path, with these parameters.
    pub(crate) fn json<T: DeserializeOwned>(
        &self,
        path: &str,
        parameters: &[(&str, String)],
    ) -> Result<T, Error> {
        let bytes = self.send(Method::GET, path, parameters)?;
        serde_json::from_slice(&bytes).map_err(|error| self.nonsense(&error.to_string()))
    }

    /// The JSON that comes back when something is deleted.
    pub(crate) fn delete<T: DeserializeOwned>(
        &self,
        path: &str,
        parameters: &[(&str, String)],
    ) -> Result<T, Error> {
        let bytes = self.send(Method::DELETE, path, parameters)?;
        serde_json::from_slice(&bytes).map_err(|error| self.nonsense(&error.to_string()))
    }

    /// The JSON that comes back when something is put.
    pub(crate) fn put<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        let body = serde_json::to_vec(body).map_err(|error| self.nonsense(&error.to_string()))?;
        let bytes = self.send_body(Method::PUT, path, &[], body.into())?;
        serde_json::from_slice(&bytes).map_err(|error| self.nonsense(&error.to_string()))
    }

    fn nonsense(&self, reason: &str) -> Error {
        Error::Nonsense { url: self.url.clone(), reason: reason.to_owned() }
    }

    fn send(&self, method: Method, path: &str, parameters: &[(&str, String)]) -> Result<Bytes, Error> {
        self.send_body(method, path, parameters, Bytes::new())
    }

    fn send_body(
        &self,
        method: Method,
        path: &str,
        parameters: &[(&str, String)],
        body: Bytes,
    ) -> Result<Bytes, Error> {
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        let asked = self.runtime.block_on(async {
            tokio::time::timeout(PATIENCE, self.ask(method, &format!("{}{path}?{query}", self.url), body))
                .await
        });
        let (status, bytes) = asked.map_err(|_| Error::Slow { url: self.url.clone() })??;
        match status {
            StatusCode::OK => Ok(bytes),
            StatusCode::UNAUTHORIZED => Err(Error::Token { url: self.url.clone() }),
            other => Err(match serde_json::from_slice(&bytes) {
                Ok(ProblemDetails { detail, fix }) => Error::Refused { url: self.url.clone(), detail, fix },
                Err(_) => self.nonsense(&format!("status {other}")),
            }),
        }
    }

    async fn ask(&self, method: Method, url: &str, body: Bytes) -> Result<(StatusCode, Bytes), Error> {
        let mut request = Request::builder().method(method).uri(url);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.expose()));
        }
        let request = request.body(Full::new(body)).map_err(|_| Error::Url { url: self.url.clone() })?;
        let unreachable = |error: &dyn std::error::Error| Error::Unreachable {
            url: self.url.clone(),
            reason: last_cause(error),
        };
        let response = self.client.request(request).await.map_err(|error| unreachable(&error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
        let body = body.map_err(|error| self.nonsense(&error.to_string()))?;
        Ok((status, body.to_bytes()))
    }
}

/// The words of the innermost cause, which is the one that says something.
fn last_cause(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.last().map(ToString::to_string).unwrap_or_default()
}
