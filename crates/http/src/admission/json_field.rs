//! A number in JSON that passes by.
//!
//! Fed with a body piece by piece, it finds the number that a path of names leads to. Nothing of the
//! body is kept but where in it we are: what is open, and how much of the path has been met.
//!
//! Invariants: however a body is cut into pieces, the same is found. Memory is the same for every
//! body. What is not JSON finds nothing, or something, and never fails.
//!
//! Deliberately not here: whether the JSON is right, which is for whoever wants to use it.

use memchr::memchr2;

/// What may be open at a time; a document that nests deeper is not read on.
const DEPTH_MAX: usize = 128;
/// Bytes of one document that are looked at. The answers that this is for are far smaller.
const SCAN_MAX: usize = 64 << 20;

/// Looks for a number in JSON documents, one after the other.
#[derive(Debug, Default)]
pub(super) struct JsonField {
    /// The last number that was found.
    found: Option<u64>,
    place: DocumentPlace,
}

/// Where in a document we are.
#[derive(Debug, Default)]
struct DocumentPlace {
    /// A bit for each that is open, the innermost lowest: an object, or else an array.
    objects: u128,
    depth: usize,
    /// So many names of the path lead to the innermost object that is on it.
    matched: usize,
    /// The value that comes next is the one that the path has next.
    is_named: bool,
    /// A string that comes next is a name.
    expects_name: bool,
    token: Token,
    scanned: usize,
}

/// What is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Token {
    /// Neither a string nor a number.
    #[default]
    Between,
    /// A name; so many bytes of it are those of the path, if all are so far.
    Name {
        same: Option<usize>,
        is_escaped: bool,
    },
    Text {
        is_escaped: bool,
    },
    Number(Digits),
    /// Nothing more is read of this document.
    GivenUp,
}

/// A number so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Digits {
    Whole(u64),
    /// Behind the point; whether anything but zeros was there.
    Fraction(u64, bool),
    /// Negative, or with an exponent: no cost is written so.
    Odd,
}

/// The number that a text is, as JSON writes it.
pub(super) fn number(text: &str) -> Option<u64> {
    let (first, rest) = text.as_bytes().split_first().filter(|(first, _)| first.is_ascii_digit())?;
    rest.iter().try_fold(Digits::first(*first), |digits, byte| digits.with(*byte))?.value()
}

impl JsonField {
    /// The last number that was found.
    pub(super) const fn found(&self) -> Option<u64> {
        self.found
    }

    /// Another document begins.
    pub(super) fn restart(&mut self) {
        self.place = DocumentPlace::default();
    }

    /// Reads the next piece, looking for what `path` leads to.
    pub(super) fn read(&mut self, bytes: &[u8], path: &[String]) {
        let mut rest = bytes;
        self.place.scanned = self.place.scanned.saturating_add(bytes.len());
        if self.place.scanned > SCAN_MAX {
            self.place.token = Token::GivenUp;
        }
        loop {
            match self.place.token {
                Token::GivenUp => return,
                Token::Text { is_escaped: false } => {
                    let Some(at) = memchr2(b'"', b'\\', rest) else { return };
                    rest = rest.get(at..).unwrap_or_default();
                }
                Token::Between | Token::Name { .. } | Token::Text { .. } | Token::Number(_) => {}
            }
            let Some((byte, others)) = rest.split_first() else { return };
            rest = others;
            self.step(*byte, path);
        }
    }

    fn step(&mut self, byte: u8, path: &[String]) {
        match self.place.token {
            Token::Between => self.place.between(byte, path),
            Token::Name { same, is_escaped } => self.place.name(byte, same.filter(|_| !is_escaped), path),
            Token::Text { is_escaped: true } => self.place.token = Token::Text { is_escaped: false },
            Token::Text { is_escaped: false } => {
                self.place.token = match byte {
                    b'"' => Token::Between,
                    _ => Token::Text { is_escaped: byte == b'\\' },
                };
            }
            Token::Number(digits) => match digits.with(byte) {
                Some(more) => self.place.token = Token::Number(more),
                None => {
                    if self.place.is_named && self.place.is_on(path) && self.place.depth == path.len() {
                        self.found = digits.value().or(self.found);
                    }
                    self.place.token = Token::Between;
                    self.place.between(byte, path);
                }
            },
            Token::GivenUp => {}
        }
    }
}

impl DocumentPlace {
    const fn is_in_object(&self) -> bool {
        self.depth > 0 && self.objects & 1 == 1
    }

    /// Whether the names of the innermost object can be the next of the path.
    const fn is_on(&self, path: &[String]) -> bool {
        self.is_in_object() && self.matched + 1 == self.depth && self.depth <= path.len()
    }

    fn between(&mut self, byte: u8, path: &[String]) {
        match byte {
            b'{' | b'[' => self.open(byte == b'{', path),
            b'}' | b']' => self.close(),
            b',' => {
                self.expects_name = self.is_in_object();
                self.is_named = false;
            }
            b'"' if self.expects_name => {
                self.expects_name = false;
                self.token = Token::Name { same: self.is_on(path).then_some(0), is_escaped: false };
            }
            b'"' => self.token = Token::Text { is_escaped: false },
            b'-' | b'0'..=b'9' => self.token = Token::Number(Digits::first(byte)),
            // Spaces, a colon, or a letter of true, false and null.
            _ => {}
        }
    }

    /// A byte of a name, of which so many are those of the path.
    fn name(&mut self, byte: u8, same: Option<usize>, path: &[String]) {
        let is_escaped = matches!(self.token, Token::Name { is_escaped: true, .. });
        let wanted = path.get(self.matched).map(String::as_bytes).unwrap_or_default();
        self.token = match byte {
            _ if is_escaped => Token::Name { same: None, is_escaped: false },
            b'"' => {
                self.is_named = same == Some(wanted.len());
                Token::Between
            }
            // A name of a path is written without escapes.
            b'\\' => Token::Name { same: None, is_escaped: true },
            _ => {
                let same = same.filter(|at| wanted.get(*at) == Some(&byte)).map(|at| at + 1);
                Token::Name { same, is_escaped: false }
            }
        };
    }

    fn open(&mut self, is_object: bool, path: &[String]) {
        if self.depth == DEPTH_MAX {
            self.token = Token::GivenUp;
            return;
        }
        if is_object && self.is_named && self.is_on(path) {
            self.matched = self.depth;
        }
        self.objects = self.objects << 1 | u128::from(is_object);
        self.depth += 1;
        (self.is_named, self.expects_name) = (false, is_object);
    }

    fn close(&mut self) {
        self.objects >>= 1;
        self.depth = self.depth.saturating_sub(1);
        self.matched = self.matched.min(self.depth.saturating_sub(1));
        (self.is_named, self.expects_name) = (false, false);
        if self.depth == 0 {
            self.scanned = 0;
        }
    }
}

impl Digits {
    fn first(byte: u8) -> Self {
        if byte == b'-' { Self::Odd } else { Self::Whole(digit(byte)) }
    }

    /// The number with another byte; none if it has ended.
    fn with(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::Whole(number), b'0'..=b'9') => {
                Some(Self::Whole(number.saturating_mul(10).saturating_add(digit(byte))))
            }
            (Self::Whole(number), b'.') => Some(Self::Fraction(number, false)),
            (Self::Fraction(number, any), b'0'..=b'9') => Some(Self::Fraction(number, any || byte != b'0')),
            (Self::Whole(_) | Self::Fraction(..), b'e' | b'E')
            | (Self::Odd, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-') => Some(Self::Odd),
            (Self::Whole(_) | Self::Fraction(..) | Self::Odd, _) => None,
        }
    }

    /// A part of one costs one.
    fn value(self) -> Option<u64> {
        match self {
            Self::Whole(number) => Some(number),
            Self::Fraction(number, any) => Some(number.saturating_add(u64::from(any))),
            Self::Odd => None,
        }
    }
}

fn digit(byte: u8) -> u64 {
    u64::from(byte.saturating_sub(b'0'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    fn path(field: &str) -> Vec<String> {
        field.split('.').map(str::to_owned).collect()
    }

    /// What is found in the pieces.
    fn found(pieces: &[&[u8]], field: &str) -> Option<u64> {
        let (mut reader, path) = (JsonField::default(), path(field));
        for piece in pieces {
            reader.read(piece, &path);
        }
        reader.found()
    }

    #[test]
    fn a_number_is_found_where_the_path_leads() {
        for (text, expected) in [
            (r#"{"usage":{"total_tokens":42}}"#, Some(42)),
            (r#" { "id" : "x" , "usage" : { "a" : 1 , "total_tokens" : 42 , "b" : 2 } } "#, Some(42)),
            (
                r#"{"total_tokens":1,"usage":{"usage":{"total_tokens":2}},"x":{"usage":{"total_tokens":3}}}"#,
                None,
            ),
            (r#"{"usage":[{"total_tokens":1}],"usage2":{"total_tokens":2}}"#, None),
            (r#"[{"usage":{"total_tokens":1}}]"#, None),
            (r#"{"usage":{"x":[1,2,{"total_tokens":3}],"total_tokens":7}}"#, Some(7)),
            (r#"{"text":"{\"usage\":{\"total_tokens\":9}}","usage":{"total_tokens":7}}"#, Some(7)),
            (r#"{"text":"ends with \\","usage":{"total_tokens":7}}"#, Some(7)),
            (r#"{"usage":{"total_tokens":1.0}}"#, Some(1)),
            (r#"{"usage":{"total_tokens":1.01}}"#, Some(2)),
            (r#"{"usage":{"total_tokens":-1}}"#, None),
            (r#"{"usage":{"total_tokens":1e3}}"#, None),
            (r#"{"usage":{"total_tokens":"5"}}"#, None),
            (r#"{"usage":{"total_tokens":null}}"#, None),
            (r#"{"usage":{"total_tokens":99999999999999999999999}}"#, Some(u64::MAX)),
            (r#"{"usage":{"total_tokens_":1,"total_token":2,"":3}}"#, None),
            // The last one of several documents, as in lines of JSON.
            ("{\"usage\":{\"total_tokens\":1}}\n{\"usage\":{\"total_tokens\":2}}\n{\"x\":1}\n", Some(2)),
            // A document that breaks off, and what is no JSON.
            (r#"{"usage":{"total_tokens":42"#, None),
            ("]]}}{{{,,,:::\"\"\"\\", None),
            ("", None),
        ] {
            assert_eq!(found(&[text.as_bytes()], "usage.total_tokens"), expected, "{text}");
            let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(found(&bytes, "usage.total_tokens"), expected, "{text} byte by byte");
        }
        assert_eq!(found(&[br#"{"n":5}"#], "n"), Some(5));
    }

    #[test]
    fn what_nests_too_deeply_is_not_read_on() {
        let deep = format!("{}{}", r#"{"a":"#.repeat(DEPTH_MAX + 1), "1");
        assert_eq!(found(&[deep.as_bytes(), br#"}}}{"n":1}"#], "n"), None);
        let fits = format!("{{\"x\":{}{},\"n\":1}}", "[".repeat(DEPTH_MAX - 1), "]".repeat(DEPTH_MAX - 1));
        assert_eq!(found(&[fits.as_bytes()], "n"), Some(1));
    }

    fn documents() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<u64>().prop_map(|number| json!(number)),
            "[a-c\"\\\\{}:,0-9 ü]{0,6}".prop_map(Value::String),
            Just(Value::Null),
            Just(json!(true)),
            Just(json!(-3)),
        ];
        leaf.prop_recursive(5, 40, 4, |inner| {
            let name = prop_oneof![Just("a".to_owned()), Just("b".to_owned()), "[abc\"\\\\]{0,3}"];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::btree_map(name, inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    proptest! {
        /// serde_json finds the same, however the text is cut and spaced.
        #[test]
        fn any_document_is_read_as_serde_reads_it(
            document in documents(),
            is_pretty: bool,
            cuts in prop::collection::vec(0_usize..200, 0..6),
        ) {
            let text = match is_pretty {
                true => serde_json::to_string_pretty(&document).unwrap(),
                false => document.to_string(),
            };
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &text.as_bytes()[cut[0]..cut[1]]).collect();
            for field in ["a", "b", "a.b", "a.a", "b.a.b"] {
                let pointer = format!("/{}", field.replace('.', "/"));
                // The path leads through objects alone.
                let mut at = Some(&document);
                for name in field.split('.') {
                    at = at.and_then(Value::as_object).and_then(|fields| fields.get(name));
                }
                prop_assert_eq!(found(&pieces, field), at.and_then(Value::as_u64), "{} in {}", pointer, text);
            }
        }
    }
}
