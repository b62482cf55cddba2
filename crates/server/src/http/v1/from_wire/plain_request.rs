//! The short way for a request as nearly everybody sends it.
//!
//! `{"domain":"shop","descriptors":[{"user_id":"42"}],"cost":1}`: these members in any order, and texts without
//! escapes. Reading it by serde takes a tenth of the instructions of a whole check over HTTP, because every
//! value goes through several visitors. Anything else is left to serde, which also says what is wrong with it.
//!
//! Invariant: what is read here serde reads alike; a property holds both beside each other.
//!
//! Deliberately not here: bounds on lengths, which [`super`] checks of either.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::descriptor::{DescriptorList, V1Descriptor, V1Entry};
use super::values::{JsonText, WholeNumber};
use super::{V1Request, one};
use crate::bounds::{DESCRIPTORS_MAX, ENTRIES_MAX};

/// The request that these bytes are; none if it has to be read by serde.
pub(super) fn read(bytes: &[u8]) -> Option<V1Request<'_>> {
    let mut reader = PlainReader { text: std::str::from_utf8(bytes).ok()?, at: 0 };
    let request = reader.request()?;
    reader.skip_blanks();
    (reader.at == bytes.len()).then_some(request)
}

/// How far a body is read.
struct PlainReader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> PlainReader<'a> {
    fn request(&mut self) -> Option<V1Request<'a>> {
        let (mut domain, mut descriptors, mut cost) = (None, None, None);
        self.list(b'{', b'}', |reader| {
            match reader.name()? {
                "domain" if domain.is_none() => domain = Some(reader.text()?),
                "descriptors" if descriptors.is_none() => descriptors = Some(reader.descriptors()?),
                "cost" if cost.is_none() => cost = Some(WholeNumber(reader.number()?)),
                _ => return None,
            }
            Some(())
        })?;
        Some(V1Request {
            domain: JsonText(Cow::Borrowed(domain?)),
            descriptors: DescriptorList(descriptors?),
            cost: cost.unwrap_or_else(one),
        })
    }

    fn descriptors(&mut self) -> Option<Vec<V1Descriptor<'a>>> {
        let mut descriptors = Vec::new();
        self.list(b'[', b']', |reader| {
            descriptors.push(V1Descriptor { entries: reader.entries()?, ..V1Descriptor::default() });
            (descriptors.len() <= DESCRIPTORS_MAX).then_some(())
        })?;
        Some(descriptors)
    }

    fn entries(&mut self) -> Option<SmallVec<[V1Entry<'a>; 2]>> {
        let mut entries = SmallVec::new();
        self.list(b'{', b'}', |reader| {
            let key = reader.name().filter(|key| *key != "entries")?;
            entries.push((Cow::Borrowed(key), Cow::Borrowed(reader.text()?)));
            (entries.len() <= ENTRIES_MAX).then_some(())
        })?;
        Some(entries)
    }

    /// One item or more between two brackets, with commas between them.
    fn list(&mut self, open: u8, close: u8, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.expect(open)?;
        loop {
            item(self)?;
            match self.next_byte()? {
                b',' => {}
                byte if byte == close => return Some(()),
                _ => return None,
            }
        }
    }

    /// The name of a member, and the colon behind it.
    fn name(&mut self) -> Option<&'a str> {
        let name = self.text()?;
        self.expect(b':')?;
        Some(name)
    }

    /// A text without escapes.
    fn text(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let start = self.at;
        while !matches!(self.byte()?, b'"' | b'\\' | ..=0x1f) {
            self.at += 1;
        }
        let text = self.text.get(start..self.at)?;
        (self.byte()? == b'"').then(|| self.at += 1)?;
        Some(text)
    }

    /// A whole number without sign, fraction or exponent: those end it, and then no comma follows.
    fn number(&mut self) -> Option<u64> {
        self.skip_blanks();
        let start = self.at;
        let mut number: u64 = 0;
        while let digit @ b'0'..=b'9' = self.byte()? {
            number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
            self.at += 1;
        }
        let (digits, is_zero) = (self.at - start, self.text.as_bytes().get(start) == Some(&b'0'));
        (digits == 1 || (digits > 1 && !is_zero)).then_some(number)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next_byte()? == byte).then_some(())
    }

    /// The next byte that is no blank.
    fn next_byte(&mut self) -> Option<u8> {
        self.skip_blanks();
        let byte = self.byte()?;
        self.at += 1;
        Some(byte)
    }

    fn skip_blanks(&mut self) {
        // Nearly all requests have none.
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.byte() {
            self.at += 1;
        }
    }

    #[inline]
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAIN: [&str; 4] = [
        r#"{"domain":"shop","descriptors":[{"user_id":"42"}],"cost":1}"#,
        r#"{"descriptors":[{"user_id":"42","plan":"é"},{"a":""}],"domain":"shop"}"#,
        " {\n\t\"cost\" : 10 , \"domain\":\"d\",\r\n\"descriptors\": [ {\"a\" : \"b\"} ] } ",
        r#"{"domain":"d","cost":0,"descriptors":[{"cost":"1","domain":"entry"}]}"#,
    ];

    fn by_serde(bytes: &[u8]) -> Option<String> {
        let request: Result<V1Request<'_>, _> = serde_json::from_slice(bytes);
        request.ok().map(|request| format!("{request:?}"))
    }

    #[test]
    fn what_people_send_is_read_here() {
        for body in PLAIN {
            let request = read(body.as_bytes()).map(|request| format!("{request:?}"));
            assert_eq!(request, by_serde(body.as_bytes()), "{body}");
            assert!(request.is_some(), "{body}");
        }
    }

    #[test]
    fn what_is_odd_is_left_to_serde() {
        let odd = [
            "",
            "{}",
            "null",
            r#"{"domain":"d"}"#,
            r#"{"domain":"d","descriptors":[]}"#,
            r#"{"domain":"d","descriptors":[{}]}"#,
            r#"{"domain":"d","descriptors":[{"a":1}]}"#,
            r#"{"domain":"d","descriptors":[{"entries":"a"}]}"#,
            r#"{"domain":"d","descriptors":[{"a":"b"}],"cost":-1}"#,
            r#"{"domain":"d","descriptors":[{"a":"b"}],"cost":1.0}"#,
            r#"{"domain":"d","descriptors":[{"a":"b"}],"cost":01}"#,
            r#"{"domain":"d","descriptors":[{"a":"b"}],"cost":18446744073709551616}"#,
            r#"{"domain":"d","descriptors":[{"a":"b"}],"cost":}"#,
            r#"{"domain":"d","descriptors":[{"a":"b"}],"cost":1,"cost":1}"#,
            r#"{"domain":"d","descriptors":[{"a":"b"}],}"#,
            r#"{"domain":"d","descriptors":[{"a":"b"}]}}"#,
            r#"{"domain":"\u0064","descriptors":[{"a":"b"}]}"#,
            "{\"domain\":\"d\n\",\"descriptors\":[{\"a\":\"b\"}]}",
            r#"{"domain":"d","descriptors":[{"a":"b"}"#,
        ];
        for body in odd {
            assert!(read(body.as_bytes()).is_none(), "{body}");
        }
        assert!(read(b"{\"domain\":\"\xff\",\"descriptors\":[{\"a\":\"b\"}]}").is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

        /// Bodies as people send them, with a few bytes changed, removed or put in.
        #[test]
        fn what_is_read_here_serde_reads_alike(
            body in prop::sample::select(&PLAIN),
            edits in prop::collection::vec(
                (any::<prop::sample::Index>(), prop::sample::select(&b"{}[]\",:\\ \n01.-eadu\xc3\x00"[..]), 0_u8..3),
                0..4,
            ),
        ) {
            let mut bytes = body.as_bytes().to_vec();
            for (place, byte, edit) in edits {
                let at = place.index(bytes.len());
                match edit {
                    0 => bytes[at] = byte,
                    1 => bytes.insert(at, byte),
                    _ => drop(bytes.remove(at)),
                }
            }
            if let Some(request) = read(&bytes) {
                prop_assert_eq!(Some(format!("{request:?}")), by_serde(&bytes));
            }
        }
    }
}
