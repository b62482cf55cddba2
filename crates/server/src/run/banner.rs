//! The first lines of the log: where the server listens, and what to try.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tollgate_core::{Entry, RuleSet};
use tollgate_gateway::config::DEFAULT_DOMAIN;

use crate::listen::Addresses;
use tollgate_settings::{ServerTls, Settings, StoreSettings};

/// How many rules are tried for a simple example.
const EXAMPLE_RULES_MAX: usize = 100;

/// A rule file in one line.
const GATEWAY_RULE: &str = "{domain: gateway, descriptors: [{key: remote_address, \
     rate_limit: {requests_per_unit: 10, unit: second}}]}";

/// Says what listens where.
pub(super) fn listening(addresses: &Addresses, settings: &Settings) {
    let Addresses { grpc, http, admin, prometheus, resp, .. } = addresses;
    tracing::info!("Tollgate {} is starting", env!("CARGO_PKG_VERSION"));
    let tls = tls_label(settings.grpc.tls.as_ref());
    tracing::info!("gRPC (Envoy rate limit service v3, health, reflection{tls}) listens on {grpc}");
    let tls = tls_label(settings.http_tls.as_ref());
    tracing::info!("HTTP (/json, /healthcheck, /v1{tls}) listens on {http}");
    if let Some(resp) = resp {
        let tls = tls_label(settings.resp.as_ref().and_then(|resp| resp.tls.as_ref()));
        tracing::info!("RESP (CL.THROTTLE, THROTTLE, TOLLGATE.CHECK{tls}) listens on {resp}");
    }
    tracing::info!(
        "the dashboard and the admin pages (/metrics, /rlconfig, /stats) are at http://{}/",
        reachable(*admin)
    );
    if let Some(prometheus) = prometheus {
        tracing::info!("metrics for Prometheus are on {prometheus}");
    }
}

/// Says what the gateway does, and with which rules it would limit something.
pub(super) fn gateway(addresses: &Addresses, settings: &Settings) {
    let (Some(address), Some(gateway)) = (addresses.gateway, &settings.gateway) else { return };
    let tls = tls_label(gateway.tls.as_ref());
    let upstreams = match gateway.config.routes.as_slice() {
        [only] => only.group.to_string(),
        routes => format!("{} routes", routes.len()),
    };
    tracing::info!("the gateway (HTTP/1.1, HTTP/2{tls}) listens on {address} and forwards to {upstreams}");
    if settings.mapping.is_none() {
        tracing::info!(
            "requests are (remote_address), (method, path) and (path, remote_address) \
             in the domain {DEFAULT_DOMAIN}; mapping: in tollgate.yaml changes that"
        );
        tracing::info!("a rule file to copy, 10 requests a second from each address: {GATEWAY_RULE}");
    }
}

/// Says where counters live.
pub(super) fn counting(store: &StoreSettings) {
    match store {
        StoreSettings::Memory(_) => tracing::info!("counters are in this process' memory"),
        StoreSettings::Redis(config) => {
            let timeout = config.main.timeout;
            tracing::info!("counters are on {} (timeout {timeout:?})", config.main);
            if let Some(other) = &config.per_second {
                tracing::info!("counters of limits per second are on {other}");
            }
        }
    }
}

/// What the log says about a listener's TLS.
fn tls_label(tls: Option<&ServerTls>) -> &'static str {
    match tls {
        None => "",
        Some(ServerTls { client_ca: None, .. }) => "; TLS",
        Some(ServerTls { client_ca: Some(_), .. }) => "; mutual TLS",
    }
}

/// The curl command for that address. The certificate is hardly issued for the
/// address, so curl does not verify it.
pub(super) fn curl(tls: Option<&ServerTls>, http: SocketAddr) -> String {
    let address = reachable(http);
    match tls {
        None => format!("curl -i http://{address}"),
        Some(ServerTls { client_ca: None, .. }) => format!("curl -ik https://{address}"),
        Some(ServerTls { client_ca: Some(_), .. }) => {
            format!("curl -ik --cert YOUR.pem --key YOUR.key https://{address}")
        }
    }
}

/// Suggests a request that meets these rules, to be sent with `curl`.
pub(super) fn what_to_try(rules: &RuleSet, curl: &str) {
    if let Some(body) = example(rules) {
        tracing::info!("try: {curl}/v1/check -d '{body}'");
    }
}

/// An address that works on this machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    let ip = match address {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    SocketAddr::new(ip, address.port())
}

/// A request that meets one of the first rules. Only a rule that others shadow
/// has none.
fn example(rules: &RuleSet) -> Option<String> {
    rules.ids().take(EXAMPLE_RULES_MAX).find_map(|id| {
        let (domain, levels) = rules.levels(id)?;
        let entries: Vec<(String, String)> = levels
            .iter()
            .map(|(key, value)| (key.replace('*', "x"), value.unwrap_or("42").replace('*', "x")))
            .collect();
        let borrowed: Vec<Entry<'_>> = entries.iter().map(|(key, value)| Entry { key, value }).collect();
        rules.trace(domain, &borrowed)?.rules.contains(&id).then(|| body(domain, &entries))
    })
}

/// The body of a check of one descriptor, as a shell takes it between quotes.
fn body(domain: &str, entries: &[(String, String)]) -> String {
    let json = |text: &str| serde_json::Value::from(text).to_string();
    let is_repeated = |(index, (key, _)): (usize, &(String, String))| {
        entries.iter().take(index).any(|(earlier, _)| earlier == key)
    };
    // An object has a key once; the longer form may have it again.
    let descriptor = if entries.iter().enumerate().any(is_repeated) {
        let entry =
            |(key, value): &(String, String)| format!("{{\"key\":{},\"value\":{}}}", json(key), json(value));
        format!("\"entries\":[{}]", entries.iter().map(entry).collect::<Vec<_>>().join(","))
    } else {
        let entry = |(key, value): &(String, String)| format!("{}:{}", json(key), json(value));
        entries.iter().map(entry).collect::<Vec<_>>().join(",")
    };
    let body = format!("{{\"domain\":{},\"descriptors\":[{{{descriptor}}}]}}", json(domain));
    body.replace('\'', "\\u0027")
}

#[cfg(test)]
mod tests {
    use tollgate_rules::{Options, SourceFile, load};

    use super::*;

    fn example_of(descriptors: &str) -> Option<String> {
        let limit = "rate_limit: { requests_per_unit: 1, unit: hour }";
        let text = format!("domain: it's\ndescriptors: {}\n", descriptors.replace("LIMIT", limit));
        let source = SourceFile { name: "rules.yaml".into(), text };
        example(&load(vec![source], &Options::default()).expect("the rules are right").rules)
    }

    #[test]
    fn every_rule_that_can_be_met_makes_an_example() {
        let cases = [
            ("[{ key: user_id, LIMIT }]", r#"{"user_id":"42"}"#),
            (
                "[{ key: user_id, rate_limits: [{ requests_per_unit: 1, unit: hour }, { requests_per_unit: 9, unit: day }] }]",
                r#"{"user_id":"42"}"#,
            ),
            ("[{ key: p_q, value: /x_y, LIMIT }]", r#"{"p_q":"/x_y"}"#),
            ("[{ key: path, value: /api/*, LIMIT }]", r#"{"path":"/api/x"}"#),
            (
                "[{ key: plan, value: free, descriptors: [{ key: user_id, LIMIT }] }]",
                r#"{"plan":"free","user_id":"42"}"#,
            ),
            (
                "[{ key: a, descriptors: [{ key: a, LIMIT }] }]",
                r#"{"entries":[{"key":"a","value":"42"},{"key":"a","value":"42"}]}"#,
            ),
            // The first rule is never reached.
            (
                "[{ key: k, value: 'x*' }, { key: k, value: 'xx*', LIMIT }, { key: z, LIMIT }]",
                r#"{"z":"42"}"#,
            ),
        ];
        for (descriptors, expected) in cases {
            let body = format!(r#"{{"domain":"it\u0027s","descriptors":[{expected}]}}"#);
            assert_eq!(example_of(descriptors), Some(body), "{descriptors}");
        }
    }

    #[test]
    fn the_rule_to_copy_is_one() {
        let source = SourceFile { name: "rules.yaml".into(), text: GATEWAY_RULE.into() };
        let rules = load(vec![source], &Options::default()).expect("the rules are right").rules;
        assert!(rules.trace(DEFAULT_DOMAIN, &[Entry::from(("remote_address", "10.0.0.1"))]).is_some());
    }

    #[test]
    fn without_a_limit_there_is_nothing_to_try() {
        assert_eq!(example_of("[]"), None);
    }
}
