//! Lists of networks, values and patterns, for those whom a rule lets pass or denies whatever is counted.
//!
//! A rule file says which values are on a list; [`crate::RuleSet::charges`] asks before anything
//! is charged.
//!
//! Invariant: asking takes the same time however many networks and values there are: networks of
//! one list either lie in each other or apart, so the outermost of them, sorted, are searched by
//! halves. Patterns are found by what they begin with, as in the rule tree.
//!
//! Deliberately not here: a trie. The lists are built once and only asked whether they hold a
//! value, and a sorted vector answers that in fewer steps and without a dependency.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use crate::pattern::Pattern;

/// The most patterns of a list: those that begin with `*` are tried one after the other.
pub const PATTERNS_MAX: usize = 1_000;

/// One item of a list: a value, under one key or under any.
///
/// ```
/// use tollgate_core::list::{ExceptionList, ListItem};
/// let office = ListItem { key: None, value: "10.0.0.0/8".parse()? };
/// let list = ExceptionList::new(vec![office]);
/// assert!(list.contains("remote_address", "10.1.2.3"));
/// assert!(!list.contains("remote_address", "192.0.2.1"));
/// # Ok::<(), tollgate_core::list::ListError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ListItem {
    /// The key of the entries that it is about; none for all.
    pub key: Option<String>,
    /// What their value is.
    pub value: ListValue,
}

/// What an item of a list matches.
///
/// ```
/// use tollgate_core::list::ListValue;
/// assert!(matches!("192.0.2.1".parse()?, ListValue::Network(_)));
/// assert!(matches!("bot-*".parse()?, ListValue::Pattern(_)));
/// assert!(matches!("42".parse()?, ListValue::Exact(_)));
/// # Ok::<(), tollgate_core::list::ListError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListValue {
    /// An address, or all addresses of a network.
    Network(Network),
    /// A text with `*`.
    Pattern(String),
    /// This text.
    Exact(String),
}

/// The addresses that begin with the same bits.
///
/// ```
/// use tollgate_core::list::{ListValue, Network};
/// let parse = |text: &str| match text.parse() { Ok(ListValue::Network(net)) => net, _ => panic!() };
/// assert_eq!(parse("::ffff:10.0.0.0/104"), parse("10.0.0.0/8"), "IPv4 in IPv6 is IPv4");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    is_v6: bool,
    first: u128,
    last: u128,
}

impl Network {
    /// The network of an address as texts write it, with or without a prefix length; none if it is
    /// no address, an error if it is one and the length does not go with it.
    fn parse(text: &str) -> Option<Result<Self, ListError>> {
        let (address, length) = match text.split_once('/') {
            None => (text, None),
            Some((address, length)) => (address, Some(length)),
        };
        let wrong = || ListError::Network { text: text.to_owned() };
        let Ok(address) = address.parse::<IpAddr>() else {
            // What can only have been meant as a network must not become a value that nobody has.
            let is_digits = |c: char| c.is_ascii_hexdigit() || c == '.' || c == ':';
            let is_meant = !address.is_empty()
                && address.contains(['.', ':'])
                && address.chars().all(is_digits)
                && length.is_some_and(|length| length.bytes().all(|byte| byte.is_ascii_digit()));
            return is_meant.then(|| Err(wrong()));
        };
        let bits: u32 = if address.is_ipv6() { 128 } else { 32 };
        let length = match length.map(str::parse::<u32>) {
            None => bits,
            Some(Ok(length)) if length <= bits => length,
            Some(_) => return Some(Err(wrong())),
        };
        let (number, bits, length) = match address.to_canonical() {
            IpAddr::V4(v4) if bits == 128 && length >= 96 => (u128::from(v4.to_bits()), 32, length - 96),
            IpAddr::V4(v4) if bits == 32 => (u128::from(v4.to_bits()), 32, length),
            IpAddr::V4(v4) => (v4.to_ipv6_mapped().to_bits(), 128, length),
            IpAddr::V6(v6) => (v6.to_bits(), 128, length),
        };
        let host = 1_u128.checked_shl(bits - length).map_or(u128::MAX, |size| size - 1);
        if number & host != 0 {
            return Some(Err(ListError::HostBits { text: text.to_owned(), length }));
        }
        Some(Ok(Self { is_v6: bits == 128, first: number, last: number | host }))
    }
}

impl FromStr for ListValue {
    type Err = ListError;

    fn from_str(text: &str) -> Result<Self, ListError> {
        match Network::parse(text) {
            Some(network) => network.map(Self::Network),
            None if text.is_empty() => Err(ListError::Empty),
            None if text.contains('*') => Ok(Self::Pattern(text.to_owned())),
            None => Ok(Self::Exact(text.to_owned())),
        }
    }
}

/// Who is let pass and who is denied, whatever is counted. Who is on both lists is denied.
///
/// ```
/// use tollgate_core::list::{ExceptionList, ExceptionLists, ListItem};
/// let item = |text: &str| ListItem { key: Some("user_id".into()), value: text.parse().unwrap() };
/// let allow = ExceptionList::new(vec![item("staff-*")]);
/// let deny = ExceptionList::new(vec![item("staff-mallory")]);
/// let lists = ExceptionLists { allow, deny };
/// assert!(lists.allow.contains("user_id", "staff-mallory"));
/// assert!(lists.deny.contains("user_id", "staff-mallory"), "and so she is denied");
/// ```
#[derive(Debug, Default)]
pub struct ExceptionLists {
    /// They meet no limit.
    pub allow: ExceptionList,
    /// They get nothing.
    pub deny: ExceptionList,
}

impl ExceptionLists {
    /// These lists to share; none if nobody is on either.
    pub fn shared(allow: Vec<ListItem>, deny: Vec<ListItem>) -> Option<Arc<Self>> {
        let is_empty = allow.is_empty() && deny.is_empty();
        (!is_empty)
            .then(|| Arc::new(Self { allow: ExceptionList::new(allow), deny: ExceptionList::new(deny) }))
    }
}

/// A list that entries can be on.
///
/// ```
/// use tollgate_core::list::ExceptionList;
/// assert!(!ExceptionList::default().contains("user_id", "42"));
/// ```
#[derive(Debug, Default)]
pub struct ExceptionList {
    any_key: ValueSet,
    by_key: HashMap<String, ValueSet>,
    fingerprint: u64,
}

impl ExceptionList {
    /// The list of these items.
    pub fn new(items: Vec<ListItem>) -> Self {
        let mut list = Self::default();
        for item in items {
            // In any order: a list that is sorted anew is the same list.
            list.fingerprint = list.fingerprint.wrapping_add(item.fingerprint());
            let ListItem { key, value } = item;
            let set = match key {
                None => &mut list.any_key,
                Some(key) => list.by_key.entry(key).or_default(),
            };
            set.insert(value);
        }
        list.any_key.sort();
        list.by_key.values_mut().for_each(ValueSet::sort);
        list
    }

    /// How many items it has; a network within another one is none of its own.
    pub fn size(&self) -> usize {
        std::iter::once(&self.any_key).chain(self.by_key.values()).map(ValueSet::size).sum()
    }

    /// Whether nobody is on it.
    pub fn is_empty(&self) -> bool {
        self.size() == 0
    }

    /// A number that is another one for a list with other items, for whoever looks whether it has changed.
    pub const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Whether an entry of this key and value is on it.
    pub fn contains(&self, key: &str, value: &str) -> bool {
        self.any_key.contains(value)
            || !self.by_key.is_empty() && self.by_key.get(key).is_some_and(|set| set.contains(value))
    }
}

/// Values of one key.
#[derive(Debug, Default)]
struct ValueSet {
    exact: HashSet<String>,
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
    /// By what they begin with.
    patterns: HashMap<String, Vec<Pattern>>,
    /// The lengths of what patterns begin with, each once.
    prefix_lengths: Vec<usize>,
}

impl ValueSet {
    fn insert(&mut self, value: ListValue) {
        match value {
            ListValue::Exact(text) => drop(self.exact.insert(text)),
            ListValue::Network(Network { is_v6: true, first, last }) => self.v6.push((first, last)),
            ListValue::Network(Network { first, last, .. }) => {
                self.v4.push((low_bits(first), low_bits(last)));
            }
            ListValue::Pattern(text) => {
                let Some(pattern) = Pattern::new(&text) else { return };
                let prefix = pattern.prefix().to_owned();
                if !self.prefix_lengths.contains(&prefix.len()) {
                    self.prefix_lengths.push(prefix.len());
                }
                self.patterns.entry(prefix).or_default().push(pattern);
            }
        }
    }

    fn size(&self) -> usize {
        let patterns: usize = self.patterns.values().map(Vec::len).sum();
        self.exact.len() + self.v4.len() + self.v6.len() + patterns
    }

    fn sort(&mut self) {
        keep_outermost(&mut self.v4);
        keep_outermost(&mut self.v6);
    }

    fn contains(&self, value: &str) -> bool {
        (!self.exact.is_empty() && self.exact.contains(value))
            || self.prefix_lengths.iter().any(|&length| self.has_pattern(value, length))
            || (!self.v4.is_empty() || !self.v6.is_empty()) && self.has_network(value)
    }

    fn has_pattern(&self, value: &str, length: usize) -> bool {
        let patterns = value.get(..length).and_then(|prefix| self.patterns.get(prefix));
        patterns.is_some_and(|patterns| patterns.iter().any(|pattern| pattern.matches(value)))
    }

    /// A value may be an address or, where callers are counted by prefix, a network: it is here if
    /// all of it is.
    fn has_network(&self, value: &str) -> bool {
        match Network::parse(value) {
            Some(Ok(Network { is_v6: true, first, last })) => covers(&self.v6, first, last),
            Some(Ok(Network { first, last, .. })) => covers(&self.v4, low_bits(first), low_bits(last)),
            Some(Err(_)) | None => false,
        }
    }
}

/// The number of an IPv4 address.
fn low_bits(number: u128) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Sorts networks and drops those that lie in others.
fn keep_outermost<T: Ord + Copy>(networks: &mut Vec<(T, T)>) {
    networks.sort_unstable_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1)));
    networks.dedup_by(|inner, outer| inner.1 <= outer.1);
    networks.shrink_to_fit();
}

fn covers<T: Ord + Copy>(networks: &[(T, T)], first: T, last: T) -> bool {
    let after = networks.partition_point(|network| network.0 <= first);
    networks.get(after.wrapping_sub(1)).is_some_and(|network| last <= network.1)
}

impl ListItem {
    /// FNV-1a of what it says, which is the same in every version and on every machine.
    fn fingerprint(&self) -> u64 {
        let key = self.key.as_deref().unwrap_or("*");
        let (kind, text, first, last) = match &self.value {
            ListValue::Exact(text) => (0_u8, text.as_str(), 0, 0),
            ListValue::Pattern(text) => (1, text.as_str(), 0, 0),
            ListValue::Network(Network { is_v6, first, last }) => (2 + u8::from(*is_v6), "", *first, *last),
        };
        let texts = key.bytes().chain([0, kind]).chain(text.bytes());
        let numbers = first.to_le_bytes().into_iter().chain(last.to_le_bytes());
        texts.chain(numbers).fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

/// `12 items 1f0c5a7be2d94c33`: how many there are, and a fingerprint of them.
impl fmt::Display for ExceptionList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.size();
        let items = if size == 1 { "item" } else { "items" };
        write!(f, "{size} {items} {:016x}", self.fingerprint)
    }
}

/// Why a text is no item of a list.
///
/// ```
/// use tollgate_core::list::ListValue;
/// let error = "10.0.0.1/8".parse::<ListValue>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "'10.0.0.1/8' has bits behind its first 8; write the first address of the network, or no length"
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListError {
    /// Nothing at all.
    Empty,
    /// A network that there is not.
    Network {
        /// As written.
        text: String,
    },
    /// An address inside of the network instead of its first.
    HostBits {
        /// As written.
        text: String,
        /// How many bits the network has.
        length: u32,
    },
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("an item of a list is empty; write a network, a value or a pattern"),
            Self::Network { text } => write!(
                f,
                "'{text}' is no network; write ADDRESS/LENGTH, with a length of at most 32, or 128 for IPv6"
            ),
            Self::HostBits { text, length } => write!(
                f,
                "'{text}' has bits behind its first {length}; \
                 write the first address of the network, or no length"
            ),
        }
    }
}

impl std::error::Error for ListError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: &[(Option<&str>, &str)]) -> ExceptionList {
        let item = |&(key, text): &(Option<&str>, &str)| ListItem {
            key: key.map(str::to_owned),
            value: text.parse().unwrap(),
        };
        ExceptionList::new(items.iter().map(item).collect())
    }

    #[test]
    fn a_network_has_its_addresses_and_no_others() {
        let list = list(&[
            (None, "10.0.0.0/8"),
            (None, "10.1.0.0/16"),
            (None, "192.0.2.0/31"),
            (None, "198.51.100.7"),
            (None, "2001:db8::/32"),
            (None, "fe80::1"),
        ]);
        assert_eq!(list.size(), 5, "one of the networks lies within another");
        let cases = [
            ("9.255.255.255", false),
            ("10.0.0.0", true),
            ("10.1.2.3", true),
            ("10.255.255.255", true),
            ("11.0.0.0", false),
            ("192.0.2.1", true),
            ("192.0.2.2", false),
            ("198.51.100.7", true),
            ("198.51.100.8", false),
            ("::ffff:10.0.0.1", true),
            ("2001:0db8:0:0::1", true),
            ("2001:db8:0:1::/64", true),
            ("2001::/16", false),
            ("2001:db9::", false),
            ("fe80::1", true),
            ("10.0.0.0/8", true),
            ("10.0.0.0/7", false),
            ("10.0.0.300", false),
            ("", false),
        ];
        for (value, is_in) in cases {
            assert_eq!(list.contains("remote_address", value), is_in, "{value}");
        }
    }

    #[test]
    fn the_whole_internet_is_a_network() {
        let all = list(&[(None, "0.0.0.0/0"), (None, "::/0")]);
        for value in ["0.0.0.0", "255.255.255.255", "::", "ffff:ffff::ffff", "::1/128"] {
            assert!(all.contains("a", value), "{value}");
        }
        assert!(!list(&[(None, "0.0.0.0/0")]).contains("a", "::1"));
    }

    #[test]
    fn any_networks_hold_what_one_by_one_they_hold() {
        // Every network of 3 bits on a line of 8 addresses, in all pairs and triples.
        let networks: Vec<(u32, u32)> = (0..=3)
            .flat_map(|bits| (0..8 >> bits).map(move |n| (n << bits, (n << bits) + (1 << bits) - 1)))
            .collect();
        for a in &networks {
            for b in &networks {
                for c in &networks {
                    let mut kept = vec![*a, *b, *c];
                    keep_outermost(&mut kept);
                    for at in 0..8 {
                        let expected = [a, b, c].iter().any(|net| net.0 <= at && at <= net.1);
                        assert_eq!(covers(&kept, at, at), expected, "{a:?} {b:?} {c:?} {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn values_and_patterns_are_found_under_their_key() {
        let list = list(&[(Some("user_id"), "42"), (Some("user_id"), "bot-*"), (None, "*evil*")]);
        let cases = [
            (("user_id", "42"), true),
            (("path", "42"), false),
            (("user_id", "bot-"), true),
            (("user_id", "bo"), false),
            (("user_id", "bö"), false),
            (("path", "bot-1"), false),
            (("path", "so evil"), true),
        ];
        for ((key, value), is_in) in cases {
            assert_eq!(list.contains(key, value), is_in, "{key} {value}");
        }
    }

    #[test]
    fn what_was_meant_as_a_network_is_no_value() {
        for text in ["10.0.0.0/33", "10.0.0/8", "2001:db8::/129", "10.0.0.0/", "10.0.0.0/x", "1.2.3.4/-1"] {
            let network = text.parse::<ListValue>();
            assert!(matches!(network, Err(ListError::Network { .. })), "{text}: {network:?}");
        }
        for text in ["/api/1", "a/8", "1.2.3", "12/31", "10.0.0.0-10.0.0.9"] {
            assert!(matches!(text.parse(), Ok(ListValue::Exact(_))), "{text}");
        }
        assert_eq!("".parse::<ListValue>(), Err(ListError::Empty));
    }
}
