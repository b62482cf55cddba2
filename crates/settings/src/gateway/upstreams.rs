//! Groups of upstreams: a URL, a list of them, or a map with more about them.

use std::sync::Arc;

use tollgate_gateway::bounds::GROUP_MAX;
use tollgate_gateway::{GroupConfig, UpstreamUrl};
use tollgate_yaml::{Located, MapEntry, MapSchema, Problems, YamlMap, YamlNode, YamlValue};

use crate::file::settled;
use crate::values;

const EXAMPLE: &str = "NAME: [http://HOST:PORT]";

const GROUP: MapSchema = MapSchema {
    what: "a group of upstreams",
    keys: &["servers"],
    example: "[http://HOST:PORT] or servers: [http://HOST:PORT]",
};

/// All groups; what is wrong is left out.
pub(super) fn read(node: &YamlNode, problems: &mut Problems) -> Vec<Arc<GroupConfig>> {
    if !matches!(*node.value, YamlValue::Map(_)) {
        let help = format!("write {EXAMPLE} below it");
        node.must_be("gateway.upstreams", "a map of groups by name", help, problems);
        return Vec::new();
    }
    let entries = node.entries(|| format!("write {EXAMPLE}"), problems);
    let entries = settled(entries, problems);
    let groups = entries.into_iter().filter_map(|MapEntry { name, value, .. }| group(name, value, problems));
    groups.map(Arc::new).collect()
}

fn group(name: &str, node: &YamlNode, problems: &mut Problems) -> Option<GroupConfig> {
    let servers = match &*node.value {
        YamlValue::Map(_) => {
            let map = YamlMap::read(node, &GROUP, problems)?;
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
    (!servers.is_empty()).then(|| GroupConfig { name: name.to_owned(), servers })
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
