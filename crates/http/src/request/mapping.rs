//! Which facts about a request become which entries.
//!
//! An operator writes descriptors as lists of [`Action`]s; for a request each
//! list becomes a descriptor, or nothing where a fact is absent. Then the rules
//! decide which limits it meets.
//!
//! Invariants: as in Envoy, an action whose value is absent drops its
//! descriptor, unless it may be left out; descriptors stay in order. An address
//! is looked for and a token verified once per request at most.
//!
//! Deliberately not here: settings files; what the descriptors are limited to.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderName;
use smallvec::SmallVec;
use tollgate_core::{Descriptor, Entry, Request};

use crate::error::Error;
use crate::request::address::{AddressPrefixes, ClientAddress};
use crate::request::facts::HttpRequestFacts;
use crate::request::path::PathTemplates;
use crate::request::token::{Claims, TokenSource, TokenVerifier};
use crate::request::{cookie, query, value};

/// The most descriptors. Each is a lookup per request.
pub const DESCRIPTORS_MAX: usize = 64;

/// The most actions of a descriptor; rules nest no deeper.
pub const ACTIONS_MAX: usize = tollgate_core::ruleset::DEPTH_MAX;

/// So many entries and descriptors fit without an allocation.
const ENTRIES_USUAL: usize = 8;
const DESCRIPTORS_USUAL: usize = 4;

/// One entry of a descriptor: a key, and where its value comes from.
#[derive(Debug, Clone)]
pub struct Action {
    /// The entry's key.
    pub key: String,
    /// Where its value comes from.
    pub fact: Fact,
    /// Where the value is absent, leave out this entry and not the whole descriptor.
    pub skip_if_absent: bool,
}

/// Where a value comes from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Fact {
    /// The client's address.
    RemoteAddress(AddressPrefixes),
    /// The first header of that name.
    Header(HeaderName),
    /// Path and query as they were sent; Envoy calls it the header `:path`.
    Target,
    /// The host that was asked for; Envoy calls it the header `:authority`.
    Host,
    /// The method.
    Method,
    /// The path, by template.
    Path(PathTemplates),
    /// The first parameter of that name in the query.
    Query(String),
    /// The first cookie of that name.
    Cookie(String),
    /// Always the same.
    Text(String),
    /// A claim of a verified token, found by these names one within the other.
    Claim {
        /// The names.
        path: Vec<String>,
        /// Where the token is.
        source: TokenSource,
    },
}

impl Fact {
    /// A header by the name that Envoy knows it by.
    ///
    /// # Errors
    /// If the text is no name of a header.
    pub fn header(name: &str) -> Result<Self, Error> {
        match name.to_ascii_lowercase().as_str() {
            ":path" => Ok(Self::Target),
            ":method" => Ok(Self::Method),
            ":authority" => Ok(Self::Host),
            _ => HeaderName::try_from(name)
                .map(Self::Header)
                .map_err(|_| Error::HeaderName { text: name.to_owned() }),
        }
    }
}

impl Action {
    /// An entry of that key; where the fact is absent there is no descriptor.
    pub fn new(key: impl Into<String>, fact: Fact) -> Self {
        Self { key: key.into(), fact, skip_if_absent: false }
    }

    /// The same; where the fact is absent only this entry is left out.
    #[must_use]
    pub fn or_skip(mut self) -> Self {
        self.skip_if_absent = true;
        self
    }
}

/// Which facts about a request become which entries.
///
/// ```
/// use http::HeaderMap;
/// use tollgate_core::Time;
/// use tollgate_http::{Action, ClientAddress, Fact, HttpRequestFacts, Mapping, PathTemplates, AddressPrefixes};
///
/// let by_address = vec![Action::new("remote_address", Fact::RemoteAddress(AddressPrefixes::default()))];
/// let by_key = vec![
///     Action::new("api_key", Fact::header("x-api-key")?),
///     Action::new("path", Fact::Path(PathTemplates::new(&["/users/{id}"])?)),
/// ];
/// let mapping = Mapping::new("shop", vec![by_address, by_key])?.with_proxies(ClientAddress::default());
///
/// let mut headers = HeaderMap::new();
/// headers.insert("x-api-key", "k1".parse()?);
/// let facts = HttpRequestFacts {
///     peer: "203.0.113.9".parse().ok(),
///     method: "GET",
///     target: b"/users/42",
///     host: None,
///     headers: &headers,
///     now: Time::default(),
/// };
/// mapping.map(&facts).with_request(|request| {
///     assert_eq!(request.domain, "shop");
///     let [address, key] = request.descriptors else { panic!("there are two") };
///     assert_eq!(address.entries, [("remote_address", "203.0.113.9").into()]);
///     assert_eq!(key.entries, [("api_key", "k1").into(), ("path", "/users/{id}").into()]);
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Mapping {
    domain: String,
    descriptors: Vec<Vec<Action>>,
    proxies: ClientAddress,
    tokens: Option<Arc<TokenVerifier>>,
}

impl Mapping {
    /// A mapping that trusts no proxy and knows no keys.
    ///
    /// # Errors
    /// If a text is empty, or there is too much of anything.
    pub fn new(domain: impl Into<String>, descriptors: Vec<Vec<Action>>) -> Result<Self, Error> {
        let domain = domain.into();
        let too_many =
            |what, count, max| if count > max { Err(Error::TooMany { what, count, max }) } else { Ok(()) };
        too_many("descriptors", descriptors.len(), DESCRIPTORS_MAX)?;
        if domain.is_empty() {
            return Err(Error::Empty { what: "the domain" });
        }
        for actions in &descriptors {
            too_many("actions", actions.len(), ACTIONS_MAX)?;
            if actions.is_empty() {
                return Err(Error::Empty { what: "a list of actions" });
            }
            if actions.iter().any(|action| action.key.is_empty()) {
                return Err(Error::Empty { what: "a descriptor_key" });
            }
        }
        Ok(Self { domain, descriptors, proxies: ClientAddress::default(), tokens: None })
    }

    /// The same, believing these proxies.
    #[must_use]
    pub fn with_proxies(mut self, proxies: ClientAddress) -> Self {
        self.proxies = proxies;
        self
    }

    /// The same, verifying tokens; without this no token is valid.
    #[must_use]
    pub fn with_tokens(mut self, tokens: Arc<TokenVerifier>) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// The proxies that are believed.
    pub const fn proxies(&self) -> &ClientAddress {
        &self.proxies
    }

    /// The group of rules that it is for.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The templates of the first entry that is a path, for whoever wants the
    /// same name for the same page.
    pub fn paths(&self) -> Option<&PathTemplates> {
        self.descriptors.iter().flatten().find_map(|action| match &action.fact {
            Fact::Path(paths) => Some(paths),
            Fact::RemoteAddress(_)
            | Fact::Header(_)
            | Fact::Target
            | Fact::Host
            | Fact::Method
            | Fact::Query(_)
            | Fact::Cookie(_)
            | Fact::Text(_)
            | Fact::Claim { .. } => None,
        })
    }

    /// What a request becomes.
    pub fn map<'a>(&'a self, facts: &HttpRequestFacts<'a>) -> MappedRequest<'a> {
        let mut looking = FactLookup { mapping: self, facts, address: None, claims: SmallVec::new() };
        let mut mapped =
            MappedRequest { domain: &self.domain, entries: SmallVec::new(), ends: SmallVec::new() };
        for actions in &self.descriptors {
            let start = mapped.entries.len();
            let is_whole = actions.iter().all(|action| match looking.value(&action.fact) {
                Some(value) => {
                    mapped.entries.push((&action.key, value::bound(value)));
                    true
                }
                None => action.skip_if_absent,
            });
            if is_whole && mapped.entries.len() > start {
                mapped.ends.push(mapped.entries.len());
            } else {
                mapped.entries.truncate(start);
            }
        }
        mapped
    }
}

/// One request being looked at, and what was found out about it already.
struct FactLookup<'f, 'a> {
    mapping: &'a Mapping,
    facts: &'f HttpRequestFacts<'a>,
    address: Option<IpAddr>,
    claims: SmallVec<[(&'a TokenSource, Option<Claims>); 1]>,
}

impl<'a> FactLookup<'_, 'a> {
    fn value(&mut self, fact: &'a Fact) -> Option<Cow<'a, str>> {
        let facts = self.facts;
        match fact {
            Fact::RemoteAddress(prefixes) => Some(Cow::Owned(prefixes.shown(self.address()?))),
            Fact::Header(name) => facts.header(name).map(value::text),
            Fact::Target => Some(value::text(facts.target)),
            Fact::Host => facts.host.map(Cow::Borrowed),
            Fact::Method => Some(Cow::Borrowed(facts.method)),
            Fact::Path(paths) => Some(paths.value(facts.path())),
            Fact::Query(name) => query::find(facts.query()?, name),
            Fact::Cookie(name) => cookie::find(facts.headers, name).map(value::text),
            Fact::Text(text) => Some(Cow::Borrowed(text)),
            Fact::Claim { path, source } => {
                self.claims(source)?.text(path).map(|text| Cow::Owned(text.into_owned()))
            }
        }
    }

    fn address(&mut self) -> Option<IpAddr> {
        if self.address.is_none() {
            let HttpRequestFacts { peer, headers, .. } = self.facts;
            self.address = peer.map(|peer| self.mapping.proxies.find(peer, headers));
        }
        self.address
    }

    fn claims(&mut self, source: &'a TokenSource) -> Option<&Claims> {
        if let Some(known) = self.claims.iter().position(|(own, _)| *own == source) {
            return self.claims.get(known)?.1.as_ref();
        }
        let tokens = self.mapping.tokens.as_ref()?;
        let found = source.find(self.facts.headers);
        let claims = found.and_then(|token| tokens.verify(token, self.facts.now).ok());
        self.claims.push((source, claims));
        self.claims.last()?.1.as_ref()
    }
}

/// What a request became.
#[derive(Debug, Clone)]
pub struct MappedRequest<'a> {
    domain: &'a str,
    entries: SmallVec<[(&'a str, Cow<'a, str>); ENTRIES_USUAL]>,
    /// Where each descriptor's entries end.
    ends: SmallVec<[usize; DESCRIPTORS_USUAL]>,
}

impl MappedRequest<'_> {
    /// Whether there is nothing to ask about.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The entries of all descriptors, for [`MappedRequest::descriptors`].
    pub fn entries(&self) -> SmallVec<[Entry<'_>; ENTRIES_USUAL]> {
        self.entries.iter().map(|(key, value)| Entry { key, value }).collect()
    }

    /// The descriptors, made of what [`MappedRequest::entries`] gave, for [`MappedRequest::request`].
    pub fn descriptors<'e>(&self, entries: &'e [Entry<'e>]) -> SmallVec<[Descriptor<'e>; DESCRIPTORS_USUAL]> {
        let mut start = 0;
        let descriptor = |end: &usize| {
            let own = entries.get(start..*end).unwrap_or_default();
            start = *end;
            Descriptor::new(own)
        };
        self.ends.iter().map(descriptor).collect()
    }

    /// The request of cost 1, made of what [`MappedRequest::descriptors`] gave.
    pub const fn request<'d>(&'d self, descriptors: &'d [Descriptor<'d>]) -> Request<'d> {
        Request::new(self.domain, descriptors)
    }

    /// Does something with it as a request of cost 1.
    pub fn with_request<R>(&self, act: impl FnOnce(&Request<'_>) -> R) -> R {
        let entries = self.entries();
        let descriptors = self.descriptors(&entries);
        act(&self.request(&descriptors))
    }
}
