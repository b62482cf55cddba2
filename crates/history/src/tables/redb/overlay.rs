//! A file that is read, and whose changes stay in memory.
//!
//! redb repairs a file after a crash before it reads it, and verifies checksums only of
//! files that it may write to. With this one it may, and the file stays as it is.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use parking_lot::Mutex;
use redb::StorageBackend;

use crate::bytes::{index, wide};

/// Bytes that are changed together: a page of redb, which mostly writes whole ones.
const PAGE: usize = 4_096;

#[derive(Debug)]
pub(super) struct OverlayFile(Mutex<OverlayState>);

#[derive(Debug)]
struct OverlayState {
    file: File,
    file_bytes: u64,
    bytes: u64,
    /// Pages that were written, by number.
    pages: BTreeMap<u64, Vec<u8>>,
}

impl OverlayFile {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self(Mutex::new(OverlayState { file, file_bytes: bytes, bytes, pages: BTreeMap::new() })))
    }
}

impl OverlayState {
    /// What the file has there; zeros beyond its end.
    fn read_file(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = index(self.file_bytes.saturating_sub(offset)).min(out.len());
        let (file, beyond) = out.split_at_mut(there);
        beyond.fill(0);
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.read_exact(file)
    }

    /// Calls `act` for every page of a range: its number, where the range begins in it,
    /// and how many bytes it has of it.
    fn each_page(
        offset: u64,
        length: usize,
        mut act: impl FnMut(u64, usize, Range) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < length {
            let at = offset + wide(done);
            let within = index(at % wide(PAGE));
            let count = (PAGE - within).min(length - done);
            act(at / wide(PAGE), within, done..done + count)?;
            done += count;
        }
        Ok(())
    }
}

type Range = std::ops::Range<usize>;

impl StorageBackend for OverlayFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().bytes)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.0.lock();
        if offset.saturating_add(wide(out.len())) > state.bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        state.read_file(offset, out)?;
        OverlayState::each_page(offset, out.len(), |page, within, part| {
            let kept = state.pages.get(&page).and_then(|page| page.get(within..within + part.len()));
            if let (Some(kept), Some(out)) = (kept, out.get_mut(part)) {
                out.copy_from_slice(kept);
            }
            Ok(())
        })
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.0.lock();
        // What is cut off is zero if it ever comes back.
        state.file_bytes = state.file_bytes.min(bytes);
        let end = bytes.div_ceil(wide(PAGE));
        state.pages.split_off(&end);
        let rest = index(bytes % wide(PAGE));
        if let Some(last) = state.pages.get_mut(&(bytes / wide(PAGE))) {
            last.iter_mut().skip(rest).for_each(|byte| *byte = 0);
        }
        state.bytes = bytes;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock();
        OverlayState::each_page(offset, data.len(), |page, within, part| {
            if !state.pages.contains_key(&page) {
                let mut kept = vec![0; PAGE];
                state.read_file(page * wide(PAGE), &mut kept)?;
                state.pages.insert(page, kept);
            }
            let kept = state.pages.get_mut(&page).and_then(|kept| kept.get_mut(within..within + part.len()));
            if let (Some(kept), Some(data)) = (kept, data.get(part)) {
                kept.copy_from_slice(data);
            }
            Ok(())
        })?;
        state.bytes = state.bytes.max(offset + wide(data.len()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_the_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let before: Vec<u8> = (0..10_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        std::fs::write(&path, &before).unwrap();
        let file = OverlayFile::open(&path).unwrap();
        let mut expected = before.clone();
        for (offset, length) in [(4_000, 200), (0, 10), (9_990, 500), (8_192, 1)] {
            let data = vec![0xff; length];
            file.write(u64::try_from(offset).unwrap(), &data).unwrap();
            expected.resize(expected.len().max(offset + length), 0);
            expected[offset..offset + length].copy_from_slice(&data);
        }
        let mut came = vec![0; expected.len()];
        file.read(0, &mut came).unwrap();
        assert!(came == expected);
        assert!(file.read(1, &mut came).is_err(), "beyond the end");
        file.set_len(5_000).unwrap();
        file.set_len(12_000).unwrap();
        expected.resize(5_000, 0);
        expected.resize(12_000, 0);
        came.resize(12_000, 1);
        file.read(0, &mut came).unwrap();
        assert!(came == expected, "what was cut off is zero");
        assert!(std::fs::read(&path).unwrap() == before);
    }
}
