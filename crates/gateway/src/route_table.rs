//! The routes in force.
//!
//! Made of a [`GatewayConfig`] at the start and at every reload. A request finds its [`Route`] here
//! and keeps it until it is answered, whatever is reloaded meanwhile.
//!
//! Invariant: routes are tried in the order in which they are written, and the first that fits is
//! taken. Nobody has to know which of two is the more specific.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_http::{AdmissionControl, Mapping};

use crate::config::{GatewayConfig, GatewayTimeouts};
use crate::forward::UpstreamGroup;
use crate::route::{RouteConditions, RouteQuery};

/// Where some requests go, and how they are limited.
#[derive(Debug)]
pub(crate) struct Route {
    conditions: RouteConditions,
    pub(crate) group: Arc<UpstreamGroup>,
    pub(crate) admission: AdmissionControl,
    pub(crate) timeouts: GatewayTimeouts,
}

/// The routes in force.
#[derive(Debug)]
pub(crate) struct RouteTable(Vec<Arc<Route>>);

impl RouteTable {
    /// Routes without a mapping of their own get `mapping`.
    pub(crate) fn new(config: &GatewayConfig, mapping: &Mapping) -> Self {
        let mut groups: HashMap<&str, Arc<UpstreamGroup>> = HashMap::new();
        let admission = AdmissionControl::new(mapping.clone(), config.max_wait);
        let mut routes = Vec::with_capacity(config.routes.len());
        for route in &config.routes {
            let group = groups.entry(&route.group.name);
            let group = group.or_insert_with(|| Arc::new(UpstreamGroup::new(&route.group)));
            routes.push(Arc::new(Route {
                conditions: route.conditions.clone(),
                group: Arc::clone(group),
                admission: match &route.mapping {
                    Some(own) => admission.clone().with_mapping(own.clone()),
                    None => admission.clone(),
                }
                .counted_by(route.conditions.paths.clone()),
                timeouts: route.timeouts,
            }));
        }
        Self(routes)
    }

    /// The route of a request, if there is one.
    pub(crate) fn find(&self, query: &RouteQuery<'_>) -> Option<Arc<Route>> {
        self.0.iter().find(|route| route.conditions.fit(query)).cloned()
    }
}
