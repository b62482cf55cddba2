//! Rules from an xDS server, state of the world.
//!
//! One stream of `StreamAggregatedResources`: we say who we are and what we
//! want; each response holds all rules. Rules that are good are put in force
//! and acknowledged; others are refused with the reason, and the old ones
//! stay. A stream that breaks is opened again after a wait.
//!
//! Every new stream begins without a version, so that the server sends
//! everything again: a server that was restarted may count its versions anew.
//!
//! Deliberately not here: delta xDS.

mod backoff;
mod channel;
mod from_wire;
mod to_wire;

use std::time::Duration;

use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use tokio::sync::{Notify, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use tollgate_rules::{LoadError, Loaded, Options};
use tollgate_settings::XdsSettings;
use tonic::IntoStreamingRequest as _;

use super::report::{LoadOrigin, LoadReporter};
use backoff::RetryBackoff;
use channel::error_chain;
use from_wire::RuleResources;
use to_wire::Acknowledgement;

/// How a stream ended.
enum StreamEnd {
    /// It never began.
    NotConnected(String),
    /// It broke.
    Broken(String),
}

/// Keeps a stream open for ever.
pub(super) async fn run<F>(xds: XdsSettings, options: Options, reporter: LoadReporter<F>, reload: &Notify)
where
    F: FnMut(Result<Loaded, LoadError>),
{
    let backoff = RetryBackoff::new(&xds.backoff);
    let origin = format!("xDS server {}", xds.server);
    let mut client = XdsClient { origin, xds, options, reporter, backoff };
    client.reporter.set_origin(&client.origin);
    loop {
        let end = tokio::select! {
            end = client.stream() => Some(end),
            // Asked to load again: a new stream brings everything.
            () = reload.notified() => None,
        };
        let (wait, why) = match end {
            None => continue,
            Some(StreamEnd::NotConnected(why)) => (client.xds.retry_interval, why),
            Some(StreamEnd::Broken(why)) => (client.backoff.next(), why),
        };
        client.log_break(&why, wait);
        tokio::select! {
            () = sleep(wait) => {}
            () = reload.notified() => {}
        }
    }
}

struct XdsClient<F> {
    origin: String,
    xds: XdsSettings,
    options: Options,
    reporter: LoadReporter<F>,
    backoff: RetryBackoff,
}

impl<F: FnMut(Result<Loaded, LoadError>)> XdsClient<F> {
    /// Opens a stream and answers what comes, until it breaks.
    async fn stream(&mut self) -> StreamEnd {
        let channel = match channel::connect(&self.xds).await {
            Ok(channel) => channel,
            Err(error) => return StreamEnd::NotConnected(error_chain(&error)),
        };
        // One answer for each response, and the first request.
        let (answers, outgoing) = mpsc::channel(2);
        let mut request = ReceiverStream::new(outgoing).into_streaming_request();
        match channel::headers(&self.xds) {
            Ok(headers) => *request.metadata_mut() = headers,
            Err(error) => return StreamEnd::NotConnected(error_chain(&error)),
        }
        let mut client = AggregatedDiscoveryServiceClient::new(channel)
            .max_decoding_message_size(self.xds.max_message_bytes);
        let first = to_wire::request(&self.xds, Acknowledgement::default());
        if answers.send(first).await.is_err() {
            return StreamEnd::Broken("the stream closed at once".to_owned());
        }
        let mut incoming = match client.stream_aggregated_resources(request).await {
            Ok(response) => response.into_inner(),
            Err(status) => return StreamEnd::Broken(shown(&status)),
        };
        self.reporter.set_source_error(None);
        let mut acknowledged = String::new();
        loop {
            let response = match incoming.message().await {
                Ok(Some(response)) => response,
                Ok(None) => return StreamEnd::Broken("the server ended the stream".to_owned()),
                Err(status) => return StreamEnd::Broken(shown(&status)),
            };
            let (version, nonce) = (response.version_info.clone(), response.nonce.clone());
            let refused = self.put_in_force(from_wire::resources(response)).await.err();
            if refused.is_none() {
                acknowledged = version;
                self.backoff.reset();
            }
            let answer = Acknowledgement { version: acknowledged.clone(), nonce, refused };
            let answer = to_wire::request(&self.xds, answer);
            if answers.send(answer).await.is_err() {
                return StreamEnd::Broken("the server takes no answers".to_owned());
            }
        }
    }

    /// Puts the rules of a response in force, or says why not.
    async fn put_in_force(&mut self, resources: Result<RuleResources, String>) -> Result<(), String> {
        let resources = match resources {
            Ok(resources) => resources,
            Err(reason) => {
                let origin = &self.origin;
                let then = if self.reporter.has_rules() {
                    "the rules in force stay"
                } else {
                    "there are none in force"
                };
                tracing::error!(%origin, %reason, "a message of the xDS server was refused; {then}");
                self.reporter.set_source_error(Some(reason.clone()));
                return Err(reason);
            }
        };
        self.reporter.set_source_error(None);
        let files = resources.names();
        let options = self.options.clone();
        let result = match spawn_blocking(move || resources.into_rules(&options)).await {
            Ok(result) => result,
            Err(error) => return Err(format!("the rules could not be read: {error}")),
        };
        let refusal = result.as_ref().err().map(ToString::to_string);
        let from = LoadOrigin { origin: self.origin.clone(), files, warnings: Vec::new() };
        self.reporter.report(from, result);
        refusal.map_or(Ok(()), Err)
    }

    /// The same break again and again is news only once.
    fn log_break(&mut self, why: &str, wait: Duration) {
        let is_news = self.reporter.set_source_error(Some(format!("no stream to the server: {why}")));
        let origin = &self.origin;
        if is_news && self.reporter.has_rules() {
            tracing::warn!(%origin, %why, "no stream to the xDS server; the rules in force stay, and it is tried again");
        } else if is_news {
            tracing::warn!(
                %origin, %why,
                "no stream to the xDS server, and there are no rules yet; calls get an error until it answers, \
                 and it is tried again"
            );
        } else {
            tracing::debug!(%origin, %why, ?wait, "still no stream to the xDS server");
        }
    }
}

fn shown(status: &tonic::Status) -> String {
    let code = status.code();
    if status.message().is_empty() { format!("{code:?}") } else { format!("{code:?}: {}", status.message()) }
}
