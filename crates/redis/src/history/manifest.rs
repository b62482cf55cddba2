//! The manifest: the one small value that says what is in force.
//!
//! ```text
//! version  generation  parts of the redo log  chunks  per chunk: length, name
//! u8       16 bytes    u16 BE                 u16 BE             u8      bytes
//! ```
//!
//! Every commit writes it once, and that is when the commit happens: from then on there
//! is a new generation, with the changes of [`super::redo`] as long as it has parts.
//!
//! Invariant: no two commits have the same generation.

use tollgate_history::{Error, InstanceId, Result};

/// The format that is written.
const VERSION: u8 = 1;

/// Version and generation, which scripts compare.
pub(super) const GENERATION_BYTES: usize = 17;

/// What is in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    /// Version and generation; empty if nothing was ever committed.
    pub(super) generation: Vec<u8>,
    /// Parts of the redo log; 0 once they are applied.
    pub(super) redo_parts: u16,
    /// The names of all chunks, in order.
    pub(super) chunks: Vec<Vec<u8>>,
}

impl Manifest {
    /// A generation that no other commit has.
    pub(super) fn new_generation() -> Vec<u8> {
        let mut generation = vec![VERSION];
        generation.extend_from_slice(&InstanceId::random().0);
        generation
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes = self.generation.clone();
        bytes.extend_from_slice(&self.redo_parts.to_be_bytes());
        let count = u16::try_from(self.chunks.len()).map_err(|_| damaged("there are too many chunks"))?;
        bytes.extend_from_slice(&count.to_be_bytes());
        for chunk in &self.chunks {
            bytes.push(u8::try_from(chunk.len()).map_err(|_| damaged("a chunk's name is too long"))?);
            bytes.extend_from_slice(chunk);
        }
        Ok(bytes)
    }

    /// Reads a manifest; no bytes are an empty history.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        match bytes.first() {
            None => return Ok(Self::default()),
            // Printable text is no version.
            Some(&found) if found > VERSION && found < b' ' => {
                return Err(Error::TooNew { found, known: VERSION });
            }
            Some(_) => {}
        }
        Self::read(bytes).ok_or(damaged("the root is not one of ours"))
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (generation, rest) = bytes.split_at_checked(GENERATION_BYTES)?;
        let (parts, rest) = rest.split_first_chunk::<2>()?;
        let (count, mut rest) = rest.split_first_chunk::<2>()?;
        let mut chunks = Vec::new();
        for _ in 0..u16::from_be_bytes(*count) {
            let (length, behind) = rest.split_first()?;
            let (chunk, behind) = behind.split_at_checked(usize::from(*length))?;
            chunks.push(chunk.to_vec());
            rest = behind;
        }
        let is_whole = rest.is_empty() && generation.first() == Some(&VERSION);
        let redo_parts = u16::from_be_bytes(*parts);
        is_whole.then(|| Self { generation: generation.to_vec(), redo_parts, chunks })
    }
}

pub(super) const fn damaged(what: &'static str) -> Error {
    Error::Corrupt { what }
}

/// The names of the parts of a commit, which no other commit has.
pub(super) fn part_names(manifest: &Manifest) -> impl Iterator<Item = Vec<u8>> + '_ {
    (0..manifest.redo_parts).map(|part| [manifest.generation.as_slice(), &part.to_be_bytes()].concat())
}

/// Redis answered something that none of our commands is answered with.
pub(super) const fn unexpected() -> Error {
    damaged("an unexpected reply of Redis")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_comes_back_and_other_bytes_are_refused() {
        let chunks = vec![b"\x01\0\0".to_vec(), Vec::new()];
        let manifest = Manifest { generation: Manifest::new_generation(), redo_parts: 3, chunks };
        let bytes = manifest.encode().unwrap();
        assert_eq!(Manifest::decode(&bytes).unwrap(), manifest);
        assert_eq!(Manifest::decode(b"").unwrap(), Manifest::default());
        for length in 1..bytes.len() {
            assert!(Manifest::decode(&bytes[..length]).is_err(), "cut to {length}");
        }
        assert!(Manifest::decode(&[bytes.as_slice(), b"x"].concat()).is_err());
        assert!(Manifest::decode(b"hello, I am somebody else's").is_err());
        assert!(matches!(Manifest::decode(&[VERSION + 1]), Err(Error::TooNew { found: 2, known: 1 })));
    }
}
