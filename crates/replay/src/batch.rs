//! Requests of a log, mapped to descriptors, many in one piece of memory.
//!
//! Threads that read a log fill batches; the one that decides reads them. The texts of a batch stand in
//! one string, so that a request costs no allocation.

use std::ops::Range;

use smallvec::SmallVec;
use tollgate_core::{Descriptor, Entry, Operation, Request, Time};
use tollgate_http::MappedRequest;

/// So many entries and descriptors of a request fit without an allocation.
const ENTRIES_USUAL: usize = 8;
const DESCRIPTORS_USUAL: usize = 4;

/// Requests in the order of the log.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    text: String,
    entries: Vec<BatchEntry>,
    descriptors: Vec<BatchDescriptor>,
    pub(crate) requests: Vec<RecordedRequest>,
}

/// One entry, in the text.
#[derive(Debug, Clone)]
struct BatchEntry {
    key: Range<usize>,
    value: Range<usize>,
}

/// One descriptor: its entries are those from where the one before it ends.
#[derive(Debug, Clone)]
struct BatchDescriptor {
    /// `key=value,key=value`, as history writes keys.
    name: Range<usize>,
    end: usize,
    /// It is charged; otherwise it is only asked whether anything is left.
    is_charged: bool,
}

/// One request of a log.
#[derive(Debug, Clone)]
pub(crate) struct RecordedRequest {
    pub(crate) time: Time,
    /// The log has whole seconds only.
    pub(crate) whole_second: bool,
    pub(crate) status: Option<u16>,
    route: Range<usize>,
    first_entry: usize,
    descriptors: Range<usize>,
}

/// What a log says about a request beside its descriptors.
#[derive(Debug, Clone)]
pub(crate) struct RequestNote {
    pub(crate) time: Time,
    pub(crate) whole_second: bool,
    pub(crate) status: Option<u16>,
    /// In the text: see [`Batch::add_text`].
    pub(crate) route: Range<usize>,
}

/// The entries of a request's descriptors.
pub(crate) type RequestEntries<'b> = SmallVec<[Entry<'b>; ENTRIES_USUAL]>;

impl Batch {
    /// One with room for the requests of so many bytes of a log, whose lines have a hundred or more.
    pub(crate) fn with_room(bytes: usize) -> Self {
        let lines = bytes / 96;
        Self {
            text: String::with_capacity(bytes / 2),
            entries: Vec::with_capacity(lines),
            descriptors: Vec::with_capacity(lines),
            requests: Vec::with_capacity(lines),
        }
    }

    /// Adds a request with those of its descriptors that are wanted.
    pub(crate) fn push(
        &mut self,
        note: RequestNote,
        mapped: Option<&MappedRequest<'_>>,
        is_wanted: impl Fn(&[Entry<'_>]) -> bool,
    ) {
        let (first_entry, first_descriptor) = (self.entries.len(), self.descriptors.len());
        let mut own: RequestEntries<'_> = SmallVec::new();
        for (key, value, ended) in mapped.into_iter().flat_map(|mapped| mapped.parts(note.status)) {
            own.push(Entry { key, value });
            let Some(is_charged) = ended else { continue };
            if is_wanted(&own) {
                self.add_descriptor(&own, is_charged);
            }
            own.clear();
        }
        let descriptors = first_descriptor..self.descriptors.len();
        let RequestNote { time, whole_second, status, route } = note;
        self.requests.push(RecordedRequest { time, whole_second, status, route, first_entry, descriptors });
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
        let (name, end) = (start..self.text.len(), self.entries.len());
        self.descriptors.push(BatchDescriptor { name, end, is_charged });
    }

    /// Keeps a text; where it is.
    pub(crate) fn add_text(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }

    /// Adds one request of another batch.
    pub(crate) fn copy(&mut self, from: &Self, request: &RecordedRequest) {
        let route = self.add_text(from.route(request));
        let (first_entry, first_descriptor) = (self.entries.len(), self.descriptors.len());
        let entries = from.entries(request);
        let mut start = 0;
        for BatchDescriptor { end, is_charged, .. } in from.descriptors_of(request) {
            let end = end - request.first_entry;
            self.add_descriptor(entries.get(start..end).unwrap_or_default(), *is_charged);
            start = end;
        }
        let descriptors = first_descriptor..self.descriptors.len();
        self.requests.push(RecordedRequest { route, first_entry, descriptors, ..request.clone() });
    }

    /// The route of a request of this batch.
    pub(crate) fn route(&self, request: &RecordedRequest) -> &str {
        self.text_at(&request.route)
    }

    /// The key of one of a request's descriptors, as history writes it.
    pub(crate) fn key(&self, request: &RecordedRequest, descriptor: usize) -> &str {
        self.descriptors_of(request).get(descriptor).map_or("", |descriptor| self.text_at(&descriptor.name))
    }

    fn text_at(&self, range: &Range<usize>) -> &str {
        self.text.get(range.clone()).unwrap_or_default()
    }

    fn descriptors_of(&self, request: &RecordedRequest) -> &[BatchDescriptor] {
        self.descriptors.get(request.descriptors.clone()).unwrap_or_default()
    }

    /// The entries of all descriptors of a request of this batch, for [`Batch::descriptors`].
    pub(crate) fn entries(&self, request: &RecordedRequest) -> RequestEntries<'_> {
        let last = self.descriptors_of(request).last().map_or(request.first_entry, |last| last.end);
        let own = self.entries.get(request.first_entry..last).unwrap_or_default();
        let entry =
            |entry: &BatchEntry| Entry { key: self.text_at(&entry.key), value: self.text_at(&entry.value) };
        own.iter().map(entry).collect()
    }

    /// The descriptors, made of what [`Batch::entries`] gave.
    pub(crate) fn descriptors<'e>(
        &self,
        request: &RecordedRequest,
        entries: &'e [Entry<'e>],
    ) -> SmallVec<[Descriptor<'e>; DESCRIPTORS_USUAL]> {
        let mut start = 0;
        let descriptor = |BatchDescriptor { end, is_charged, .. }: &BatchDescriptor| {
            let end = end - request.first_entry;
            let own = Descriptor::new(entries.get(start..end).unwrap_or_default());
            start = end;
            if *is_charged { own } else { own.with_operation(Operation::Peek) }
        };
        self.descriptors_of(request).iter().map(descriptor).collect()
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
    pub(crate) fn key(&self, descriptor: usize) -> &str {
        self.batch.key(self.recorded, descriptor)
    }
}

/// The second that an instant is in.
pub(crate) fn second_of(time: Time) -> Time {
    Time::new(time.get() - time.get() % 1_000_000)
}
