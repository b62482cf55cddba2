//! `/json`: Envoy's call as JSON, by any method.
//!
//! | module | what it holds |
//! |---|---|
//! | `from_wire` | JSON → Envoy's request |
//! | `to_wire` | Envoy's response → JSON; errors → status codes |

mod from_wire;
mod to_wire;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use tollgate_core::{Operation, Time};

use super::Context;
use crate::body;
use crate::bounds::JSON_BODY_MAX;
use crate::grpc::{self, RlsRequest};
use crate::service::Service;
use crate::telemetry::{CallSpan, SHOULD_RATE_LIMIT};
use to_wire::JsonError;
use tollgate_metrics::Call;

pub(super) use to_wire::whole;

/// Answers a request.
pub(super) async fn answer(State(context): State<Context>, request: Request<Body>) -> Response {
    let service = &*context.service;
    let start = service.now();
    let mut span =
        service.tracer().call(SHOULD_RATE_LIMIT, |name| request.headers().get(name)?.to_str().ok());
    let answered = match body::receive(request.into_body(), JSON_BODY_MAX).await {
        Ok(received) => {
            let now = if received.has_waited { service.now() } else { start };
            decide(service, &received.bytes, now, &mut span).await
        }
        Err(error) => Err(error.into()),
    };
    service.metrics().served(Call::Http, service.now().since(start));
    answered.unwrap_or_else(|refusal| {
        span.failed(&refusal.to_string());
        to_wire::refuse(&refusal)
    })
}

async fn decide(
    service: &Service,
    bytes: &[u8],
    now: Time,
    span: &mut CallSpan,
) -> Result<Response, JsonError> {
    let request = RlsRequest::new(from_wire::request(bytes)?, service.counts_rejected())?;
    let response = grpc::respond::<JsonError>(service, Operation::Check, &request, now, span).await?;
    to_wire::respond(&response)
}
