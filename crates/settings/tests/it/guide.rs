//! The settings that the guide shows are settings, to the server and to an editor.
//!
//! Every page of `docs/guide` is read, so that a new one is held as well. A block of YAML that begins with
//! `# not a rule file: WHY` is taken for `tollgate.yaml` unless its WHY is one of [`OTHERS`]; rule files and
//! rule tests are run by `cargo xtask examples`.

use std::collections::HashMap;
use std::path::Path;

use tollgate_settings::{ConfigFile, Flags, Settings, rows};

const MARK: &str = "```yaml\n# not a rule file: ";

/// YAML that other programs read.
const OTHERS: &[&str] = &[
    "a scrape configuration of Prometheus",
    "a mapping for PROMETHEUS_MAPPER_YAML",
    "a part of Envoy's own",
    "the container of a Deployment",
];

/// Pages with the number of blocks of settings that they have at least.
const SHOWN: &[(&str, usize)] =
    &[("deferring.md", 1), ("forward-auth.md", 2), ("gateway.md", 6), ("resp.md", 1), ("settings.md", 1)];

/// The blocks of settings of a page.
fn blocks(page: &str) -> Vec<&str> {
    let blocks = page.split(MARK).skip(1).filter_map(|rest| rest.split_once('\n'));
    let ours = blocks.filter(|(why, _)| !OTHERS.contains(why));
    ours.map(|(_, rest)| rest.split_once("```").expect("a block has an end").0).collect()
}

/// Everything that is wrong with the blocks of a page, warnings among it. Where one has no gateway, the
/// flags of the guide's first command are beside it.
fn complaints(name: &str, page: &str) -> Vec<String> {
    let schema = crate::schema::validator();
    let mut found = Vec::new();
    for block in blocks(page) {
        let flags = if name == "gateway.md" && !block.contains("listen:") {
            let flags = Flags::default().with(&rows::GATEWAY_ADDRESS.row, "127.0.0.1:8000");
            flags.with(&rows::UPSTREAM.row, "http://127.0.0.1:9000")
        } else {
            Flags::default()
        };
        let resolved = ConfigFile::parse(name, block).map_err(|error| error.to_string()).and_then(|file| {
            let resolved = Settings::resolve(&flags, &HashMap::new(), Some(&file));
            resolved.map_err(|error| error.to_string())
        });
        match resolved {
            Ok((_, warnings)) => found.extend(warnings.into_iter().map(|warning| warning.message)),
            Err(error) => found.push(error),
        }
        found.extend(crate::schema::wrong(&schema, block));
    }
    found
}

#[test]
fn the_settings_of_the_guide_work() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    let mut shown = HashMap::new();
    for entry in folder.read_dir().unwrap() {
        let entry = entry.unwrap();
        let (name, page) =
            (entry.file_name().into_string().unwrap(), std::fs::read_to_string(entry.path()).unwrap());
        assert_eq!(complaints(&name, &page), [""; 0], "{name}");
        shown.insert(name, blocks(&page).len());
    }
    for (name, least) in SHOWN {
        assert!(shown.get(*name) >= Some(least), "{name} has lost its settings: {shown:?}");
    }
}

#[test]
fn a_block_with_a_mistake_is_named() {
    let page = |block: &str| format!("Text.\n\n{MARK}settings for the gateway\n{block}```\n\nMore.\n");
    for (block, words) in [
        ("levels: { requests: { per_secnd: 5 } }\n", "unknown key 'levels.requests.per_secnd'"),
        ("levels: { requests: { burst: 20 } }\n", "has no effect without levels.requests.per_second"),
        ("gateway: { timeouts: { idle: 60 } }\n", "'60' has no unit"),
        ("mapping: { domain: edge }\n", "a mapping needs descriptors"),
    ] {
        let told = complaints("gateway.md", &page(block)).join("\n");
        assert!(told.contains(words), "{block}: {told}");
    }
    let other = format!("{MARK}a part of Envoy's own\nhttp_filters: []\n```\n");
    assert_eq!(blocks(&other), [""; 0]);
}
