//! A line → its descriptors, made once for all lines that are alike.
//!
//! `reader.rs` parses lines and asks here what they become; a [`Batch`] keeps it.
//!
//! This is why a replay is fast. A mapping and a rule set look at a few fields of a line, often at the
//! address alone. Those fields, as they stand in the log, are the key of a table: the first line with
//! them is mapped and its descriptors are looked up in the rules, and all others of the same piece take
//! what was found for it. So are routes, whose key is the path as it was sent. What is left to do for
//! most lines is to find the ends of their fields, hash two of them, and read the seconds of the time.
//!
//! Invariant: lines that have the same in all [`LineField`]s have the same descriptors. So nothing is
//! remembered where the mapping verifies tokens, which run out.
//!
//! Deliberately not here: what a mapping says, and what is decided.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate_accesslog::LogLine;
use tollgate_core::ruleset::{Found, Free};
use tollgate_core::{Descriptor, Entry, Operation, Request, RuleSet, Time};
use tollgate_http::{Fact, HttpRequestFacts, Mapping, PathTemplates};
use tollgate_limiter::MemoryStore;

use crate::batch::Batch;
use crate::name::{NameHasher, NameIndex};
use crate::single_charge::SingleCharge;

/// What lines become, the same for all logs.
#[derive(Debug)]
pub(crate) struct LineMapping<'r> {
    mapping: Mapping,
    paths: PathTemplates,
    /// Descriptors that none of these has a rule for are left out: they change no verdict.
    rules: Vec<&'r RuleSet>,
    /// Where the first of them decide.
    store: &'r MemoryStore,
    /// What descriptors depend on; none if on the time, too.
    fields: Option<Vec<LineField>>,
    /// The headers that the mapping reads.
    headers: Vec<HeaderName>,
    pub(crate) hasher: NameHasher,
}

/// A field of a line that descriptors depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineField {
    Address,
    Method,
    Target,
    Host,
    Headers,
    /// It has a say in what is charged.
    Status,
}

impl<'r> LineMapping<'r> {
    /// What lines become by a mapping, for these rules, the first of which decide in `store`.
    pub(crate) fn new(mapping: &Mapping, rules: Vec<&'r RuleSet>, store: &'r MemoryStore) -> Self {
        let paths = mapping.paths().cloned().unwrap_or_else(PathTemplates::default);
        let domain = mapping.domain();
        // What no rule can match need not be made.
        let may_match =
            |key: &str| rules.iter().any(|rules| rules.has_key(domain, key) || rules.has_lists(domain));
        let mapping = mapping.clone().retain(may_match);
        let headers = mapping.header_names();
        let fields = (!mapping.verifies_tokens()).then(|| fields(&mapping));
        Self { mapping, paths, rules, store, fields, headers, hasher: NameHasher::default() }
    }

    /// Whether it reads that header.
    pub(crate) fn wants_header(&self, name: &str) -> bool {
        self.headers.iter().any(|wanted| wanted == name)
    }

    /// What tells lines apart, written into `key`; false if no two lines are alike.
    fn write_key(&self, line: &LogLine<'_>, key: &mut Vec<u8>) -> bool {
        let Some(fields) = &self.fields else { return false };
        key.clear();
        // With its length before it, no field can be taken for a part of the one before.
        let mut put = |bytes: &[u8]| {
            key.extend_from_slice(&bytes.len().to_le_bytes());
            key.extend_from_slice(bytes);
        };
        for field in fields {
            match field {
                LineField::Address => put(line.address.as_deref().unwrap_or_default().as_bytes()),
                LineField::Method => put(line.method.as_bytes()),
                LineField::Target => put(&line.target),
                LineField::Host => {
                    put(if line.host.is_some() { b"1" } else { b"" });
                    put(line.host.as_deref().unwrap_or_default().as_bytes());
                }
                LineField::Headers => {
                    for (name, value) in line.headers.iter().filter(|(name, _)| self.wants_header(name)) {
                        put(name.as_bytes());
                        put(value);
                    }
                }
                LineField::Status => put(&line.status.unwrap_or_default().to_le_bytes()),
            }
        }
        true
    }

    fn read_headers(&self, line: &LogLine<'_>, headers: &mut HeaderMap) {
        headers.clear();
        for (name, value) in line.headers.iter().filter(|(name, _)| self.wants_header(name)) {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(&**name), HeaderValue::from_bytes(value)) {
                headers.append(name, value);
            }
        }
    }

    /// The one limit that the requests of a group meet.
    fn single(&self, batch: &Batch, group: usize) -> Option<SingleCharge> {
        let Self { mapping, rules, store, .. } = self;
        let entries = batch.entries(group);
        let descriptors = batch.descriptors(group, &entries);
        SingleCharge::find(rules.first()?, store, &Request::new(mapping.domain(), &descriptors))
    }

    /// Whether a rule says anything about a descriptor: limits it, or lets it pass in place of others.
    fn has_rule(&self, entries: &[Entry<'_>]) -> bool {
        let descriptors = [Descriptor::new(entries)];
        let request = Request::new(self.mapping.domain(), &descriptors);
        let mut has_rule = false;
        for rules in &self.rules {
            rules.charges(&request, Operation::Check, |found| {
                has_rule |= !matches!(found, Found::Free { why: Free::NoRule | Free::UnknownDomain, .. });
            });
        }
        has_rule
    }
}

/// What the descriptors of a mapping depend on.
fn fields(mapping: &Mapping) -> Vec<LineField> {
    let mut fields = Vec::new();
    for fact in mapping.facts() {
        match fact {
            Fact::RemoteAddress(_) => fields.push(LineField::Address),
            Fact::Method => fields.push(LineField::Method),
            Fact::Target | Fact::Path(_) | Fact::Query(_) => fields.push(LineField::Target),
            Fact::Host => fields.push(LineField::Host),
            // Headers are seen to below.
            Fact::Header(_) | Fact::Cookie(_) | Fact::Claim { .. } | Fact::Text(_) => {}
            // One that is not known here may depend on anything.
            _ => return LineField::ALL.to_vec(),
        }
    }
    if !mapping.header_names().is_empty() {
        fields.push(LineField::Headers);
    }
    if mapping.needs_responses() {
        fields.push(LineField::Status);
    }
    LineField::ALL.into_iter().filter(|field| fields.contains(field)).collect()
}

impl LineField {
    const ALL: [Self; 6] =
        [Self::Address, Self::Method, Self::Target, Self::Host, Self::Headers, Self::Status];
}

/// Maps the lines of one piece of a log.
pub(crate) struct LineMapper<'m> {
    line_mapping: &'m LineMapping<'m>,
    routes: NameIndex,
    groups: NameIndex,
    /// The key of the line at hand; kept for its memory, as the headers are.
    key: Vec<u8>,
    headers: HeaderMap,
}

impl<'m> LineMapper<'m> {
    pub(crate) fn new(line_mapping: &'m LineMapping<'m>) -> Self {
        let index = || NameIndex::new(line_mapping.hasher.clone());
        Self { line_mapping, routes: index(), groups: index(), key: Vec::new(), headers: HeaderMap::new() }
    }

    /// The places of a line's route and descriptors in the batch.
    pub(crate) fn map(&mut self, line: &LogLine<'_>, time: Time, batch: &mut Batch) -> (usize, usize) {
        let Self { line_mapping, routes, groups, key, headers } = self;
        // The query is no part of a route.
        let end = memchr::memchr2(b'?', b'#', &line.target).unwrap_or(line.target.len());
        let sent = line.target.get(..end).unwrap_or_default();
        let route = routes.find(sent, || {
            let facts = HttpRequestFacts { target: sent, ..facts(line, headers) };
            batch.add_route(&line_mapping.paths.value(facts.path()))
        });
        let is_remembered = line_mapping.write_key(line, key);
        let mut add_group = || {
            line_mapping.read_headers(line, headers);
            let mapped = line_mapping.mapping.map(&facts(line, headers), time).ok();
            let is_wanted = |entries: &[Entry<'_>]| line_mapping.has_rule(entries);
            let group = batch.add_group(mapped.as_ref(), line.status, is_wanted);
            let single = line_mapping.single(batch, group);
            batch.set_single(group, single);
            group
        };
        let group = if is_remembered { groups.find(key, add_group) } else { add_group() };
        (route, group)
    }
}

fn facts<'a>(line: &'a LogLine<'_>, headers: &'a HeaderMap) -> HttpRequestFacts<'a> {
    let address = line.address.as_deref();
    let peer = address.and_then(|address| address.parse::<IpAddr>().ok());
    HttpRequestFacts {
        peer,
        peer_name: address.filter(|_| peer.is_none()),
        method: &line.method,
        target: &line.target,
        host: line.host.as_deref(),
        headers: headers.into(),
    }
}
