//! The manifests.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy knows the tests here, but not the functions that they share"
)]

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tollgate_server::bounds::DRAIN_MAX;
use tollgate_settings::{ConfigFile, Flags, GrpcAddress, Settings};

use super::file;
use crate::serve::{ANY, Serving, get, get_until};

/// Every manifest, by kind and name.
fn manifests() -> HashMap<(String, String), Value> {
    let text = file("kubernetes/tollgate.yaml");
    let parsed = text.split("\n---\n").map(|one| serde_saphyr::from_str::<Value>(one).unwrap());
    let named = |one: Value| ((word(&one["kind"]), word(&one["metadata"]["name"])), one);
    parsed.map(named).collect()
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

fn manifest(kind: &str) -> Value {
    manifests().remove(&(kind.to_owned(), "tollgate".to_owned())).unwrap()
}

fn pod() -> Value {
    manifest("Deployment")["spec"]["template"].clone()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

/// The ports of the container, by name.
fn ports(container: &Value) -> HashMap<String, u64> {
    let port = |port: &Value| (word(&port["name"]), port["containerPort"].as_u64().unwrap());
    list(&container["ports"]).iter().map(port).collect()
}

#[test]
fn what_refers_to_something_finds_it() {
    let (pod, service) = (pod(), manifest("Service"));
    let labels = &pod["metadata"]["labels"];
    for selector in [
        &manifest("Deployment")["spec"]["selector"]["matchLabels"],
        &manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        &service["spec"]["selector"],
    ] {
        assert_eq!(selector, labels);
    }
    let container = &pod["spec"]["containers"][0];
    let ports = ports(container);
    for port in list(&service["spec"]["ports"]) {
        assert_eq!(ports.get(&word(&port["targetPort"])), port["port"].as_u64().as_ref(), "{port}");
    }
    assert!(ports.contains_key(&word(&container["readinessProbe"]["httpGet"]["port"])));
    assert_eq!(container["livenessProbe"]["grpc"]["port"].as_u64(), ports.get("grpc").copied());
    let scraped = &pod["metadata"]["annotations"]["prometheus.io/port"];
    assert_eq!(word(scraped), ports["metrics"].to_string());

    let names = |list: &[Value]| list.iter().map(|one| word(&one["name"])).collect::<BTreeSet<_>>();
    let volumes = list(&pod["spec"]["volumes"]);
    assert_eq!(names(list(&container["volumeMounts"])), names(volumes));
    for volume in volumes.iter().filter(|volume| volume["emptyDir"].is_null()) {
        let map = ("ConfigMap".to_owned(), word(&volume["configMap"]["name"]));
        assert!(manifests().contains_key(&map), "{map:?}");
    }
    let version = concat!("tollgate:", env!("CARGO_PKG_VERSION"));
    assert_eq!(container["image"], version);
}

#[test]
fn a_stop_has_the_time_that_the_server_takes() {
    let pod = pod();
    let sleep = pod["spec"]["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"].as_u64().unwrap();
    let grace = pod["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(grace >= sleep + DRAIN_MAX.as_secs(), "{grace} s are too few");
}

/// Puts the files of every volume below `root`, as Kubernetes mounts them.
fn mount(root: &Path) {
    let pod = pod();
    let mounts = &pod["spec"]["containers"][0]["volumeMounts"];
    for volume in list(&pod["spec"]["volumes"]) {
        let mounted = list(mounts).iter().find(|mount| mount["name"] == volume["name"]).unwrap();
        let folder = root.join(word(&mounted["mountPath"]).trim_start_matches('/'));
        std::fs::create_dir_all(&folder).unwrap();
        if !volume["emptyDir"].is_null() {
            continue;
        }
        let map = ("ConfigMap".to_owned(), word(&volume["configMap"]["name"]));
        for (name, text) in manifests()[&map]["data"].as_object().unwrap() {
            std::fs::write(folder.join(name), below(root, &word(text))).unwrap();
        }
    }
}

/// The same with the container's folders below `root`.
fn below(root: &Path, text: &str) -> String {
    let own = |path: &str| root.join(path).to_str().unwrap().to_owned();
    text.replace("/etc/tollgate", &own("etc/tollgate")).replace("/var/lib/tollgate", &own("var/lib/tollgate"))
}

#[test]
fn the_settings_listen_where_the_manifests_say() {
    let settings = manifests().remove(&("ConfigMap".to_owned(), "tollgate-settings".to_owned())).unwrap();
    let text = word(&settings["data"]["tollgate.yaml"]);
    let file = ConfigFile::parse("tollgate.yaml", &text).unwrap();
    let (settings, warnings) =
        Settings::resolve(&Flags::default(), &HashMap::<String, String>::new(), Some(&file)).unwrap();
    assert_eq!(warnings, []);
    let GrpcAddress::Tcp(grpc) = settings.grpc.address else { panic!("gRPC listens on a port") };
    let metrics = settings.metrics.prometheus.unwrap().address;
    let expected = [("grpc", grpc.port), ("http", settings.http.port), ("metrics", metrics.port)];
    let expected = expected.map(|(name, port)| (name.to_owned(), u64::from(port)));
    assert_eq!(ports(&pod()["spec"]["containers"][0]), HashMap::from(expected));
}

/// The names of series that a text in the language of Prometheus uses.
fn series(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| ["tollgate_", "ratelimit_", "process_"].iter().any(|first| word.starts_with(first)))
}

/// Every expression of a dashboard.
fn each_expression(value: &Value, tell: &mut impl FnMut(&str)) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if ["expr", "query", "definition"].contains(&name.as_str()) => tell(text),
                    _ => each_expression(value, tell),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| each_expression(value, tell)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn the_pod_starts_is_ready_and_shows_every_series_of_the_dashboard() {
    let root = tempfile::tempdir().unwrap();
    mount(root.path());
    let pod = pod();
    let container = &pod["spec"]["containers"][0];
    let args = list(&container["args"]).iter().map(|arg| below(root.path(), &word(arg)));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    // Ports that nobody else has, in place of those that the pod has for itself.
    command.args(args).args(ANY).env_clear().env("PROMETHEUS_ADDR", "127.0.0.1:0");
    let mut server = Serving::run(&mut command, root.path());
    let address = server.address("HTTP (/json, /healthcheck, /v1) listens on ");
    let metrics = server.address("metrics for Prometheus are on ");
    server.until("history is kept in ");
    server.until("rules loaded");
    server.until("try: ");
    let probe = word(&container["readinessProbe"]["httpGet"]["path"]);
    get_until(address, &probe, "HTTP/1.1 200");

    let page = get(metrics, "/metrics");
    let names: BTreeSet<&str> =
        page.lines().map(|line| line.split(['{', ' ']).next().unwrap_or_default()).collect();
    let dashboard: Value = serde_json::from_str(&file("grafana/tollgate.json")).unwrap();
    let mut used = BTreeSet::new();
    each_expression(&dashboard, &mut |expression| used.extend(series(expression).map(str::to_owned)));
    assert!(used.len() >= 12, "only {used:?} are used");
    for name in used {
        assert!(names.contains(name.as_str()), "{name} of the dashboard is not on the page:\n{page}");
    }
}
