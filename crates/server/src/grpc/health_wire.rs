//! `grpc.health.v1`: whether this server wants to be called.
//!
//! As the reference has it: `ratelimit` is SERVING or NOT_SERVING, the empty
//! name is always SERVING, and no other name is known.
//!
//! Invariant: watchers hear of the end and are let go, so that they do not keep
//! the process from ending.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio_stream::Stream;
use tokio_stream::wrappers::WatchStream;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::bounds::SIDE_MESSAGE_MAX;
use crate::health::HealthState;
use crate::service::Service;
use tollgate_metrics::Call;

/// The name that the reference answers for.
const RATELIMIT: &str = "ratelimit";

pub(super) type GrpcHealth = HealthServer<HealthReporter>;

/// Tells how a service is.
#[derive(Debug)]
pub(super) struct HealthReporter {
    service: Arc<Service>,
}

pub(super) fn server(service: Arc<Service>) -> GrpcHealth {
    HealthServer::new(HealthReporter { service }).max_decoding_message_size(SIDE_MESSAGE_MAX)
}

/// What reflection tells of it.
pub(super) use tonic_health::pb::FILE_DESCRIPTOR_SET;

type HealthUpdate = Result<HealthCheckResponse, Status>;

#[tonic::async_trait]
impl Health for HealthReporter {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let start = self.service.now();
        let status = match request.get_ref().service.as_str() {
            "" => Ok(ServingStatus::Serving),
            RATELIMIT => Ok(serving(self.service.health().state())),
            other => Err(Status::not_found(format!("there is no service '{other}'; ask for '{RATELIMIT}'"))),
        };
        self.service.metrics().served(Call::HealthCheck, self.service.now().since(start));
        status.map(|status| Response::new(response(status)))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = HealthUpdate> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let states = WatchStream::new(self.service.health().watch());
        let updates = HealthWatch { states, name: request.into_inner().service, last: None, is_over: false };
        Ok(Response::new(Box::pin(updates)))
    }
}

/// What a watcher gets: every change, and the end.
struct HealthWatch {
    states: WatchStream<HealthState>,
    name: String,
    last: Option<ServingStatus>,
    is_over: bool,
}

impl Stream for HealthWatch {
    type Item = HealthUpdate;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<HealthUpdate>> {
        while !self.is_over {
            let Some(state) = ready!(Pin::new(&mut self.states).poll_next(cx)) else { break };
            self.is_over = state.stopping;
            let status = match self.name.as_str() {
                "" => ServingStatus::Serving,
                RATELIMIT => serving(state),
                _ => ServingStatus::ServiceUnknown,
            };
            if self.last.replace(status) != Some(status) {
                return Poll::Ready(Some(Ok(response(status))));
            }
        }
        Poll::Ready(None)
    }
}

const fn serving(state: HealthState) -> ServingStatus {
    if state.is_healthy() { ServingStatus::Serving } else { ServingStatus::NotServing }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: i32::from(status) }
}
