//! The schema for editors, held against files of settings by a validator of others.

use std::fs;
use std::path::Path;

use jsonschema::Validator;
use serde_json::Value;

pub(crate) fn validator() -> Validator {
    jsonschema::draft7::new(&tollgate_settings::schema()).expect("the schema is one")
}

pub(crate) fn wrong(validator: &Validator, text: &str) -> Vec<String> {
    let value: Value = serde_saphyr::from_str(text).unwrap();
    validator.iter_errors(&value).map(|error| format!("{error} at {}", error.instance_path)).collect()
}

/// The files of settings in this repository, `complete.yaml` with every key among them.
#[test]
fn every_valid_file_passes() {
    let validator = validator();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = [
        "crates/settings/tests/it/complete.yaml",
        "crates/server/tests/it/parity/tollgate.yaml",
        "crates/cli/src/demo/settings.yaml",
    ];
    for file in files {
        let text = fs::read_to_string(root.join(file)).unwrap();
        assert_eq!(wrong(&validator, &text), [""; 0], "{file}");
    }
    let texts = [
        "{}",
        "log:",
        "listen: { http: \"\" }",
        "memory: { keys: \"1000\", snapshots: 0 }",
        "gateway: { upstreams: { shop: { servers: http://a:1, eject: { after: 3, for: 1s }, health_check: { path: /, status: 200 } } } }",
        "mapping: { domain: shop, descriptors: [[remote_address: {}], [request_header: { header_name: X }], { actions: [path:] }] }",
        "mapping: { domain: shop, jwt: { keys: [secret_file: a], leeway: 1m }, descriptors: [[jwt_claim: { claim: [a, b], from: { cookie: c } }]] }",
        "log: { level: Warning, format: JSON }",
        "log: { level: \"\", format: }",
        "redis: { layout: ENVOY }\nhistory: { keys: Hashed }",
        "levels: { connections: { exempt: [10.0.0.0/8], listeners: gateway } }",
    ];
    for text in texts {
        crate::with_file(text).unwrap();
        assert_eq!(wrong(&validator, text), [""; 0], "{text}");
    }
}

/// Where a value is one of a few words, an editor can offer them.
#[test]
fn words_are_listed_for_editors() {
    let schema = tollgate_settings::schema();
    let properties = |section: &Value| section["anyOf"][0]["properties"].clone();
    let top = properties(&schema["allOf"][0]);
    for (section, key, words) in [
        ("log", "level", &["trace", "debug", "info", "warn", "error", "panic", "fatal", "warning"][..]),
        ("log", "format", &["text", "json"]),
        ("redis", "layout", &["tollgate", "envoy"]),
        ("history", "keys", &["clear", "hashed", "off"]),
        ("forward_auth", "request_from", &["auto", "x-forwarded", "x-original", "itself"]),
    ] {
        let listed = &properties(&top[section])[key]["anyOf"][0]["enum"];
        assert_eq!(*listed, serde_json::json!(words), "{section}.{key}");
    }
}

#[test]
fn what_is_wrong_by_its_shape_fails() {
    let validator = validator();
    let texts = [
        "[]",
        "lgo: { level: info }",
        "log: { levle: info }",
        "log: info",
        "log: { level: loud }",
        "log: { format: xml }",
        "redis: { layout: flat }",
        "memory: { keys: many }",
        "memory: { snapshots: perhaps }",
        "connections: { max_age: 20 }",
        "connections: { max_age: soon }",
        "gateway: { routes: { upstream: a } }",
        "gateway: { routes: [{ path: /a }] }",
        "gateway: { routes: [{ upstream: \"http://a:1\", colour: red }] }",
        "gateway: { upstreams: { shop: { host: a } } }",
        "gateway: { upstreams: { shop: { servers: \"http://a:1\", health_check: { every: 1s } } } }",
        "mapping: { domain: shop, descriptors: [[remote_adress: {}]] }",
        "mapping: { domain: shop, descriptors: [[path: { template: /a }]] }",
        "mapping: { domain: shop, descriptors: [[{ path: {}, method: {} }]] }",
        "mapping: { domain: shop, descriptors: [[query: { name: q, required: maybe }]] }",
    ];
    for text in texts {
        assert!(crate::with_file(text).is_err(), "{text} is right");
        assert!(!wrong(&validator, text).is_empty(), "{text} passes");
    }
}
