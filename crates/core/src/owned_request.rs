//! A request that outlives what it was read from.
//!
//! Made of a [`Request`] by whoever asks about it again later.
//!
//! Deliberately not here: limits that callers bring along, and what is done for single descriptors.

use crate::request::{Descriptor, Entry, Request};

/// A request that outlives what it was read from, to be asked again later.
///
/// ```
/// use tollgate_core::{Descriptor, Entry, OwnedRequest, Request};
/// let entries = [Entry::from(("user_id", "42"))];
/// let descriptors = [Descriptor::new(&entries).with_cost(3)];
/// let request = Request::new("shop", &descriptors).with_route("/cart");
/// let own = OwnedRequest::from(&request);
/// let entries = own.entries();
/// let descriptors = own.borrowed(&entries);
/// assert_eq!(own.request(&descriptors), request);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnedRequest {
    /// The domain.
    pub domain: String,
    /// The name that it is counted under in the history.
    pub route: Option<String>,
    /// What it costs where a descriptor has no cost of its own.
    pub cost: u64,
    /// The descriptors.
    pub descriptors: Vec<DescriptorText>,
}

/// The texts of a descriptor, and its own cost.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DescriptorText {
    /// Keys and values, in their order.
    pub entries: Vec<(String, String)>,
    /// Its own cost, if it has one.
    pub cost: Option<u64>,
}

impl OwnedRequest {
    /// The entries of every descriptor, for [`OwnedRequest::borrowed`].
    pub fn entries(&self) -> Vec<Vec<Entry<'_>>> {
        fn entry(pair: &(String, String)) -> Entry<'_> {
            Entry { key: &pair.0, value: &pair.1 }
        }
        self.descriptors.iter().map(|own| own.entries.iter().map(entry).collect()).collect()
    }

    /// The descriptors over what [`OwnedRequest::entries`] gave.
    pub fn borrowed<'a>(&self, entries: &'a [Vec<Entry<'a>>]) -> Vec<Descriptor<'a>> {
        let own = self.descriptors.iter().zip(entries);
        own.map(|(own, entries)| Descriptor { cost: own.cost, ..Descriptor::new(entries) }).collect()
    }

    /// The request over what [`OwnedRequest::borrowed`] gave.
    pub fn request<'a>(&'a self, descriptors: &'a [Descriptor<'a>]) -> Request<'a> {
        Request { domain: &self.domain, descriptors, cost: self.cost, route: self.route.as_deref() }
    }
}

impl From<&Request<'_>> for OwnedRequest {
    fn from(request: &Request<'_>) -> Self {
        let text = |entry: &Entry<'_>| (entry.key.to_owned(), entry.value.to_owned());
        let own = |descriptor: &Descriptor<'_>| DescriptorText {
            entries: descriptor.entries.iter().map(text).collect(),
            cost: descriptor.cost,
        };
        Self {
            domain: request.domain.to_owned(),
            route: request.route.map(str::to_owned),
            cost: request.cost,
            descriptors: request.descriptors.iter().map(own).collect(),
        }
    }
}
