//! Rules from an xDS server: what is taken, refused, and asked for again.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use envoy_types::pb::ratelimit::config::ratelimit::v3::{
    RateLimitConfig as Config, RateLimitDescriptor as Descriptor, RateLimitPolicy as Policy,
    RateLimitReplace as Replace,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tollgate_core::{MetadataValue, Mode, Unit};
use tollgate_settings::{RuleOrigin, Secret, XdsBackoff, XdsSettings, XdsTls};
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use super::xds_server::{Snapshot, XdsServer};
use super::{Running, source};

const SECOND: i32 = 1;
const WEEK: i32 = 7;

fn settings(port: u16) -> XdsSettings {
    let wait = Duration::from_millis(10);
    XdsSettings {
        server: format!("localhost:{port}"),
        node_id: "tollgate-test".to_owned(),
        node_metadata: vec![("region".to_owned(), "eu".to_owned())],
        headers: vec![("X-Token".to_owned(), Secret::new("hunter2"))],
        tls: None,
        retry_interval: wait,
        backoff: XdsBackoff { initial: wait, max: wait, random_permille: 0 },
        max_message_bytes: 1_000_000,
    }
}

fn config(domain: &str, count: u32) -> Config {
    let limit = Policy { unit: SECOND, requests_per_unit: count, ..Policy::default() };
    let descriptor = Descriptor { key: "key1".to_owned(), rate_limit: Some(limit), ..Descriptor::default() };
    Config { name: format!("{domain}-config"), domain: domain.to_owned(), descriptors: vec![descriptor] }
}

/// Scenario F of the reference over xDS: snapshots 1, 2 and 3.
#[tokio::test]
async fn snapshots_replace_each_other_and_are_acknowledged() {
    let mut server = XdsServer::start(0, Snapshot::new("1", &[config("basic", 50)]), None).await;
    let mut running = Running::start(source(RuleOrigin::Xds(settings(server.port))));
    let first = server.next().await;
    let node = first.request.node.unwrap();
    assert_eq!(node.id, "tollgate-test");
    let metadata = node.metadata.unwrap();
    assert!(metadata.fields.contains_key("region"));
    assert_eq!(first.headers.get("x-token").unwrap(), "hunter2");
    assert_eq!(first.request.type_url, super::xds_server::TYPE_URL);
    assert_eq!((first.request.version_info.as_str(), first.request.response_nonce.as_str()), ("", ""));

    let ack = server.next().await.request;
    assert_eq!((ack.version_info.as_str(), ack.response_nonce.as_str()), ("1", "1"));
    assert!(ack.error_detail.is_none());
    let status = running.loads(1).await;
    assert_eq!(status.files, ["basic-config"]);
    assert_eq!(status.origin, format!("xDS server localhost:{}", server.port));

    server.set(Snapshot::new("2", &[config("basic", 50), config("reload", 50)]));
    running.domains(&["basic", "reload"]).await;
    assert_eq!(server.next().await.request.version_info, "2");
    server.set(Snapshot::new("3", &[config("basic", 7)]));
    running.domains(&["basic"]).await;
    assert_eq!(running.count(), 7);
    running.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn no_resources_are_an_empty_configuration() {
    let server = XdsServer::start(0, Snapshot::new("1", &[config("basic", 50)]), None).await;
    let mut running = Running::start(source(RuleOrigin::Xds(settings(server.port))));
    running.domains(&["basic"]).await;
    server.set(Snapshot::new("2", &[]));
    running.domains(&[]).await;
    assert_eq!((running.status.borrow().loads, running.status.borrow().failures), (2, 0));
    assert!(!running.status.borrow().is_healthy(true));
    running.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn wrong_rules_are_refused_with_the_reason_and_the_old_ones_stay() {
    let mut server = XdsServer::start(0, Snapshot::new("1", &[config("basic", 50)]), None).await;
    let mut running = Running::start(source(RuleOrigin::Xds(settings(server.port))));
    running.loads(1).await;
    drop((server.next().await, server.next().await));

    let mut bad = config("basic", 1);
    bad.descriptors[0].rate_limit.as_mut().unwrap().unit = 9;
    server.set(Snapshot::new("2", &[bad, config("", 1)]));
    let nack = server.next().await.request;
    assert_eq!((nack.version_info.as_str(), nack.response_nonce.as_str()), ("1", "2"));
    let reason = nack.error_detail.unwrap().message;
    assert!(reason.contains("basic-config: error: 'basic.key1' has the unknown unit 9"), "{reason}");
    assert!(reason.contains("-config: error: a domain needs a name"), "{reason}");
    let status = running.failures(1).await;
    assert_eq!((running.count(), status.loads), (50, 1));

    server.set(Snapshot::new("3", &[config("basic", 51)]));
    running.loads(2).await;
    assert_eq!(running.count(), 51);
    assert!(running.status.borrow().last_error.is_none());
    assert_eq!(server.next().await.request.version_info, "3");
    running.stop().await;
    server.stop().await;
}

/// As in the reference: it is refused, and counts as no attempt to load.
#[tokio::test]
async fn a_message_that_cannot_be_decoded_is_refused() {
    let mut server = XdsServer::start(0, Snapshot::new("1", &[config("basic", 50)]), None).await;
    let mut running = Running::start(source(RuleOrigin::Xds(settings(server.port))));
    running.loads(1).await;
    drop((server.next().await, server.next().await));
    server.set(Snapshot::broken("2"));
    let nack = server.next().await.request;
    assert!(nack.error_detail.unwrap().message.contains("resource 0 cannot be decoded"));
    let status = running.until("an error of the source", |status| status.source_error.is_some()).await;
    assert_eq!((status.loads, status.failures, running.count()), (1, 0, 50));
    running.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn every_check_of_files_holds_here_too() {
    let mut own = config("own", 1);
    let limit = own.descriptors[0].rate_limit.as_mut().unwrap();
    limit.name = "me".to_owned();
    limit.replaces = vec![Replace { name: "me".to_owned() }, Replace::default()];
    let mut unlimited = config("unlimited", 1);
    unlimited.descriptors[0].rate_limit.as_mut().unwrap().unlimited = true;
    let mut twice = config("twice", 1);
    twice.descriptors.push(twice.descriptors[0].clone());
    let mut keyless = config("keyless", 1);
    keyless.descriptors[0].key.clear();
    let mut again = config("again", 1);
    again.name = "b".to_owned();
    let configs = [own, unlimited, twice, keyless, config("again", 1), again];
    let server = XdsServer::start(0, Snapshot::new("1", &configs), None).await;
    let mut running = Running::start(source(RuleOrigin::Xds(settings(server.port))));
    let mut problems = running.failures(1).await.last_error.unwrap().problems;
    problems.sort();
    let expected = [
        "b: error: domain 'again' is defined twice; write it once",
        "keyless-config: error: a descriptor below 'keyless' needs a key; write key: NAME",
        "own-config: error: 'own.key1' has a replaces entry without a name; send the name of another limit",
        "own-config: error: limit 'me' of 'own.key1' replaces itself; send the name of another limit",
        "twice-config: error: descriptor 'twice.key1' is defined twice at one level; write it once",
        "unlimited-config: error: 'unlimited.key1' is unlimited and has a unit; send one of the two",
    ];
    assert_eq!(problems, expected);
    running.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn every_field_has_its_meaning() {
    use envoy_types::pb::google::protobuf::{Struct, Value as WireValue, value::Kind};
    let number = |number| WireValue { kind: Some(Kind::NumberValue(number)) };
    let fields = [("whole".to_owned(), number(5.0)), ("part".to_owned(), number(0.5))].into_iter().collect();
    let inner = Descriptor {
        key: "inner".to_owned(),
        value: "v".to_owned(),
        rate_limit: Some(Policy {
            unit: WEEK,
            requests_per_unit: 5,
            name: "weekly".to_owned(),
            replaces: vec![Replace { name: "other".to_owned() }],
            ..Policy::default()
        }),
        shadow_mode: true,
        quota_mode: true,
        detailed_metric: true,
        metadata: Some(Struct { fields }),
        ..Descriptor::default()
    };
    let outer = Descriptor { key: "outer".to_owned(), descriptors: vec![inner], ..Descriptor::default() };
    let config = Config { name: "n".to_owned(), domain: "d".to_owned(), descriptors: vec![outer] };
    let server = XdsServer::start(0, Snapshot::new("1", &[config]), None).await;
    let mut running = Running::start(source(RuleOrigin::Xds(settings(server.port))));
    let status = running.loads(1).await;
    assert_eq!(status.warnings.len(), 0);
    let rules = running.limiter.rules();
    let rule = &rules.rules()[0];
    assert_eq!((rule.path.as_str(), rule.label.as_str()), ("d.outer.inner_v", "weekly"));
    assert_eq!((rule.unit, rule.mode, rule.limit.count()), (Unit::Week, Mode::ShadowQuota, 5));
    assert_eq!(rule.replaces, ["other"]);
    assert!(rule.limit.counts_rejected(), "as Envoy counts");
    let metadata = MetadataValue::Map(vec![
        ("part".to_owned(), MetadataValue::Number("0.5".to_owned())),
        ("whole".to_owned(), MetadataValue::Int(5)),
    ]);
    assert_eq!(rule.metadata, Some(metadata));
    running.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn after_a_restart_of_the_server_the_stream_comes_back() {
    let server = XdsServer::start(0, Snapshot::new("2", &[config("old", 1)]), None).await;
    let port = server.port;
    let mut running = Running::start(source(RuleOrigin::Xds(settings(port))));
    running.domains(&["old"]).await;
    server.stop().await;
    let lost = running.until("lost", |status| status.source_error.is_some()).await;
    assert_eq!(lost.domains, 1, "the rules stay");
    assert!(lost.source_error.unwrap().starts_with("no stream to the server: "));
    // The new one counts its versions anew, and is heard all the same.
    let mut server = XdsServer::start(port, Snapshot::new("2", &[config("new", 1)]), None).await;
    running.domains(&["new"]).await;
    assert_eq!(server.next().await.request.version_info, "");
    running.until("well again", |status| status.source_error.is_none()).await;
    running.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_is_not_there_yet_is_waited_for() {
    let server = XdsServer::start(0, Snapshot::new("1", &[]), None).await;
    let port = server.port;
    server.stop().await;
    let mut running = Running::start(source(RuleOrigin::Xds(settings(port))));
    let status = running.until("an error", |status| status.source_error.is_some()).await;
    assert!(!status.is_decided(), "nothing was loaded, and nothing refused");
    let server = XdsServer::start(port, Snapshot::new("1", &[config("late", 1)]), None).await;
    running.domains(&["late"]).await;
    running.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn a_message_above_the_bound_breaks_the_stream_and_not_the_rules() {
    let server = XdsServer::start(0, Snapshot::new("1", &[config("basic", 1)]), None).await;
    let mut running = Running::start(source(RuleOrigin::Xds(XdsSettings {
        max_message_bytes: 10_000,
        ..settings(server.port)
    })));
    running.loads(1).await;
    server.set(Snapshot::new("2", &[config(&"x".repeat(20_000), 1)]));
    let status = running.until("an error", |status| status.source_error.is_some()).await;
    assert_eq!(status.domains, 1);
    server.set(Snapshot::new("3", &[config("small", 1)]));
    running.domains(&["small"]).await;
    running.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn asked_to_reload_it_asks_the_server_again() {
    let server = XdsServer::start(0, Snapshot::new("1", &[config("basic", 1)]), None).await;
    let mut running = Running::start(source(RuleOrigin::Xds(settings(server.port))));
    running.loads(1).await;
    running.reload.notify_one();
    running.loads(2).await;
    running.stop().await;
    server.stop().await;
}

/// A certificate authority, and certificates by it in files.
struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { folder, issuer }
    }

    /// Writes a certificate for a name; the paths of it and of its key.
    fn issue(&self, name: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let paths = ["crt", "key"].map(|kind| self.folder.path().join(format!("{name}.{kind}")));
        fs::write(&paths[0], cert.pem()).unwrap();
        fs::write(&paths[1], key.serialize_pem()).unwrap();
        let [cert, key] = paths;
        (cert, key)
    }
}

#[tokio::test]
async fn certificates_are_checked_and_shown() {
    let authority = Authority::new();
    let (cert, key) = authority.issue("xds.example");
    let identity = Identity::from_pem(fs::read(cert).unwrap(), fs::read(key).unwrap());
    let tls = ServerTlsConfig::new()
        .identity(identity)
        .client_ca_root(Certificate::from_pem(authority.issuer.pem()));
    let server = XdsServer::start(0, Snapshot::new("1", &[config("secret", 1)]), Some(tls)).await;
    let ours = XdsTls {
        ca: Some(authority.folder.path().join("ca.pem")),
        identity: Some(authority.issue("tollgate")),
        server_name: Some("xds.example".to_owned()),
    };
    let with = |tls: XdsTls| source(RuleOrigin::Xds(XdsSettings { tls: Some(tls), ..settings(server.port) }));
    let mut running = Running::start(with(ours.clone()));
    running.domains(&["secret"]).await;
    running.stop().await;

    let nameless = XdsTls { server_name: None, ..ours.clone() };
    let anonymous = XdsTls { identity: None, ..ours.clone() };
    let trusting_others = XdsTls { ca: Some(Authority::new().folder.keep().join("ca.pem")), ..ours.clone() };
    let missing = XdsTls { ca: Some("no/ca.pem".into()), ..ours };
    for wrong in [nameless, anonymous, trusting_others, missing] {
        let mut running = Running::start(with(wrong));
        let status = running.until("an error", |status| status.source_error.is_some()).await;
        assert_eq!(status.loads, 0, "{status:?}");
        running.stop().await;
    }
    server.stop().await;
}
