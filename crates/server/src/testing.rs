//! A service and connections, for the unit tests of adapters.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::io::DuplexStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tollgate_core::{RuleSet, Time};
use tollgate_metrics::{Metrics, MetricsConfig};
use tollgate_rules::{Options, SourceFile, load};
use tollgate_settings::{Flags, Settings};

use crate::health::Health;
use crate::listen::accept::{Serve, ServerConnection};
use crate::listen::connection_limit::ConnectionLimit;
use crate::listen::lifetime::Lifetime;
use crate::service::Service;
use crate::source::RuleStatus;
use crate::store::AnyStore;
use crate::telemetry::Tracer;

/// When its rules were loaded.
pub(crate) const START: Time = Time::from_secs(1_800_000_000);

/// A service in memory with these rules.
pub(crate) fn service(rules: &str) -> Arc<Service> {
    let (settings, _) = Settings::resolve(&Flags::default(), &HashMap::new(), None).unwrap();
    let metrics = Arc::new(Metrics::new(MetricsConfig::default()));
    let store = AnyStore::new(&settings.store).unwrap();
    let health = Arc::new(Health::new(false));
    let service = Service::new(&settings, store, metrics, health, Tracer::off());
    service.limiter().replace_rules(rule_set(rules));
    service.health().set_rules_in_force();
    service.health().set_rules(RuleStatus { loads: 1, loaded_at: Some(START), ..RuleStatus::default() });
    Arc::new(service)
}

/// The rules of a file.
pub(crate) fn rule_set(text: &str) -> RuleSet {
    let source = SourceFile { name: "rules.yaml".into(), text: text.into() };
    load(vec![source], &Options::default()).unwrap().rules
}

/// A caller at one end of a pipe, with a server at the other.
pub(crate) struct TestConnection {
    pub(crate) io: DuplexStream,
    pub(crate) stop: watch::Sender<bool>,
    /// Ends with the connection.
    pub(crate) served: JoinHandle<()>,
}

/// Connects to a server through a pipe that holds `pipe` bytes each way.
pub(crate) fn connect(serve: impl Serve, limit: &Arc<ConnectionLimit>, pipe: usize) -> TestConnection {
    let (io, theirs) = tokio::io::duplex(pipe);
    let stop = watch::Sender::new(false);
    let lifetime = Lifetime::new(serve.policy(), limit.acquire().unwrap(), None, stop.subscribe());
    let connection = ServerConnection { io: Box::new(theirs), peer: None, lifetime };
    let served = tokio::spawn(async move { serve.serve(connection).await });
    TestConnection { io, stop, served }
}
