//! Requests of a log, mapped to descriptors, many in one piece of memory.
//!
//! Threads that read a log fill batches; the one that decides reads them. The texts of a batch stand in
//! one string, so that a request costs no allocation.

use std::ops::Range;

use tollgate_core::{Descriptor, Entry, Operation, Time};
use tollgate_http::MappedRequest;

/// Requests in the order in which they were added, or sorted by time.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    text: String,
    entries: Vec<BatchEntry>,
    descriptors: Vec<DescriptorEnd>,
    pub(crate) requests: Vec<RecordedRequest>,
}

/// Where a descriptor's entries end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DescriptorEnd {
    end: usize,
    /// It is charged; otherwise it is only asked whether anything is left.
    is_charged: bool,
}

/// One entry, in the text.
#[derive(Debug, Clone)]
struct BatchEntry {
    key: Range<usize>,
    value: Range<usize>,
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
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestNote<'a> {
    pub(crate) time: Time,
    pub(crate) whole_second: bool,
    pub(crate) status: Option<u16>,
    pub(crate) route: &'a str,
}

impl Batch {
    /// Adds a request.
    pub(crate) fn push(&mut self, note: RequestNote<'_>, mapped: Option<&MappedRequest<'_>>) {
        let route = self.add_text(note.route);
        let (first_entry, first_descriptor) = (self.entries.len(), self.descriptors.len());
        for (key, value, ended) in mapped.into_iter().flat_map(|mapped| mapped.parts(note.status)) {
            let (key, value) = (self.add_text(key), self.add_text(value));
            self.entries.push(BatchEntry { key, value });
            if let Some(is_charged) = ended {
                self.descriptors.push(DescriptorEnd { end: self.entries.len(), is_charged });
            }
        }
        let descriptors = first_descriptor..self.descriptors.len();
        let RequestNote { time, whole_second, status, .. } = note;
        self.requests.push(RecordedRequest { time, whole_second, status, route, first_entry, descriptors });
    }

    fn add_text(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }

    /// Adds one request of another batch.
    pub(crate) fn take(&mut self, from: &Self, request: &RecordedRequest) {
        let route = self.add_text(from.text_at(&request.route));
        let (first_entry, first_descriptor) = (self.entries.len(), self.descriptors.len());
        let mut start = request.first_entry;
        for DescriptorEnd { end, is_charged } in
            from.descriptors.get(request.descriptors.clone()).unwrap_or_default()
        {
            for entry in from.entries.get(start..*end).unwrap_or_default() {
                let [key, value] = [&entry.key, &entry.value].map(|range| self.add_text(from.text_at(range)));
                self.entries.push(BatchEntry { key, value });
            }
            self.descriptors.push(DescriptorEnd { end: self.entries.len(), is_charged: *is_charged });
            start = *end;
        }
        let descriptors = first_descriptor..self.descriptors.len();
        self.requests.push(RecordedRequest { route, first_entry, descriptors, ..request.clone() });
    }

    /// The route of a request of this batch.
    pub(crate) fn route(&self, request: &RecordedRequest) -> &str {
        self.text_at(&request.route)
    }

    fn text_at(&self, range: &Range<usize>) -> &str {
        self.text.get(range.clone()).unwrap_or_default()
    }

    /// The entries of a request of this batch, and where each descriptor ends among them.
    pub(crate) fn entries<'b>(
        &'b self,
        request: &RecordedRequest,
        entries: &mut Vec<Entry<'b>>,
        ends: &mut Vec<DescriptorEnd>,
    ) {
        entries.clear();
        ends.clear();
        let own = self.descriptors.get(request.descriptors.clone()).unwrap_or_default();
        let last = own.last().map_or(request.first_entry, |last| last.end);
        for entry in self.entries.get(request.first_entry..last).unwrap_or_default() {
            entries.push(Entry { key: self.text_at(&entry.key), value: self.text_at(&entry.value) });
        }
        ends.extend(own.iter().map(|own| DescriptorEnd { end: own.end - request.first_entry, ..*own }));
    }
}

/// The descriptors that entries make up.
pub(crate) fn descriptors<'e>(entries: &'e [Entry<'e>], ends: &[DescriptorEnd]) -> Vec<Descriptor<'e>> {
    let mut start = 0;
    let mut descriptor = |DescriptorEnd { end, is_charged }: &DescriptorEnd| {
        let own = Descriptor::new(entries.get(start..*end).unwrap_or_default());
        start = *end;
        if *is_charged { own } else { own.with_operation(Operation::Peek) }
    };
    ends.iter().map(&mut descriptor).collect()
}
