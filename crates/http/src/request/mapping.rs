//! Which facts about a request become which entries.
//!
//! An operator writes descriptors as lists of [`Action`]s; for a request each list becomes a
//! descriptor, or nothing where a fact is absent. Then the rules decide which limits it meets.
//!
//! Invariants: as in Envoy, an action whose value is absent drops its descriptor, unless the
//! operator says otherwise ([`MissingValue`]); descriptors stay in order. An address is looked for
//! and a token verified once per request at most.
//!
//! Deliberately not here: settings files; what the descriptors are limited to.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderName;
use smallvec::SmallVec;
use tollgate_core::{Descriptor, Entry, Operation, Request, Time};

use crate::error::Error;
use crate::request::address::{AddressPrefixes, ClientAddress};
use crate::request::charge_terms::{ActiveTerms, ChargeTerms};
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
    /// What becomes of a request without it.
    pub missing: MissingValue,
    /// Its values may be read in the history; otherwise they are hashed there.
    pub show: bool,
}

/// What becomes of a request in which a value is absent; for [`Self::Key`] and
/// [`Self::Deny`] an empty one is absent, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MissingValue {
    /// There is no such descriptor, as in Envoy: whoever leaves the value out is
    /// not limited by it.
    #[default]
    Drop,
    /// The entry is left out.
    Skip,
    /// The value is [`MISSING`], so that all such requests share a counter.
    Key,
    /// The request is denied.
    Deny,
}

/// The value that stands for an absent one.
pub const MISSING: &str = "(missing)";

/// Why a mapping denies a request before any limit is asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MappingDenial {
    /// It lacks a value.
    #[error("{what}")]
    Missing {
        /// Which one is missing.
        what: String,
    },
    /// Its path can be read in two ways.
    #[error("the path has an escaped slash")]
    EscapedSlash,
}

impl MappingDenial {
    /// The status to answer with.
    pub const fn status(&self) -> u16 {
        match self {
            Self::Missing { .. } => 403,
            Self::EscapedSlash => 400,
        }
    }

    /// What the caller can do about it.
    pub const fn fix(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "send it with the request",
            Self::EscapedSlash => "send the path with plain slashes",
        }
    }
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
    /// The host that was asked for; Envoy calls it the header `:authority`, or `host`.
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
            // Envoy knows both names, too; the field alone may be absent or say less than the URI.
            ":authority" | "host" => Ok(Self::Host),
            _ => HeaderName::try_from(name)
                .map(Self::Header)
                .map_err(|_| Error::HeaderName { text: name.to_owned() }),
        }
    }

    /// Whether clients put keys, passwords and sessions there.
    const fn may_be_secret(&self) -> bool {
        match self {
            Self::Header(_) | Self::Target | Self::Query(_) | Self::Cookie(_) => true,
            Self::RemoteAddress(_)
            | Self::Host
            | Self::Method
            | Self::Path(_)
            | Self::Text(_)
            | Self::Claim { .. } => false,
        }
    }

    /// What to say where it is absent.
    fn absence(&self) -> String {
        match self {
            Self::RemoteAddress(_) => "the client's address is not known".to_owned(),
            Self::Header(name) => format!("the header {name} is missing"),
            Self::Host => "the host is missing".to_owned(),
            Self::Query(name) => format!("the query parameter {name} is missing"),
            Self::Cookie(name) => format!("the cookie {name} is missing"),
            Self::Claim { path, .. } => {
                format!("there is no valid token with the claim {}", path.join("."))
            }
            Self::Target | Self::Method | Self::Path(_) | Self::Text(_) => "a value is missing".to_owned(),
        }
    }
}

impl Action {
    /// An entry of that key; where the fact is absent there is no descriptor,
    /// and what may be a secret is hashed in the history.
    pub fn new(key: impl Into<String>, fact: Fact) -> Self {
        let show = !fact.may_be_secret();
        Self { key: key.into(), fact, missing: MissingValue::Drop, show }
    }

    /// The same; this becomes of a request in which the fact is absent.
    #[must_use]
    pub fn or(mut self, missing: MissingValue) -> Self {
        self.missing = missing;
        self
    }
}

/// What becomes a descriptor, and when that is charged.
#[derive(Debug, Clone)]
pub struct MappingDescriptor {
    actions: Vec<Action>,
    terms: Arc<ActiveTerms>,
}

impl MappingDescriptor {
    /// A descriptor of these entries, charged on these terms.
    pub fn new(actions: Vec<Action>, terms: ChargeTerms) -> Self {
        Self { actions, terms: Arc::new(ActiveTerms::new(terms)) }
    }

    /// Where its entries come from.
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }
}

/// One that is charged at once.
impl From<Vec<Action>> for MappingDescriptor {
    fn from(actions: Vec<Action>) -> Self {
        Self::new(actions, ChargeTerms::AtOnce)
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
///     peer_name: None,
///     method: "GET",
///     target: b"/users/42",
///     host: None,
///     headers: (&headers).into(),
/// };
/// mapping.map(&facts, Time::default())?.with_request(|request| {
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
    descriptors: Vec<MappingDescriptor>,
    proxies: ClientAddress,
    tokens: Option<Arc<TokenVerifier>>,
}

impl Mapping {
    /// A mapping that trusts no proxy and knows no keys.
    ///
    /// # Errors
    /// If a text is empty, or there is too much of anything.
    pub fn new(
        domain: impl Into<String>,
        descriptors: Vec<impl Into<MappingDescriptor>>,
    ) -> Result<Self, Error> {
        let domain = domain.into();
        let descriptors: Vec<MappingDescriptor> = descriptors.into_iter().map(Into::into).collect();
        let too_many =
            |what, count, max| if count > max { Err(Error::TooMany { what, count, max }) } else { Ok(()) };
        too_many("descriptors", descriptors.len(), DESCRIPTORS_MAX)?;
        if domain.is_empty() {
            return Err(Error::Empty { what: "the domain" });
        }
        for MappingDescriptor { actions, .. } in &descriptors {
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

    /// The same, charging everything when a request comes: for whoever sees no answers.
    #[must_use]
    pub fn charged_at_once(mut self) -> Self {
        for descriptor in &mut self.descriptors {
            descriptor.terms = Arc::default();
        }
        self
    }

    /// The same without descriptors whose first key nobody wants, for whoever knows the rules. Those that
    /// may deny a request by themselves stay.
    #[must_use]
    pub fn retain(mut self, is_wanted: impl Fn(&str) -> bool) -> Self {
        let may_deny = |action: &Action| {
            let denies_paths = matches!(&action.fact, Fact::Path(paths) if paths.denies(b"/%2F"));
            action.missing == MissingValue::Deny || denies_paths
        };
        self.descriptors.retain(|MappingDescriptor { actions, .. }| {
            // One that is left out where it is missing makes way for the next.
            let optional = actions.iter().take_while(|action| action.missing == MissingValue::Skip).count();
            actions.iter().take(optional + 1).any(|action| is_wanted(&action.key))
                || actions.iter().any(may_deny)
        });
        self
    }

    /// Whether answers have a say in what is charged.
    pub fn needs_responses(&self) -> bool {
        self.descriptors.iter().any(|descriptor| descriptor.terms.terms.need_response())
    }

    /// Whether bodies of answers say what is charged.
    pub fn reads_bodies(&self) -> bool {
        self.descriptors.iter().any(|descriptor| descriptor.terms.terms.read_body())
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
        self.actions().find_map(|action| match &action.fact {
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

    /// The keys whose values must not be read in the history.
    pub fn hidden_keys(&self) -> impl Iterator<Item = &str> {
        self.actions().filter(|action| !action.show).map(|action| action.key.as_str())
    }

    fn actions(&self) -> impl Iterator<Item = &Action> {
        self.descriptors.iter().flat_map(|descriptor| &descriptor.actions)
    }

    /// Where its entries come from, for whoever wants to know what it depends on.
    pub fn facts(&self) -> impl Iterator<Item = &Fact> {
        self.actions().map(|action| &action.fact)
    }

    /// The headers that it reads, by lower-case name.
    pub fn header_names(&self) -> Vec<HeaderName> {
        let mut names = self.proxies.header_names();
        names.extend(self.actions().filter_map(|action| match &action.fact {
            Fact::Header(name) | Fact::Claim { source: TokenSource::Header { name, .. }, .. } => {
                Some(name.clone())
            }
            Fact::Cookie(_) | Fact::Claim { source: TokenSource::Cookie { .. }, .. } => {
                Some(http::header::COOKIE)
            }
            Fact::RemoteAddress(_)
            | Fact::Target
            | Fact::Host
            | Fact::Method
            | Fact::Path(_)
            | Fact::Query(_)
            | Fact::Text(_) => None,
        }));
        names
    }

    /// Whether it can tell valid tokens.
    pub const fn verifies_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// What a request becomes; tokens run out by `calendar`.
    ///
    /// # Errors
    /// If the operator wants such requests denied.
    pub fn map<'a>(
        &'a self,
        facts: &HttpRequestFacts<'a>,
        calendar: Time,
    ) -> Result<MappedRequest<'a>, MappingDenial> {
        let mut mapped = MappedRequest::default();
        self.map_into(&mut mapped, facts, calendar)?;
        Ok(mapped)
    }

    /// The same, put into what is empty: it is large, and not copied for every request.
    pub(crate) fn map_into<'a>(
        &'a self,
        mapped: &mut MappedRequest<'a>,
        facts: &HttpRequestFacts<'a>,
        calendar: Time,
    ) -> Result<(), MappingDenial> {
        let mut lookup =
            FactLookup { mapping: self, facts, calendar, address: None, claims: SmallVec::new() };
        mapped.domain = &self.domain;
        for MappingDescriptor { actions, terms } in &self.descriptors {
            let start = mapped.entries.len();
            let mut is_whole = true;
            for action in actions {
                // What is demanded is demanded even where the descriptor is dropped.
                if !is_whole && action.missing != MissingValue::Deny {
                    continue;
                }
                // Nobody is told apart by an empty value, so that it is as good as none.
                let is_wanted = matches!(action.missing, MissingValue::Key | MissingValue::Deny);
                let found = lookup.value(&action.fact)?;
                let found = found.filter(|value| !is_wanted || !value.trim().is_empty());
                let value = match (found, action.missing) {
                    (Some(value), _) => value::bound(value),
                    (None, MissingValue::Key) => Cow::Borrowed(MISSING),
                    (None, MissingValue::Skip) => continue,
                    (None, MissingValue::Drop) => {
                        is_whole = false;
                        continue;
                    }
                    (None, MissingValue::Deny) => {
                        return Err(MappingDenial::Missing { what: action.fact.absence() });
                    }
                };
                mapped.entries.push((&action.key, value));
            }
            if is_whole && mapped.entries.len() > start {
                mapped.ends.push((mapped.entries.len(), terms));
            } else {
                mapped.entries.truncate(start);
            }
        }
        Ok(())
    }
}

/// One request being looked at, and what was found out about it already.
struct FactLookup<'f, 'a> {
    mapping: &'a Mapping,
    facts: &'f HttpRequestFacts<'a>,
    calendar: Time,
    address: Option<IpAddr>,
    claims: SmallVec<[(&'a TokenSource, Option<Claims>); 1]>,
}

impl<'a> FactLookup<'_, 'a> {
    fn value(&mut self, fact: &'a Fact) -> Result<Option<Cow<'a, str>>, MappingDenial> {
        if let Fact::Path(paths) = fact
            && paths.denies(self.facts.path())
        {
            return Err(MappingDenial::EscapedSlash);
        }
        Ok(self.found(fact))
    }

    fn found(&mut self, fact: &'a Fact) -> Option<Cow<'a, str>> {
        let facts = self.facts;
        match fact {
            Fact::RemoteAddress(prefixes) => match self.address() {
                Some(address) => Some(Cow::Owned(prefixes.shown(address))),
                None => facts.peer_name.map(Cow::Borrowed),
            },
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
            self.address = peer.map(|peer| self.mapping.proxies.find(peer, *headers));
        }
        self.address
    }

    fn claims(&mut self, source: &'a TokenSource) -> Option<&Claims> {
        if let Some(known) = self.claims.iter().position(|(own, _)| *own == source) {
            return self.claims.get(known)?.1.as_ref();
        }
        let tokens = self.mapping.tokens.as_ref()?;
        let found = source.find(self.facts.headers);
        let claims = found.and_then(|token| tokens.verify(token, self.calendar).ok());
        self.claims.push((source, claims));
        self.claims.last()?.1.as_ref()
    }
}

/// The entries of a request; usually they need no allocation.
pub type MappedEntries<'e> = SmallVec<[Entry<'e>; ENTRIES_USUAL]>;
/// Its descriptors.
pub type MappedDescriptors<'e> = SmallVec<[Descriptor<'e>; DESCRIPTORS_USUAL]>;

/// What a request became.
#[derive(Debug, Clone, Default)]
pub struct MappedRequest<'a> {
    domain: &'a str,
    entries: SmallVec<[(&'a str, Cow<'a, str>); ENTRIES_USUAL]>,
    /// Where each descriptor's entries end, and how it is charged.
    ends: SmallVec<[(usize, &'a Arc<ActiveTerms>); DESCRIPTORS_USUAL]>,
}

impl MappedRequest<'_> {
    /// Whether there is nothing to ask about.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Keys and values in their order. Where a descriptor ends with them: whether it is charged in the
    /// end, if the answer has this status.
    pub fn parts(&self, status: Option<u16>) -> impl Iterator<Item = (&str, &str, Option<bool>)> {
        let parts = self.entries.iter().zip(1_usize..);
        parts.map(move |((key, value), end)| {
            let ended = self.ends.iter().find(|(own, _)| *own == end);
            (*key, &**value, ended.map(|(_, active)| active.terms.charge(status)))
        })
    }

    /// Appends the entries of all descriptors, for [`MappedRequest::descriptors`]. Both put what is large
    /// where it is wanted: to return it would be to copy it, for every request.
    pub fn entries<'e>(&'e self, entries: &mut MappedEntries<'e>) {
        for (key, value) in &self.entries {
            entries.push(Entry { key, value });
        }
    }

    /// Appends the descriptors, made of what [`MappedRequest::entries`] gave, for [`MappedRequest::request`].
    pub fn descriptors<'e>(&self, entries: &'e [Entry<'e>], descriptors: &mut MappedDescriptors<'e>) {
        let mut start = 0;
        for (end, terms) in &self.ends {
            let own = entries.get(start..*end).unwrap_or_default();
            start = *end;
            descriptors.push(match terms.terms.take_at_once() {
                true => Descriptor::new(own),
                false => Descriptor::new(own).with_operation(Operation::Peek),
            });
        }
    }

    /// Whether the answer has a say in what is charged.
    pub(crate) fn needs_response(&self) -> bool {
        self.ends.iter().any(|(_, terms)| terms.terms.need_response())
    }

    /// How each descriptor is charged.
    pub(crate) fn terms(&self) -> impl Iterator<Item = Arc<ActiveTerms>> {
        self.ends.iter().map(|(_, terms)| Arc::clone(terms))
    }

    /// The request of cost 1, made of what [`MappedRequest::descriptors`] gave.
    pub const fn request<'d>(&'d self, descriptors: &'d [Descriptor<'d>]) -> Request<'d> {
        Request::new(self.domain, descriptors)
    }

    /// Does something with it as a request of cost 1.
    pub fn with_request<R>(&self, act: impl FnOnce(&Request<'_>) -> R) -> R {
        let (mut entries, mut descriptors) = (MappedEntries::new(), MappedDescriptors::new());
        self.entries(&mut entries);
        self.descriptors(&entries, &mut descriptors);
        act(&self.request(&descriptors))
    }
}
