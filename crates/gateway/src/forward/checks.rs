//! Health checks: a request of our own to each upstream, again and again.
//!
//! Each is made on a connection of its own, so that it says whether the upstream takes new ones.

use std::io;
use std::sync::Arc;

use http::{StatusCode, Uri};
use hyper::Request;
use tokio::time::{sleep, timeout};

use super::connect;
use super::server::UpstreamServer;
use crate::config::HealthCheck;
use crate::request_body::RequestBody;

/// Checks the health of an upstream for ever.
pub(super) async fn run(server: Arc<UpstreamServer>, check: HealthCheck) {
    let health = server.health();
    let mut in_a_row = 0;
    loop {
        let is_well = is_well(&server, &check).await;
        // As long as it is as expected, there is nothing to count.
        in_a_row = if is_well == health.fails_checks() { in_a_row + 1 } else { 0 };
        if in_a_row > 0 && in_a_row >= if is_well { check.healthy_after } else { check.unhealthy_after } {
            in_a_row = 0;
            health.checked(!is_well);
        }
        // A tenth more or less, so that gateways that started together do not go on asking together.
        sleep(check.interval * fastrand::u32(90..=110) / 100).await;
    }
}

async fn is_well(server: &UpstreamServer, check: &HealthCheck) -> bool {
    let upstream = server.url();
    match timeout(check.timeout, ask(server, check)).await {
        Ok(Ok(status)) => {
            let is_well = match check.statuses.as_slice() {
                [] => status.is_success(),
                statuses => statuses.contains(&status.as_u16()),
            };
            tracing::debug!(%upstream, %status, is_well, "health check");
            is_well
        }
        Ok(Err(error)) => {
            tracing::debug!(%upstream, %error, "health check failed");
            false
        }
        Err(_) => {
            tracing::debug!(%upstream, "health check was not answered in time");
            false
        }
    }
}

async fn ask(server: &UpstreamServer, check: &HealthCheck) -> io::Result<StatusCode> {
    let sender = connect::open(server.endpoint(), false).await?;
    let mut request = Request::new(RequestBody::empty());
    *request.uri_mut() = Uri::from(check.path.clone());
    server.set_host(&mut request);
    let answered = sender.send(request, server.url().is_tls()).await;
    let (response, _) = answered.map_err(|error| io::Error::other(error.into_error()))?;
    Ok(response.status())
}
