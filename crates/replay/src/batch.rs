//! Requests of a log, mapped to descriptors, many in one piece of memory.
//!
//! Threads that read a log fill batches; the one that decides reads them. The texts of a batch stand in
//! one string, and what many requests have in common stands there once: a request is a time, the place of
//! its route and the place of its descriptors.
//!
//! Invariant: a name has the hash by which [`NameTable`](crate::ledger::NameTable) finds it, made when it
//! was added, so that whoever decides hashes nothing.

use std::ops::Range;

use smallvec::SmallVec;
use tollgate_core::{Descriptor, Entry, Operation, Request, Time};
use tollgate_http::MappedRequest;

use crate::name::{HashedName, NameHasher};
use crate::single_charge::SingleCharge;

/// So many entries and descriptors of a request fit without an allocation.
const ENTRIES_USUAL: usize = 4;
const DESCRIPTORS_USUAL: usize = 2;

/// Requests in the order of the log.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    text: String,
    hasher: NameHasher,
    entries: Vec<BatchEntry>,
    descriptors: Vec<BatchDescriptor>,
    groups: Vec<DescriptorGroup>,
    routes: Vec<BatchName>,
    pub(crate) requests: Vec<RecordedRequest>,
}

/// One entry, in the text.
#[derive(Debug, Clone)]
struct BatchEntry {
    key: Range<usize>,
    value: Range<usize>,
}

/// A name, in the text.
#[derive(Debug, Clone)]
struct BatchName {
    text: Range<usize>,
    hash: u64,
}

/// One descriptor.
#[derive(Debug, Clone)]
struct BatchDescriptor {
    /// `key=value,key=value`, as history writes keys.
    name: BatchName,
    /// How many it has; they follow those of the one before it.
    entries: usize,
    /// It is charged; otherwise it is only asked whether anything is left.
    is_charged: bool,
}

/// The descriptors of a request, and of all that are like it.
#[derive(Debug, Clone)]
struct DescriptorGroup {
    first_entry: usize,
    descriptors: Range<usize>,
    /// The mapping denies such requests by itself.
    is_unmapped: bool,
    single: Option<SingleCharge>,
}

/// One request of a log.
#[derive(Debug, Clone)]
pub(crate) struct RecordedRequest {
    pub(crate) time: Time,
    /// The log has whole seconds only.
    pub(crate) whole_second: bool,
    pub(crate) status: Option<u16>,
    /// From [`Batch::add_route`].
    pub(crate) route: usize,
    /// From [`Batch::add_group`].
    pub(crate) group: usize,
}

/// The entries of a request's descriptors.
pub(crate) type RequestEntries<'b> = SmallVec<[Entry<'b>; ENTRIES_USUAL]>;

impl Batch {
    /// One with room for the requests of so many bytes of a log, whose lines have a hundred or more.
    pub(crate) fn with_room(bytes: usize, hasher: NameHasher) -> Self {
        Self { requests: Vec::with_capacity(bytes / 96), hasher, ..Self::default() }
    }

    /// Keeps a route; its place.
    pub(crate) fn add_route(&mut self, route: &str) -> usize {
        let start = self.text.len();
        self.text.push_str(route);
        let name = self.name_from(start);
        self.routes.push(name);
        self.routes.len() - 1
    }

    /// Keeps those descriptors of a request that are wanted; their place. Whether they are charged is up
    /// to the status of the answer.
    pub(crate) fn add_group(
        &mut self,
        mapped: Option<&MappedRequest<'_>>,
        status: Option<u16>,
        is_wanted: impl Fn(&[Entry<'_>]) -> bool,
    ) -> usize {
        let (first_entry, first_descriptor) = (self.entries.len(), self.descriptors.len());
        let mut own: RequestEntries<'_> = SmallVec::new();
        for (key, value, ended) in mapped.into_iter().flat_map(|mapped| mapped.parts(status)) {
            own.push(Entry { key, value });
            let Some(is_charged) = ended else { continue };
            if is_wanted(&own) {
                self.add_descriptor(&own, is_charged);
            }
            own.clear();
        }
        let descriptors = first_descriptor..self.descriptors.len();
        self.groups.push(DescriptorGroup {
            first_entry,
            descriptors,
            is_unmapped: mapped.is_none(),
            single: None,
        });
        self.groups.len() - 1
    }

    fn add_descriptor(&mut self, entries: &[Entry<'_>], is_charged: bool) {
        let start = self.text.len();
        for entry in entries {
            if self.text.len() > start {
                self.text.push(',');
            }
            let key = self.add_text(entry.key);
            self.text.push('=');
            let value = self.add_text(entry.value);
            self.entries.push(BatchEntry { key, value });
        }
        let name = self.name_from(start);
        self.descriptors.push(BatchDescriptor { name, entries: entries.len(), is_charged });
    }

    fn add_text(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }

    /// The name that the text ends with.
    fn name_from(&self, start: usize) -> BatchName {
        let text = start..self.text.len();
        BatchName { hash: self.hasher.name(self.text_at(&text)).hash, text }
    }

    /// Notes that all requests of a group meet one limit.
    pub(crate) fn set_single(&mut self, group: usize, single: Option<SingleCharge>) {
        if let Some(group) = self.groups.get_mut(group) {
            group.single = single;
        }
    }

    /// Adds one request of another batch.
    pub(crate) fn copy(&mut self, from: &Self, request: &RecordedRequest) {
        let route = self.add_route(from.route(request).text);
        let (group, first_entry) = (self.groups.len(), self.entries.len());
        let first_descriptor = self.descriptors.len();
        let entries = from.entries(request.group);
        let mut start = 0;
        for BatchDescriptor { entries: count, is_charged, .. } in from.descriptors_of(request.group) {
            self.add_descriptor(entries.get(start..start + count).unwrap_or_default(), *is_charged);
            start += count;
        }
        let descriptors = first_descriptor..self.descriptors.len();
        let is_unmapped = from.is_unmapped(request.group);
        let single = from.single(request.group);
        self.groups.push(DescriptorGroup { first_entry, descriptors, is_unmapped, single });
        self.requests.push(RecordedRequest { route, group, ..request.clone() });
    }

    /// The route of a request of this batch.
    pub(crate) fn route(&self, request: &RecordedRequest) -> HashedName<'_> {
        self.routes.get(request.route).map_or_else(HashedName::default, |route| self.name(route))
    }

    /// Whether the mapping denies the requests of a group by itself.
    pub(crate) fn is_unmapped(&self, group: usize) -> bool {
        self.groups.get(group).is_some_and(|group| group.is_unmapped)
    }

    /// The one limit that the requests of a group meet, if it is one.
    pub(crate) fn single(&self, group: usize) -> Option<SingleCharge> {
        self.groups.get(group).and_then(|group| group.single)
    }

    /// The key of one of a request's descriptors, as history writes it.
    pub(crate) fn key(&self, request: &RecordedRequest, descriptor: usize) -> HashedName<'_> {
        let descriptor = self.descriptors_of(request.group).get(descriptor);
        descriptor.map_or_else(HashedName::default, |descriptor| self.name(&descriptor.name))
    }

    fn name(&self, name: &BatchName) -> HashedName<'_> {
        HashedName { text: self.text_at(&name.text), hash: name.hash }
    }

    fn text_at(&self, range: &Range<usize>) -> &str {
        self.text.get(range.clone()).unwrap_or_default()
    }

    fn descriptors_of(&self, group: usize) -> &[BatchDescriptor] {
        let own = self.groups.get(group).and_then(|group| self.descriptors.get(group.descriptors.clone()));
        own.unwrap_or_default()
    }

    /// The entries of all descriptors of a group, for [`Batch::descriptors`].
    pub(crate) fn entries(&self, group: usize) -> RequestEntries<'_> {
        let first = self.groups.get(group).map_or(0, |group| group.first_entry);
        let count: usize = self.descriptors_of(group).iter().map(|descriptor| descriptor.entries).sum();
        let own = self.entries.get(first..first + count).unwrap_or_default();
        let entry =
            |entry: &BatchEntry| Entry { key: self.text_at(&entry.key), value: self.text_at(&entry.value) };
        own.iter().map(entry).collect()
    }

    /// The descriptors, made of what [`Batch::entries`] gave.
    pub(crate) fn descriptors<'e>(
        &self,
        group: usize,
        entries: &'e [Entry<'e>],
    ) -> SmallVec<[Descriptor<'e>; DESCRIPTORS_USUAL]> {
        let mut rest = entries;
        let descriptor = |BatchDescriptor { entries, is_charged, .. }: &BatchDescriptor| {
            let (own, behind) = rest.split_at_checked(*entries).unwrap_or_default();
            rest = behind;
            let own = Descriptor::new(own);
            if *is_charged { own } else { own.with_operation(Operation::Peek) }
        };
        self.descriptors_of(group).iter().map(descriptor).collect()
    }
}

/// A request of a log, with the time at which it is decided.
pub(crate) struct LoggedRequest<'a> {
    pub(crate) request: Request<'a>,
    pub(crate) batch: &'a Batch,
    pub(crate) recorded: &'a RecordedRequest,
    pub(crate) time: Time,
}

impl LoggedRequest<'_> {
    /// The key of one of its descriptors.
    pub(crate) fn key(&self, descriptor: usize) -> HashedName<'_> {
        self.batch.key(self.recorded, descriptor)
    }
}

/// The second that an instant is in.
pub(crate) fn second_of(time: Time) -> Time {
    Time::new(time.get() - time.get() % 1_000_000)
}
