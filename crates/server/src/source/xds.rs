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
mod resources;

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use envoy_types::pb::google::protobuf::{Struct, Value, value::Kind};
use envoy_types::pb::google::rpc::Status as RpcStatus;
use envoy_types::pb::ratelimit::config::ratelimit::v3::RateLimitConfig;
use prost::Message as _;
use tokio::sync::{Notify, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use tollgate_rules::{LoadError, Loaded, Options};
use tollgate_settings::XdsSettings;

use super::report::{LoadOrigin, LoadReporter};
use backoff::RetryBackoff;
use channel::error_chain;

/// What a resource of rules is called.
const TYPE_URL: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";
/// The most bytes of a reason that the server is sent; it stands in a log there.
const REASON_MAX: usize = 4_096;
/// `INVALID_ARGUMENT` of gRPC.
const INVALID_ARGUMENT: i32 = 3;

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
        let request = match channel::request(&self.xds, ReceiverStream::new(outgoing)) {
            Ok(request) => request,
            Err(error) => return StreamEnd::NotConnected(error_chain(&error)),
        };
        let mut client = AggregatedDiscoveryServiceClient::new(channel)
            .max_decoding_message_size(self.xds.max_message_bytes);
        let first = self.request(String::new(), String::new(), None);
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
            let answer = match self.take(response).await {
                Ok(()) => {
                    acknowledged.clone_from(&version);
                    self.backoff.reset();
                    self.request(version, nonce, None)
                }
                Err(reason) => self.request(acknowledged.clone(), nonce, Some(reason)),
            };
            if answers.send(answer).await.is_err() {
                return StreamEnd::Broken("the server takes no answers".to_owned());
            }
        }
    }

    /// Puts the rules of a response in force, or says why not.
    async fn take(&mut self, response: DiscoveryResponse) -> Result<(), String> {
        let resources = match decoded(response) {
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
        let mut files: Vec<String> = resources.iter().map(|one| resources::name_of(one).to_owned()).collect();
        files.sort();
        let options = self.options.clone();
        let result = match spawn_blocking(move || resources::rules(resources, &options)).await {
            Ok(result) => result,
            Err(error) => return Err(format!("the rules could not be read: {error}")),
        };
        let refusal = result.as_ref().err().map(ToString::to_string);
        let from = LoadOrigin { origin: self.origin.clone(), files, warnings: Vec::new() };
        self.reporter.report(from, result);
        refusal.map_or(Ok(()), Err)
    }

    fn request(&self, version: String, nonce: String, refusal: Option<String>) -> DiscoveryRequest {
        let text = |value: &String| Value { kind: Some(Kind::StringValue(value.clone())) };
        let fields = self.xds.node_metadata.iter().map(|(name, value)| (name.clone(), text(value))).collect();
        let node = Node {
            id: self.xds.node_id.clone(),
            metadata: Some(Struct { fields }).filter(|metadata| !metadata.fields.is_empty()),
            ..Node::default()
        };
        DiscoveryRequest {
            version_info: version,
            node: Some(node),
            type_url: TYPE_URL.to_owned(),
            response_nonce: nonce,
            error_detail: refusal.map(|reason| RpcStatus {
                code: INVALID_ARGUMENT,
                message: cut(reason),
                details: Vec::new(),
            }),
            ..DiscoveryRequest::default()
        }
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

/// The resources of a response, all of them ours.
fn decoded(response: DiscoveryResponse) -> Result<Vec<RateLimitConfig>, String> {
    let DiscoveryResponse { type_url, resources, .. } = response;
    if type_url != TYPE_URL {
        return Err(format!("'{type_url}' was not asked for; send {TYPE_URL}"));
    }
    let decode = |(index, any): (usize, envoy_types::pb::google::protobuf::Any)| {
        if any.type_url != TYPE_URL {
            return Err(format!("resource {index} is a '{}'; send {TYPE_URL}", any.type_url));
        }
        RateLimitConfig::decode(any.value.as_slice())
            .map_err(|error| format!("resource {index} cannot be decoded: {error}"))
    };
    resources.into_iter().enumerate().map(decode).collect()
}

fn shown(status: &tonic::Status) -> String {
    let code = status.code();
    if status.message().is_empty() { format!("{code:?}") } else { format!("{code:?}: {}", status.message()) }
}

/// At most [`REASON_MAX`] bytes, cut between characters.
fn cut(mut text: String) -> String {
    if text.len() > REASON_MAX {
        let end = (0..=REASON_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
    text
}
