//! The first lines of the log: where the server listens, and what to try.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tollgate_core::{Entry, RuleSet};

use crate::listen::Addresses;
use tollgate_settings::{ServerTls, Settings, StoreSettings};

/// How many rules are tried for a simple example.
const EXAMPLE_RULES_MAX: usize = 100;

/// Says what listens where.
pub(super) fn listening(addresses: &Addresses, settings: &Settings) {
    let Addresses { grpc, http, admin, prometheus, resp } = addresses;
    tracing::info!("Tollgate {} is starting", env!("CARGO_PKG_VERSION"));
    let tls = tls_label(settings.grpc.tls.as_ref());
    tracing::info!("gRPC (Envoy rate limit service v3, health, reflection{tls}) listens on {grpc}");
    let tls = tls_label(settings.http_tls.as_ref());
    tracing::info!("HTTP (/json, /healthcheck, /v1{tls}) listens on {http}");
    if let Some(resp) = resp {
        let tls = tls_label(settings.resp.as_ref().and_then(|resp| resp.tls.as_ref()));
        tracing::info!("RESP (CL.THROTTLE, THROTTLE, TOLLGATE.CHECK{tls}) listens on {resp}");
    }
    tracing::info!("admin pages (/metrics, /rlconfig, /stats) are at http://{}/", reachable(*admin));
    if let Some(prometheus) = prometheus {
        tracing::info!("metrics for Prometheus are on {prometheus}");
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
        tracing::info!("try: {curl}/json -d '{body}'");
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

/// A request that meets one of the first rules.
fn example(rules: &RuleSet) -> Option<String> {
    let paths = rules.rules().iter().take(EXAMPLE_RULES_MAX).map(|rule| rule.path.as_str());
    let found = paths.filter_map(|path| {
        let domain = rules
            .domains()
            .find(|domain| path.strip_prefix(domain).is_some_and(|rest| rest.starts_with('.')))?;
        let level = path.get(domain.len() + 1..)?;
        let (key, value) = entry(rules, domain, level)?;
        let [domain, key, value] = [domain, key, value].map(|text| serde_json::Value::from(text).to_string());
        let entry = format!("{{\"key\":{key},\"value\":{value}}}");
        Some(format!("{{\"domain\":{domain},\"descriptors\":[{{\"entries\":[{entry}]}}]}}"))
    });
    // A quote would end the one around the body.
    found.into_iter().find(|body| !body.contains('\''))
}

/// The key and the value of a level `key` or `key_value` that meets a rule.
/// Where the key ends is a guess, so a value is only looked for where there is a
/// character that hardly any key has.
fn entry<'a>(rules: &RuleSet, domain: &str, level: &'a str) -> Option<(&'a str, &'a str)> {
    let odd = level.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-'));
    let split = odd.and_then(|odd| level.get(..odd)?.rfind('_'));
    let (key, value) = match split {
        Some(at) => (level.get(..at)?, level.get(at + 1..)?),
        None => (level, "42"),
    };
    let trace = rules.trace(domain, &[Entry { key, value }])?;
    (!trace.rules.is_empty()).then_some((key, value))
}

#[cfg(test)]
mod tests {
    use tollgate_rules::{Options, SourceFile, load};

    use super::*;

    fn example_of(text: &str) -> Option<String> {
        let source = SourceFile { name: "rules.yaml".into(), text: text.into() };
        example(&load(vec![source], &Options::default()).expect("the rules are right").rules)
    }

    #[test]
    fn the_example_meets_a_rule_with_a_value_or_without() {
        let limit = "rate_limit: { requests_per_unit: 1, unit: hour }";
        let any = example_of(&format!("domain: a.b\ndescriptors:\n  - key: user_id\n    {limit}\n"));
        let entry = r#"{"domain":"a.b","descriptors":[{"entries":[{"key":"user_id","value":"42"}]}]}"#;
        assert_eq!(any.as_deref(), Some(entry));
        let one =
            example_of(&format!("domain: d\ndescriptors:\n  - key: p_q\n    value: /x_y\n    {limit}\n"));
        let entry = r#"{"domain":"d","descriptors":[{"entries":[{"key":"p_q","value":"/x_y"}]}]}"#;
        assert_eq!(one.as_deref(), Some(entry));
    }

    #[test]
    fn rules_that_make_no_simple_example_make_none() {
        assert_eq!(example_of("domain: d\n"), None);
        let nested = "domain: d\ndescriptors:\n  - key: a\n    descriptors:\n      - key: b\n        \
                      rate_limit: { requests_per_unit: 1, unit: hour }\n";
        assert_eq!(example_of(nested), None);
    }
}
