//! How an HTTP request becomes descriptors.
//!
//! | module | what it reads |
//! |---|---|
//! | `actions` | the descriptors, action by action |
//! | `charge` | when they are charged, and what |
//! | `jwt` | which tokens are valid |

pub(crate) mod actions;
pub(crate) mod charge;
pub(crate) mod jwt;

use tollgate_gateway::config::DEFAULT_DOMAIN;
use tollgate_http::request::token::TokenSpec;
use tollgate_http::{AddressHeader, ClientAddress, Fact, Mapping, MappingDescriptor};
use tollgate_yaml::{Located, MapSchema, Problems, YamlMap, YamlNode};

use crate::go_syntax::choice;
use crate::rows;
use crate::settings_reader::SettingsReader;

/// Who is believed where nobody is named: proxies on this machine.
const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1"];

pub(crate) const MAPPING: MapSchema = MapSchema {
    what: "a mapping",
    keys: &["domain", "descriptors", "trusted_proxies", "address_from", "jwt"],
    example: "domain: NAME and descriptors: below mapping:",
};

pub(crate) const ROUTE_MAPPING: MapSchema = MapSchema {
    what: "the mapping of a route",
    keys: &["domain", "descriptors"],
    example: "descriptors: and a list below mapping:",
};

/// How an HTTP request becomes descriptors.
#[derive(Debug, Clone)]
pub struct MappingSettings {
    /// Everything but the keys, which are read when the server starts.
    pub mapping: Mapping,
    /// Which tokens are valid; none if none is.
    pub tokens: Option<TokenSpec>,
}

pub(crate) fn read(reader: &mut SettingsReader<'_>) -> Option<MappingSettings> {
    let node = reader.find(&rows::MAPPING)?;
    let problems = &mut reader.problems;
    let map = YamlMap::read(&node, &MAPPING, problems)?;
    let domain = required_text(&map, "domain", "NAME", problems);
    let proxies = proxies(&map, problems);
    let tokens = map.get("jwt").and_then(|field| jwt::read(&field.node, problems));
    let descriptors = descriptors(&map, problems)?;
    if tokens.is_none() && !map.is_reported("jwt") && need_keys(&descriptors) {
        problems.error_from(map.at, &tollgate_http::Error::NoKeys);
    }
    let Located { value, at } = domain?;
    match Mapping::new(value, descriptors) {
        Ok(mapping) => Some(MappingSettings { mapping: mapping.with_proxies(proxies?), tokens }),
        Err(error) => {
            problems.error_from(at, &error);
            None
        }
    }
}

/// The mapping of one route of the gateway. Whom to believe about addresses and tokens is said
/// once, in the general mapping.
pub(crate) fn of_route(
    node: &YamlNode,
    general: Option<&MappingSettings>,
    problems: &mut Problems,
) -> Option<Mapping> {
    let map = YamlMap::read(node, &ROUTE_MAPPING, problems)?;
    let domain = map.text("domain", problems);
    let descriptors = descriptors(&map, problems)?;
    if general.is_none_or(|general| general.tokens.is_none()) && need_keys(&descriptors) {
        let help = "write jwt: with keys: in the general mapping:";
        problems.error(map.at, "a claim needs keys to verify tokens with", help);
    }
    let at = domain.as_ref().map_or(map.at, |domain| domain.at);
    let general_domain = general.map_or(DEFAULT_DOMAIN, |general| general.mapping.domain());
    let domain = domain.map_or_else(|| general_domain.to_owned(), |domain| domain.value);
    let proxies = general.map(|general| general.mapping.proxies().clone()).unwrap_or_default();
    match Mapping::new(domain, descriptors) {
        Ok(mapping) => Some(mapping.with_proxies(proxies)),
        Err(error) => {
            problems.error_from(at, &error);
            None
        }
    }
}

/// The descriptors, of which there must be some.
fn descriptors(map: &YamlMap, problems: &mut Problems) -> Option<Vec<MappingDescriptor>> {
    let items = map.nonempty_list("descriptors", "[ACTION, ACTION]", problems);
    let descriptors = items.iter().filter_map(|item| actions::descriptor(item, problems)).collect();
    (!items.is_empty()).then_some(descriptors)
}

/// Whether tokens are verified.
fn need_keys(descriptors: &[MappingDescriptor]) -> bool {
    let mut actions = descriptors.iter().flat_map(MappingDescriptor::actions);
    actions.any(|action| matches!(action.fact, Fact::Claim { .. }))
}

fn proxies(map: &YamlMap, problems: &mut Problems) -> Option<ClientAddress> {
    let headers =
        [("x-forwarded-for", AddressHeader::XForwardedFor), ("forwarded", AddressHeader::Forwarded)];
    let header = map.parsed("address_from", |text| choice(text, "names no address", &headers), problems);
    let header = header.map(|header| header.value).unwrap_or_default();
    if map.get("trusted_proxies").is_none() {
        return ClientAddress::new(&LOOPBACK, header).ok();
    }
    let mut networks = Vec::new();
    let mut are_right = true;
    for item in map.list("trusted_proxies", "NETWORK", problems) {
        let Some(Located { value, at }) = item.text("trusted_proxies", "[NETWORK]", problems) else {
            continue;
        };
        // Each alone, so that every wrong one is told with its place.
        if let Err(error) = ClientAddress::new(&[&value], header) {
            problems.error_from(at, &error);
            are_right = false;
        }
        networks.push(value);
    }
    match ClientAddress::new(&networks, header) {
        Ok(proxies) => Some(proxies),
        Err(error) => {
            if are_right {
                problems.error_from(map.location("trusted_proxies"), &error);
            }
            None
        }
    }
}

/// The text of a field that must be there.
fn required_text(
    map: &YamlMap,
    key: &str,
    example: &str,
    problems: &mut Problems,
) -> Option<Located<String>> {
    map.required(key, example, problems)?.node.text(key, example, problems)
}

/// The fields of a map that may be left empty.
fn fields(node: &YamlNode, schema: &MapSchema, problems: &mut Problems) -> Option<YamlMap> {
    if node.is_null() {
        return Some(YamlMap::empty(node.at, schema.what));
    }
    YamlMap::read(node, schema, problems)
}
