//! The routes in force.
//!
//! Made of a [`GatewayConfig`] at the start and at every reload. A request finds its [`Route`] here
//! and keeps it until it is answered, whatever is reloaded meanwhile.
//!
//! Invariant: routes are tried in the order in which they are written, and the first that fits is
//! taken. Nobody has to know which of two is the more specific.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_http::{AdmissionControl, Fact};

use crate::config::{GatewayConfig, GatewayTimeouts};
use crate::forward::{UpstreamGroup, UpstreamTlsError};
use crate::route::{RouteConditions, RouteQuery};

/// Where some requests go, and how they are limited.
#[derive(Debug)]
pub(crate) struct Route {
    conditions: RouteConditions,
    pub(crate) group: Arc<UpstreamGroup>,
    pub(crate) admission: AdmissionControl,
    pub(crate) timeouts: GatewayTimeouts,
    /// Whether its requests can take the short way: nothing of an answer's body is wanted here, and
    /// upstreams are spoken to in HTTP/1.1 without TLS.
    pub(crate) is_direct: bool,
    /// Whether bodies of answers say what is charged.
    pub(crate) reads_bodies: bool,
}

impl Route {
    /// Whether it goes by the host: to be taken, or to limit.
    fn reads_host(&self) -> bool {
        let mut facts = self.admission.mapping().facts();
        !self.conditions.hosts.is_empty() || facts.any(|fact| matches!(fact, Fact::Host))
    }
}

/// The routes in force.
#[derive(Debug)]
pub(crate) struct RouteTable {
    routes: Vec<Arc<Route>>,
    reads_hosts: bool,
}

impl RouteTable {
    /// Routes without a mapping of their own have that of `admission`. What `old` knows about
    /// upstreams that stay is kept.
    pub(crate) fn new(
        config: &GatewayConfig,
        admission: &AdmissionControl,
        old: Option<&Self>,
    ) -> Result<Self, UpstreamTlsError> {
        let mut groups: HashMap<&str, Arc<UpstreamGroup>> = HashMap::new();
        let mut routes = Vec::with_capacity(config.routes.len());
        for route in &config.routes {
            let name = route.group.name.as_str();
            let group = match groups.get(name) {
                Some(group) => Arc::clone(group),
                None => {
                    let known = old.and_then(|old| old.group(name));
                    let group = Arc::new(UpstreamGroup::new(&route.group, known)?);
                    groups.insert(name, Arc::clone(&group));
                    group
                }
            };
            let admission = match &route.mapping {
                Some(own) => admission.clone().with_mapping(own.clone()),
                None => admission.clone(),
            };
            routes.push(Arc::new(Route {
                conditions: route.conditions.clone(),
                timeouts: route.timeouts,
                reads_bodies: admission.mapping().reads_bodies(),
                is_direct: group.is_plain() && !admission.mapping().needs_responses(),
                admission: admission.counted_by(route.conditions.paths.clone()),
                group,
            }));
        }
        let reads_hosts = routes.iter().any(|route| route.reads_host());
        Ok(Self { routes, reads_hosts })
    }

    /// Whether it matters which host a request is for.
    pub(crate) const fn reads_hosts(&self) -> bool {
        self.reads_hosts
    }

    /// The route of a request, if there is one.
    pub(crate) fn find(&self, query: &RouteQuery<'_>) -> Option<&Arc<Route>> {
        self.routes.iter().find(|route| route.conditions.fit(query))
    }

    /// All groups, each once.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &UpstreamGroup> {
        let is_first = |(index, route): &(usize, &Arc<Route>)| {
            !self.routes.iter().take(*index).any(|earlier| Arc::ptr_eq(&earlier.group, &route.group))
        };
        self.routes.iter().enumerate().filter(is_first).map(|(_, route)| &*route.group)
    }

    /// Each group with each domain that requests to it are counted in, once.
    pub(crate) fn groups_by_domain(&self) -> Vec<(&str, &UpstreamGroup)> {
        let mut found: Vec<(&str, &UpstreamGroup)> = Vec::new();
        for route in &self.routes {
            let (domain, group) = (route.admission.mapping().domain(), &*route.group);
            if !found.iter().any(|other| other.0 == domain && std::ptr::eq(other.1, group)) {
                found.push((domain, group));
            }
        }
        found
    }

    fn group(&self, name: &str) -> Option<&UpstreamGroup> {
        self.routes.iter().map(|route| &*route.group).find(|group| group.config().name == name)
    }
}
