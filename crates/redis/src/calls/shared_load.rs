//! Tells other nodes how loaded this one is, and learns how they are.
//!
//! All nodes keep one list under one key, which `lua/load.lua` updates; what a node
//! said drops out by itself when it is not heard of any more.
//!
//! Invariant: the largest of all nodes wins, by domain; nothing here delays a request.

use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::time::Instant;
use tollgate_limiter::Load;

use super::connect::CONNECT_TIMEOUT;
use super::endpoint_client::EndpointClient;
use crate::placement::keys;

/// After that long without a word what a node said counts no more: three of the
/// intervals at which nodes share.
const LIFE: Duration = Duration::from_secs(3);
/// Stands for all domains; no escaped name is this.
const ALL_DOMAINS: &str = "|";

const SCRIPT: &str = include_str!("../../lua/load.lua");

/// Loads by domain; none for all of them.
pub type DomainLoads = Vec<(Option<String>, Load)>;

/// Shares the loads of this node; those of the others, if the store answers.
pub(crate) async fn share(
    client: &EndpointClient,
    key: &str,
    node: &str,
    own: &[(Option<String>, Load)],
) -> Option<DomainLoads> {
    let mut commands = Pipeline::new();
    let call = commands.cmd("EVAL").arg(SCRIPT).arg(1).arg(key).arg(node).arg(LIFE.as_millis().to_string());
    for (domain, load) in own {
        let domain = domain.as_deref().map_or_else(|| ALL_DOMAINS.to_owned(), keys::escaped);
        call.arg(domain).arg(format!("{:.3}", load.get()));
    }
    let replies = client.run_commands(key, &commands, Instant::now() + CONNECT_TIMEOUT).await.ok()?;
    let [Value::Array(words)] = replies.as_slice() else { return None };
    let (pairs, []) = words.as_chunks::<2>() else { return None };
    pairs.iter().map(domain_load).collect()
}

fn domain_load([domain, load]: &[Value; 2]) -> Option<(Option<String>, Load)> {
    let (Value::BulkString(domain), Value::BulkString(load)) = (domain, load) else { return None };
    let (domain, load) = (str::from_utf8(domain).ok()?, str::from_utf8(load).ok()?);
    let domain = if domain == ALL_DOMAINS { None } else { Some(keys::unescaped(domain)?) };
    Some((domain, Load::new(load.parse().ok()?)?))
}
