//! The header fields of a request become its head, or are found to be none (RFC 9113, 8.2 and 8.3).
//!
//! `hpack` hands over one field after the other. A request to a known path costs no allocation here.
//!
//! Invariants: a head that is made has a method, a scheme and a path, each once and before all other
//! fields; nothing beyond the bound on header fields is kept.

use crate::field::{FieldKind, HeaderField};
use crate::hpack::dynamic_table::ENTRY_BYTES;

/// What a request is about.
#[derive(Debug)]
pub struct RequestHead {
    /// The method, if it is not POST.
    pub other_method: Option<Box<[u8]>>,
    /// Where it goes.
    pub path: RequestPath,
    /// Its content type is one of gRPC.
    pub is_grpc: bool,
    /// All other fields, if they are kept.
    pub fields: FieldList,
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestPath {
    /// A path that the server told of, by its place.
    Known(usize),
    /// Any other.
    Other(Box<[u8]>),
}

/// Header fields, in the order in which they were sent.
#[derive(Debug, Default)]
pub struct FieldList {
    text: Vec<u8>,
    /// Where each name and each value ends.
    ends: Vec<(usize, usize)>,
}

impl FieldList {
    fn push(&mut self, name: &[u8], value: &[u8]) {
        self.text.extend_from_slice(name);
        let name_end = self.text.len();
        self.text.extend_from_slice(value);
        self.ends.push((name_end, self.text.len()));
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut begin = 0;
        self.ends.iter().filter_map(move |(name_end, end)| {
            let field = (self.text.get(begin..*name_end)?, self.text.get(*name_end..*end)?);
            begin = *end;
            Some(field)
        })
    }

    /// The first value of that name.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(found, _)| *found == name.as_bytes()).map(|(_, value)| value)
    }
}

/// What the fields of a block come to.
#[derive(Debug)]
pub(crate) enum BuiltHead {
    Request(RequestHead, Option<u64>),
    /// More bytes than are allowed.
    TooLarge,
    /// No request.
    Malformed,
}

/// A head that is being made.
#[derive(Debug)]
pub(crate) struct HeadBuilder {
    bytes_left: usize,
    keeps_fields: bool,
    is_malformed: bool,
    has_ordinary: bool,
    has_method: bool,
    has_scheme: bool,
    has_authority: bool,
    is_grpc: bool,
    other_method: Option<Box<[u8]>>,
    path: Option<RequestPath>,
    content_length: Option<u64>,
    is_too_large: bool,
    fields: FieldList,
}

impl HeadBuilder {
    pub(crate) fn new(bytes_max: u32, keeps_fields: bool) -> Self {
        Self {
            bytes_left: usize::try_from(bytes_max).unwrap_or(usize::MAX),
            keeps_fields,
            is_malformed: false,
            has_ordinary: false,
            has_method: false,
            has_scheme: false,
            has_authority: false,
            is_grpc: false,
            other_method: None,
            path: None,
            content_length: None,
            is_too_large: false,
            fields: FieldList::default(),
        }
    }

    /// The next field.
    #[inline]
    pub(crate) fn add(&mut self, field: HeaderField<'_>) {
        let bytes = field.name.len() + field.value.len() + ENTRY_BYTES;
        match self.bytes_left.checked_sub(bytes) {
            Some(left) => self.bytes_left = left,
            None => self.is_too_large = true,
        }
        if self.is_too_large || self.is_malformed {
            return;
        }
        match field.kind {
            FieldKind::Malformed => self.is_malformed = true,
            FieldKind::Post => self.pseudo(|head| std::mem::replace(&mut head.has_method, true)),
            FieldKind::Method => {
                self.pseudo(|head| std::mem::replace(&mut head.has_method, true));
                self.other_method = Some(field.value.into());
            }
            FieldKind::Scheme => self.pseudo(|head| std::mem::replace(&mut head.has_scheme, true)),
            FieldKind::Authority => self.pseudo(|head| std::mem::replace(&mut head.has_authority, true)),
            FieldKind::KnownPath(place) => {
                self.pseudo(|head| head.path.replace(RequestPath::Known(place)).is_some());
            }
            FieldKind::Path => {
                let path = RequestPath::Other(field.value.into());
                self.pseudo(|head| head.path.replace(path).is_some() || field.value.is_empty());
            }
            FieldKind::GrpcContent => {
                self.is_grpc = true;
                self.ordinary(field);
            }
            FieldKind::ContentLength => {
                let length = content_length(field.value);
                let is_other = self.content_length.is_some() && self.content_length != length;
                self.is_malformed |= is_other || length.is_none();
                self.content_length = length;
                self.ordinary(field);
            }
            FieldKind::Ordinary => self.ordinary(field),
        }
    }

    /// Takes note of a pseudo-header field; `set` says whether it must not be there.
    fn pseudo(&mut self, set: impl FnOnce(&mut Self) -> bool) {
        self.is_malformed |= set(self) || self.has_ordinary;
    }

    fn ordinary(&mut self, field: HeaderField<'_>) {
        self.has_ordinary = true;
        if self.keeps_fields || !matches!(self.path, Some(RequestPath::Known(_))) {
            self.fields.push(field.name, field.value);
        }
    }

    /// What all of them come to.
    pub(crate) fn finish(self) -> BuiltHead {
        if self.is_too_large {
            return BuiltHead::TooLarge;
        }
        match self.path {
            Some(path) if self.has_method && self.has_scheme && !self.is_malformed => {
                let Self { other_method, is_grpc, fields, .. } = self;
                BuiltHead::Request(RequestHead { other_method, path, is_grpc, fields }, self.content_length)
            }
            _ => BuiltHead::Malformed,
        }
    }
}

/// Whether a field may stand after a body. All of them are ignored.
pub(crate) const fn is_of_trailers(kind: FieldKind) -> bool {
    matches!(kind, FieldKind::Ordinary | FieldKind::GrpcContent | FieldKind::ContentLength)
}

fn content_length(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: &[&str] = &["/known"];

    fn built(fields: &[(&str, &str)], bytes_max: u32) -> BuiltHead {
        let mut builder = HeadBuilder::new(bytes_max, false);
        for (name, value) in fields {
            let (name, value) = (name.as_bytes(), value.as_bytes());
            builder.add(HeaderField { name, value, kind: FieldKind::of(name, value, PATHS) });
        }
        builder.finish()
    }

    const CALL: [(&str, &str); 4] =
        [(":method", "POST"), (":scheme", "http"), (":path", "/known"), (":authority", "a|b||c/d%")];

    #[test]
    fn a_call_to_a_known_path_has_its_place_and_no_fields() {
        let fields =
            [&CALL[..], &[("content-type", "application/grpc+proto"), ("te", "trailers"), ("x", "y")]];
        let BuiltHead::Request(head, None) = built(&fields.concat(), 1_000) else { panic!("no request") };
        assert_eq!((head.path, head.is_grpc, head.other_method), (RequestPath::Known(0), true, None));
        assert_eq!(head.fields.iter().count(), 0);
    }

    #[test]
    fn a_call_elsewhere_keeps_its_fields() {
        let fields =
            [(":method", "GET"), (":scheme", "http"), (":path", "/"), ("x", "y"), ("content-length", "7")];
        let BuiltHead::Request(head, Some(7)) = built(&fields, 1_000) else { panic!("no request") };
        assert_eq!(head.path, RequestPath::Other(b"/"[..].into()));
        assert_eq!(
            (head.other_method.as_deref(), head.fields.get("x")),
            (Some(&b"GET"[..]), Some(&b"y"[..]))
        );
        assert_eq!((head.fields.get("content-length"), head.fields.get("z")), (Some(&b"7"[..]), None));
    }

    #[test]
    fn what_is_no_request_is_found() {
        let plus = |field| built(&[&CALL[..], &[field]].concat(), 1_000);
        let odd = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "b"),
            (":status", "200"),
            ("Upper", "case"),
            ("", "no name"),
            ("spa ce", ""),
            ("co:lon", ""),
            ("connection", "close"),
            ("keep-alive", ""),
            ("proxy-connection", ""),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h3"),
            ("te", "gzip"),
            ("x", "new\nline"),
            ("content-length", "-1"),
            ("content-length", ""),
        ];
        for field in odd {
            assert!(matches!(plus(field), BuiltHead::Malformed), "{field:?}");
        }
        for missing in [":method", ":scheme", ":path"] {
            let fields: Vec<_> = CALL.into_iter().filter(|(name, _)| *name != missing).collect();
            assert!(matches!(built(&fields, 1_000), BuiltHead::Malformed), "without {missing}");
        }
        let late = [("x", "y"), (":method", "POST"), (":scheme", "http"), (":path", "/")];
        assert!(matches!(built(&late, 1_000), BuiltHead::Malformed), "pseudo-header fields come first");
        let lengths = [&CALL[..], &[("content-length", "1"), ("content-length", "2")]].concat();
        assert!(matches!(built(&lengths, 1_000), BuiltHead::Malformed), "two lengths");
    }

    #[test]
    fn more_bytes_than_allowed_are_too_many() {
        let bytes: usize = CALL.iter().map(|(name, value)| name.len() + value.len() + ENTRY_BYTES).sum();
        let most = u32::try_from(bytes).unwrap();
        assert!(matches!(built(&CALL, most), BuiltHead::Request(..)));
        assert!(matches!(built(&CALL, most - 1), BuiltHead::TooLarge));
    }
}
