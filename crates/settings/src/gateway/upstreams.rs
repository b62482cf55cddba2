//! Groups of upstreams: a URL, a list of them, or a map with more about them.

use std::path::PathBuf;
use std::sync::Arc;

use http::HeaderValue;
use http::uri::{Authority, PathAndQuery};
use tollgate_gateway::bounds::{CHECK_MIN, GROUP_MAX};
use tollgate_gateway::{EjectPolicy, GroupConfig, HealthCheck, UpstreamTls, UpstreamUrl};
use tollgate_yaml::{Located, MapEntry, MapSchema, Problems, YamlMap, YamlNode, YamlValue, quoted};

use crate::file::settled;
use crate::go_syntax::{duration, some_time};
use crate::values;

const EXAMPLE: &str = "NAME: [http://HOST:PORT]";

pub(crate) const GROUP: MapSchema = MapSchema {
    what: "a group of upstreams",
    keys: &["servers", "host", "tls", "eject", "health_check"],
    example: "[http://HOST:PORT] or servers: [http://HOST:PORT]",
};
pub(crate) const TLS: MapSchema = MapSchema {
    what: "tls",
    keys: &["ca", "server_name", "cert", "key", "danger_accept_any_certificate"],
    example: "{ ca: FILE }",
};
pub(crate) const EJECT: MapSchema =
    MapSchema { what: "eject", keys: &["after", "for"], example: "{ after: 5, for: 10s }" };
pub(crate) const HEALTH_CHECK: MapSchema = MapSchema {
    what: "health_check",
    keys: &["path", "interval", "timeout", "healthy_after", "unhealthy_after", "status"],
    example: "{ path: /healthz }",
};

/// More in a row than this is as good as never.
const IN_A_ROW_MAX: u64 = 1_000;

/// All groups; what is wrong is left out.
pub(super) fn read(node: &YamlNode, problems: &mut Problems) -> Vec<Arc<GroupConfig>> {
    if !matches!(*node.value, YamlValue::Map(_)) {
        let help = format!("write {EXAMPLE} below it");
        node.must_be("gateway.upstreams", "a map of groups by name", help, problems);
        return Vec::new();
    }
    let entries = node.entries(|| format!("write {EXAMPLE}"), problems);
    let entries = settled(entries, problems);
    if entries.is_empty() {
        problems.error(node.at, "gateway.upstreams is empty", format!("write {EXAMPLE} below it"));
    }
    let groups = entries.into_iter().filter_map(|MapEntry { name, value, .. }| group(name, value, problems));
    groups.map(Arc::new).collect()
}

fn group(name: &str, node: &YamlNode, problems: &mut Problems) -> Option<GroupConfig> {
    let mut map = None;
    let servers = match &*node.value {
        YamlValue::Map(_) => {
            let map = map.insert(YamlMap::read(node, &GROUP, problems)?);
            map.required("servers", "[http://HOST:PORT]", problems)?;
            map.texts("servers", "http://HOST:PORT", problems)
        }
        YamlValue::List(items) => {
            items.iter().filter_map(|item| item.text(name, "[http://HOST:PORT]", problems)).collect()
        }
        YamlValue::Scalar(_) | YamlValue::Broken => {
            node.text(name, "http://HOST:PORT", problems).into_iter().collect()
        }
    };
    let is_empty = servers.is_empty() && !node.is_broken();
    let servers = urls(servers, problems);
    if is_empty {
        problems.error(node.at, format!("{name} has no upstream"), format!("write {EXAMPLE}"));
    }
    if servers.len() > GROUP_MAX {
        let message = format!("{name} has {} upstreams", servers.len());
        problems.error(node.at, message, format!("write at most {GROUP_MAX}"));
    }
    let group = GroupConfig::new(name.to_owned(), servers);
    let group = match map {
        Some(map) => described(group, &map, problems),
        None => group,
    };
    (!group.servers.is_empty()).then_some(group)
}

/// The group with what else the map says about it.
fn described(group: GroupConfig, map: &YamlMap, problems: &mut Problems) -> GroupConfig {
    let field = |key| map.get(key).map(|field| &field.node);
    if let Some(node) = field("tls")
        && !group.servers.is_empty()
        && !group.servers.iter().any(UpstreamUrl::is_tls)
    {
        problems.error(
            node.at,
            "tls is for upstreams of https://, and there is none",
            "write https://HOST:PORT",
        );
    }
    GroupConfig {
        host: map.parsed("host", host, problems).map(|host| host.value),
        tls: field("tls").map(|node| tls(node, problems)).unwrap_or_default(),
        eject: field("eject").map(|node| eject(node, problems)).unwrap_or_default(),
        health_check: field("health_check").and_then(|node| health_check(node, problems)),
        ..group
    }
}

fn host(text: &str) -> Result<HeaderValue, String> {
    let wrong = || format!("{} is not a host; write such as api.internal", quoted(text));
    let authority: Authority = text.parse().map_err(|_| wrong())?;
    HeaderValue::from_str(authority.as_str()).map_err(|_| wrong())
}

fn tls(node: &YamlNode, problems: &mut Problems) -> UpstreamTls {
    let Some(map) = YamlMap::read(node, &TLS, problems) else { return UpstreamTls::default() };
    let mut path = |key| map.text(key, problems).map(|path| PathBuf::from(path.value));
    let (ca, cert, key) = (path("ca"), path("cert"), path("key"));
    if cert.is_some() != key.is_some() {
        problems.error(map.at, "a certificate needs its key", "write cert: FILE and key: FILE");
    }
    UpstreamTls {
        ca,
        server_name: map.text("server_name", problems).map(|name| name.value),
        identity: cert.zip(key),
        accepts_any_certificate: map.flag("danger_accept_any_certificate", problems).unwrap_or(false),
    }
}

fn eject(node: &YamlNode, problems: &mut Problems) -> EjectPolicy {
    let EjectPolicy { after, base } = EjectPolicy::default();
    let Some(map) = YamlMap::read(node, &EJECT, problems) else { return EjectPolicy::default() };
    EjectPolicy {
        after: in_a_row(&map, "after", 0, problems).unwrap_or(after),
        base: map.parsed("for", some_time, problems).map_or(base, |base| base.value),
    }
}

fn in_a_row(map: &YamlMap, key: &str, least: u64, problems: &mut Problems) -> Option<u32> {
    map.number(key, least..=IN_A_ROW_MAX, problems).and_then(|number| u32::try_from(number).ok())
}

fn health_check(node: &YamlNode, problems: &mut Problems) -> Option<HealthCheck> {
    let map = YamlMap::read(node, &HEALTH_CHECK, problems)?;
    map.required("path", "/healthz", problems)?;
    let path = |text: &str| match PathAndQuery::try_from(text) {
        Ok(path) if text.starts_with('/') => Ok(path),
        _ => Err(format!("{} is not a path; write such as /healthz", quoted(text))),
    };
    let path = map.parsed("path", path, problems);
    let mut statuses = Vec::new();
    for Located { value, at } in map.texts("status", "200", problems) {
        match value.parse() {
            Ok(status) if (100..=599).contains(&status) => statuses.push(status),
            _ => problems.error(at, format!("{} is not a status", quoted(&value)), "write such as 200"),
        }
    }
    let mut span = |key| {
        let Located { value, at } = map.parsed(key, duration, problems)?;
        if value < CHECK_MIN {
            problems.error(at, format!("{key} is too short"), "write 100ms or more");
        }
        Some(value)
    };
    let (interval, timeout) = (span("interval"), span("timeout"));
    let healthy_after = in_a_row(&map, "healthy_after", 1, problems);
    let unhealthy_after = in_a_row(&map, "unhealthy_after", 1, problems);
    let usual = HealthCheck::new(path?.value);
    Some(HealthCheck {
        interval: interval.unwrap_or(usual.interval),
        timeout: timeout.unwrap_or(usual.timeout),
        healthy_after: healthy_after.unwrap_or(usual.healthy_after),
        unhealthy_after: unhealthy_after.unwrap_or(usual.unhealthy_after),
        statuses,
        ..usual
    })
}

fn urls(texts: Vec<Located<String>>, problems: &mut Problems) -> Vec<UpstreamUrl> {
    let mut urls: Vec<UpstreamUrl> = Vec::new();
    for Located { value, at } in texts {
        match values::upstream(&value) {
            Ok(url) if urls.contains(&url) => {
                problems.error(at, format!("{url} is given twice"), "write it once");
            }
            Ok(url) => urls.push(url),
            Err(error) => problems.error_from(at, &error),
        }
    }
    urls
}
