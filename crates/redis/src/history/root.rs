//! The one small value that says what is in force.
//!
//! ```text
//! version  edition   parts of the redo  chunks  per chunk: length, name
//! u8       16 bytes  u16 BE             u16 BE             u8      bytes
//! ```
//!
//! Every commit writes it once, and that is when the commit happens: from then on
//! the edition is another, and if the redo has parts, whoever comes first makes
//! the changes that they tell of. [`super::redo`] has these.
//!
//! Invariant: no two commits have the same edition.

use tollgate_history::{Error, Instance, Result};

/// The format that is written.
const VERSION: u8 = 1;

/// Version and edition: what scripts compare.
pub(super) const HEAD_BYTES: usize = 17;

/// What is in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Root {
    /// Version and edition; empty if nothing was ever committed.
    pub(super) head: Vec<u8>,
    /// How many parts of the redo are not known to be made true yet.
    pub(super) parts: u16,
    /// The names of the chunks that there are, in order.
    pub(super) chunks: Vec<Vec<u8>>,
}

impl Root {
    /// The head of an edition that nobody else makes.
    pub(super) fn new_head() -> Vec<u8> {
        let mut head = vec![VERSION];
        head.extend_from_slice(&Instance::random().0);
        head
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes = self.head.clone();
        bytes.extend_from_slice(&self.parts.to_be_bytes());
        let count = u16::try_from(self.chunks.len()).map_err(|_| damaged("there are too many chunks"))?;
        bytes.extend_from_slice(&count.to_be_bytes());
        for chunk in &self.chunks {
            bytes.push(u8::try_from(chunk.len()).map_err(|_| damaged("a chunk's name is too long"))?);
            bytes.extend_from_slice(chunk);
        }
        Ok(bytes)
    }

    /// Reads what is there; nothing at all is a history without anything.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        match bytes.first() {
            None => return Ok(Self::default()),
            // Text is nobody's version.
            Some(&found) if found > VERSION && found < b' ' => {
                return Err(Error::TooNew { found, known: VERSION });
            }
            Some(_) => {}
        }
        Self::read(bytes).ok_or(damaged("the root is not one of ours"))
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let (parts, rest) = rest.split_first_chunk::<2>()?;
        let (count, mut rest) = rest.split_first_chunk::<2>()?;
        let mut chunks = Vec::new();
        for _ in 0..u16::from_be_bytes(*count) {
            let (length, behind) = rest.split_first()?;
            let (chunk, behind) = behind.split_at_checked(usize::from(*length))?;
            chunks.push(chunk.to_vec());
            rest = behind;
        }
        let is_whole = rest.is_empty() && head.first() == Some(&VERSION);
        is_whole.then(|| Self { head: head.to_vec(), parts: u16::from_be_bytes(*parts), chunks })
    }
}

pub(super) const fn damaged(what: &'static str) -> Error {
    Error::Corrupt { what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_comes_back_and_bytes_that_are_none_are_refused() {
        let root = Root { head: Root::new_head(), parts: 3, chunks: vec![b"\x01\0\0".to_vec(), Vec::new()] };
        let bytes = root.encode().unwrap();
        assert_eq!(Root::decode(&bytes).unwrap(), root);
        assert_eq!(Root::decode(b"").unwrap(), Root::default());
        for length in 1..bytes.len() {
            assert!(Root::decode(&bytes[..length]).is_err(), "cut to {length}");
        }
        assert!(Root::decode(&[bytes.as_slice(), b"x"].concat()).is_err());
        assert!(Root::decode(b"hello, I am somebody else's").is_err());
        assert!(matches!(Root::decode(&[VERSION + 1]), Err(Error::TooNew { found: 2, known: 1 })));
    }
}
