//! Which requests go to which group of upstreams.

use std::sync::Arc;

use http::header::HOST;
use http::{HeaderName, HeaderValue, Method};
use tollgate_gateway::bounds::ROUTES_MAX;
use tollgate_gateway::route::{HeaderCondition, HostPattern};
use tollgate_gateway::{GatewayTimeouts, GroupConfig, RouteConditions, RouteConfig};
use tollgate_http::PathTemplates;
use tollgate_yaml::{
    Located, MapEntry, MapSchema, Problems, YamlMap, YamlNode, YamlValue, nearest, one_of, quoted,
};

use crate::file::settled;
use crate::go_syntax::{duration, some_time};
use crate::mapping::{self, MappingSettings};
use crate::values;

pub(crate) const ROUTE: MapSchema = MapSchema {
    what: "a route",
    keys: &["host", "path", "method", "headers", "upstream", "mapping", "timeouts"],
    example: "{ path: /PATH, upstream: NAME }",
};
pub(crate) const TIMEOUTS: MapSchema = MapSchema {
    what: "timeouts",
    keys: &["connect", "first_byte", "idle", "total"],
    example: "{ first_byte: 5s }",
};
const UPSTREAM: &str = "write a name of gateway.upstreams, or http://HOST:PORT";
const HEADERS: &str = "write { NAME: VALUE }, with * for any value";

/// What routes refer to, and what they have unless they say otherwise.
pub(super) struct RouteContext<'a> {
    pub(super) groups: &'a [Arc<GroupConfig>],
    pub(super) mapping: Option<&'a MappingSettings>,
    pub(super) timeouts: GatewayTimeouts,
}

/// All routes; what is wrong is left out.
pub(super) fn read(node: &YamlNode, context: &RouteContext<'_>, problems: &mut Problems) -> Vec<RouteConfig> {
    let YamlValue::List(items) = &*node.value else {
        let help = "write a list below it, each item as - { path: /PATH, upstream: NAME }";
        node.must_be("gateway.routes", "a list", help, problems);
        return Vec::new();
    };
    if items.is_empty() {
        problems.error(node.at, "gateway.routes is empty", "write at least one - { upstream: NAME }");
    }
    if items.len() > ROUTES_MAX {
        let message = format!("there are {} routes", items.len());
        problems.error(node.at, message, format!("write at most {ROUTES_MAX}"));
        return Vec::new();
    }
    let mut routes: Vec<RouteConfig> = Vec::new();
    for item in items {
        if routes.iter().any(|route| route.conditions.are_empty()) {
            let help = "write it before the one that takes all requests";
            problems.error(item.at, "no request gets to this route", help);
        }
        routes.extend(route(item, context, problems));
    }
    routes
}

fn route(node: &YamlNode, context: &RouteContext<'_>, problems: &mut Problems) -> Option<RouteConfig> {
    let before = problems.error_count();
    let map = YamlMap::read(node, &ROUTE, problems)?;
    let conditions = RouteConditions {
        hosts: hosts(&map, problems),
        paths: paths(&map, problems),
        methods: methods(&map, problems),
        headers: map.get("headers").map_or_else(Vec::new, |field| headers(&field.node, problems)),
    };
    // Without the condition that is wrong it may seem to take all requests.
    let is_right = problems.error_count() == before;
    let group = group(&map, context, problems);
    let mapping = map.get("mapping");
    let mapping = mapping.map(|field| mapping::of_route(&field.node, context.mapping, problems));
    let timeouts = map.get("timeouts").map(|field| timeouts(&field.node, context.timeouts, problems));
    let (mapping, timeouts) = (mapping.flatten(), timeouts.unwrap_or(context.timeouts));
    let route = RouteConfig { conditions, group: group?, mapping, timeouts };
    is_right.then_some(route)
}

/// A group by its name, or one of its own.
fn group(map: &YamlMap, context: &RouteContext<'_>, problems: &mut Problems) -> Option<Arc<GroupConfig>> {
    map.required("upstream", "NAME", problems)?;
    let Located { value, at } = map.text("upstream", problems)?;
    if let Some(group) = context.groups.iter().find(|group| group.name == value) {
        return Some(Arc::clone(group));
    }
    // What has an @ is meant as a URL, and its error does not repeat a password.
    if value.contains("://") || value.contains('@') {
        let url = values::upstream(&value).map_err(|error| problems.error_from(at, &error)).ok()?;
        return Some(Arc::new(GroupConfig::of(url)));
    }
    let names: Vec<&str> = context.groups.iter().map(|group| group.name.as_str()).collect();
    let help = match nearest(&value, names.iter().copied()) {
        Some(name) => format!("write {name}"),
        None if names.is_empty() => UPSTREAM.to_owned(),
        None => one_of(names),
    };
    problems.error(at, format!("there is no upstream {}", quoted(&value)), help);
    None
}

/// The texts of a condition; an empty list would fit nothing, or everything, and nobody means either.
fn condition(map: &YamlMap, key: &str, example: &str, problems: &mut Problems) -> Vec<Located<String>> {
    let is_empty = |node: &YamlNode| matches!(&*node.value, YamlValue::List(items) if items.is_empty());
    if let Some(field) = map.get(key).filter(|field| is_empty(&field.node)) {
        let message = format!("{key} is an empty list, and no request would fit");
        problems.error(field.node.at, message, format!("write {key}: {example}, or leave it out"));
    }
    map.texts(key, example, problems)
}

fn hosts(map: &YamlMap, problems: &mut Problems) -> Vec<HostPattern> {
    let mut hosts = Vec::new();
    for Located { value, at } in condition(map, "host", "api.example.com", problems) {
        match value.parse::<HostPattern>() {
            Ok(host) => hosts.push(host),
            Err(error) => problems.error_from(at, &error),
        }
    }
    hosts
}

fn paths(map: &YamlMap, problems: &mut Problems) -> Option<PathTemplates> {
    map.get("path")?;
    let mut paths = PathTemplates::default();
    for Located { value, at } in condition(map, "path", "/PATH", problems) {
        if let Err(error) = paths.add(&value) {
            problems.error_from(at, &error);
        }
    }
    Some(paths)
}

fn methods(map: &YamlMap, problems: &mut Problems) -> Vec<Method> {
    let mut methods = Vec::new();
    for Located { value, at } in condition(map, "method", "GET", problems) {
        match value.to_ascii_uppercase().parse() {
            Ok(method) => methods.push(method),
            Err(_) => problems.error(at, format!("{} is not a method", quoted(&value)), "write such as GET"),
        }
    }
    methods
}

/// Names with values; `*` is any.
fn headers(node: &YamlNode, problems: &mut Problems) -> Vec<HeaderCondition> {
    if !matches!(*node.value, YamlValue::Map(_)) {
        node.must_be("headers", "a map of names with values", HEADERS, problems);
        return Vec::new();
    }
    let mut conditions = Vec::new();
    for MapEntry { name, key, value, .. } in settled(node.entries(|| HEADERS.to_owned(), problems), problems)
    {
        let Some(Located { value, at }) = value.text(name, "VALUE", problems) else { continue };
        let named = HeaderName::try_from(name);
        if named.as_ref().is_ok_and(|named| *named == HOST) {
            problems.error(
                key.at,
                "the host of a request is not only in its field",
                "write host: beside headers:",
            );
        }
        if named.is_err() {
            problems.error(key.at, format!("{} is not the name of a header", quoted(name)), HEADERS);
        }
        let parsed = HeaderValue::from_str(&value);
        if parsed.is_err() {
            problems.error(at, format!("{} is not the value of a header", quoted(&value)), HEADERS);
        }
        let (Ok(name), Ok(parsed)) = (named, parsed) else { continue };
        conditions.push(HeaderCondition { name, value: Some(parsed).filter(|_| value != "*") });
    }
    conditions
}

fn timeouts(node: &YamlNode, general: GatewayTimeouts, problems: &mut Problems) -> GatewayTimeouts {
    let Some(map) = YamlMap::read(node, &TIMEOUTS, problems) else { return general };
    let total = map.parsed("total", duration, problems).map(|own| own.value);
    let mut timeout = |key, general| map.parsed(key, some_time, problems).map_or(general, |own| own.value);
    GatewayTimeouts {
        connect: timeout("connect", general.connect),
        first_byte: timeout("first_byte", general.first_byte),
        idle: timeout("idle", general.idle),
        total: total.or(general.total).filter(|total| !total.is_zero()),
    }
}
