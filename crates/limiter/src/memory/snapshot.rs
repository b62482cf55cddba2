//! The memory store on disk, so that its counters survive a restart.
//!
//! [`MemoryStore::save`] writes one file, [`MemoryStore::restore`] makes a store
//! of it. Little-endian:
//!
//! | piece | bytes |
//! |---|---|
//! | `TOLLGATE`, the version | 8 + 4 |
//! | the seed of the hashes, and the hash of a known text | 16 + 8 |
//! | each key: its hash, the length of its state, the state | 8 + 4 + … |
//! | the end: a hash of 0, how many keys, the checksum of all before | 8 + 8 + 8 |
//!
//! A state of 16 bytes is a cell, any other a log.
//!
//! Invariants: the file is whole or not there: it is written beside its place,
//! synced, and moved, or removed if that fails; a file that is torn, foreign or from another kind of hash
//! changes nothing; one shard is locked at a time, and only while it is copied.
//!
//! Deliberately not here: when to save, and where.

use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use tollgate_core::{Cell, Change, Log, State, StateRef, Time};

use super::seed::Seed;
use super::{Capacity, MemoryStore};

const MAGIC: [u8; 8] = *b"TOLLGATE";
const VERSION: u32 = 2;
/// Hashed with the seed: a build that hashes otherwise would find no key again.
const KNOWN_TEXT: &[u8] = b"the hash of this text";
const CELL_BYTES: usize = 16;
/// No state is longer: ten thousand entries of at most sixteen bytes.
const STATE_BYTES_MAX: usize = 256 * 1024;

/// Why a snapshot cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The system refuses.
    #[error("{path}: {source}", path = .path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is not a whole snapshot of this version.
    #[error("{path}: {reason}", path = .path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl MemoryStore {
    /// Writes all keys to `path`, and says how many.
    ///
    /// ```
    /// use tollgate_core::Time;
    /// use tollgate_limiter::{Capacity, MemoryStore};
    /// # let folder = std::env::temp_dir().join(format!("tollgate-doc-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let path = folder.join("counters");
    /// let store = MemoryStore::default();
    /// assert_eq!(store.save(&path)?, 0);
    /// let restored = MemoryStore::restore(&path, Capacity::default(), Time::EPOCH)?;
    /// assert_eq!(restored.usage().keys, 0);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the system refuses; a snapshot that was there before is untouched.
    pub fn save(&self, path: &Path) -> Result<u64, SnapshotError> {
        let beside = beside(path);
        let written = self.write(&beside).and_then(|keys| {
            fs::rename(&beside, path)?;
            sync_folder(path)?;
            Ok(keys)
        });
        if written.is_err() {
            // Half a snapshot is of no use, and the disk may be full. It may be in its place already.
            drop(fs::remove_file(&beside));
        }
        written.map_err(|source| SnapshotError::System { path: path.to_owned(), source })
    }

    fn write(&self, path: &Path) -> io::Result<u64> {
        let mut out = Summed::new(BufWriter::new(create_private(path)?));
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        for word in self.seed.words() {
            out.write_all(&word.to_le_bytes())?;
        }
        out.write_all(&known_hash(&self.seed).to_le_bytes())?;
        let mut keys = 0;
        let mut copy = Vec::new();
        for shard in &self.shards {
            copy.clear();
            {
                let table = shard.table.lock();
                for (hash, state) in table.states() {
                    write_key(hash, state, &mut copy);
                    keys += 1;
                }
            }
            out.write_all(&copy)?;
        }
        out.write_all(&0_u64.to_le_bytes())?;
        out.write_all(&u64::to_le_bytes(keys))?;
        let sum = out.sum;
        out.write_all(&sum.to_le_bytes())?;
        let file = out.inner.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok(keys)
    }

    /// The store that was saved to `path`, without what has run out by `now`;
    /// an empty one if there is no such file.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a whole snapshot of this version.
    pub fn restore(path: &Path, capacity: Capacity, now: Time) -> Result<Self, SnapshotError> {
        let unusable = |reason| SnapshotError::Unusable { path: path.to_owned(), reason };
        let system = |source| SnapshotError::System { path: path.to_owned(), source };
        // Opening a FIFO would wait until somebody writes to it.
        if path.metadata().is_ok_and(|about| !about.is_file()) {
            return Err(unusable("it is a FIFO, a device or a folder, and not a file"));
        }
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::new(capacity)),
            Err(error) => return Err(system(error)),
        };
        match read(&mut Summed::new(BufReader::new(file)), capacity, now) {
            Ok(store) => Ok(store),
            Err(Broken::Reason(reason)) => Err(unusable(reason)),
            Err(Broken::System(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(unusable("it ends too early"))
            }
            Err(Broken::System(error)) => Err(system(error)),
        }
    }
}

/// Why reading stops.
enum Broken {
    System(io::Error),
    Reason(&'static str),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

fn read(file: &mut Summed<impl Read>, capacity: Capacity, now: Time) -> Result<MemoryStore, Broken> {
    if file.array::<8>()? != MAGIC {
        return Err(Broken::Reason("it is not a snapshot of Tollgate"));
    }
    if u32::from_le_bytes(file.array()?) != VERSION {
        return Err(Broken::Reason("it is of another version"));
    }
    let seed = Seed::of([file.number()?, file.number()?]);
    if file.number()? != known_hash(&seed) {
        return Err(Broken::Reason("it was written by a build that hashes otherwise"));
    }
    let store = MemoryStore::with_seed(capacity, seed);
    let mut keys = 0;
    loop {
        let hash = file.number()?;
        if hash == 0 {
            break;
        }
        keys += 1;
        let state = read_state(file)?;
        if state.deadline() > now {
            let shard = store.shard(store.shard_of(hash));
            drop(store.change(shard, |table| table.change(hash, Change::Put(state), now)));
        }
    }
    if file.number()? != keys {
        return Err(Broken::Reason("keys are missing"));
    }
    let sum = file.sum;
    if file.number()? != sum {
        return Err(Broken::Reason("its checksum does not match"));
    }
    if file.inner.read(&mut [0])? != 0 {
        return Err(Broken::Reason("something follows its end"));
    }
    Ok(store)
}

fn read_state(file: &mut Summed<impl Read>) -> Result<State, Broken> {
    let length = usize::try_from(u32::from_le_bytes(file.array()?)).unwrap_or(usize::MAX);
    if length == CELL_BYTES {
        return Ok(State::Cell(Cell::unpack([file.number()?, file.number()?])));
    }
    if length > STATE_BYTES_MAX {
        return Err(Broken::Reason("a state is too long"));
    }
    let mut bytes = vec![0; length];
    file.fill(&mut bytes)?;
    Log::read_bytes(&bytes).map(State::Log).ok_or(Broken::Reason("a log does not add up"))
}

/// A file that only its owner may read, since it holds the secret that keys are hashed with.
fn create_private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn write_key(hash: u64, state: StateRef<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&hash.to_le_bytes());
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    match state {
        StateRef::Cell(cell) => {
            for word in cell.pack() {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
        StateRef::Log(log) => log.write_bytes(out),
    }
    let length = u32::try_from(out.len() - length_at - 4).unwrap_or(u32::MAX).to_le_bytes();
    if let Some(place) = out.get_mut(length_at..length_at + 4) {
        place.copy_from_slice(&length);
    }
}

fn known_hash(seed: &Seed) -> u64 {
    let mut hasher = seed.hasher();
    hasher.write(KNOWN_TEXT);
    hasher.finish()
}

/// Where a file is written before it is moved to its place.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}

/// A move is only certain to be kept once its folder is.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// Sums up what passes through: FNV-1a of 64 bits.
struct Summed<T> {
    inner: T,
    sum: u64,
}

impl<T> Summed<T> {
    const fn new(inner: T) -> Self {
        Self { inner, sum: 0xCBF2_9CE4_8422_2325 }
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.sum = (self.sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
}

impl<T: Write> Summed<T> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.add(bytes);
        self.inner.write_all(bytes)
    }
}

impl<T: Read> Summed<T> {
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.inner.read_exact(bytes)?;
        self.add(bytes);
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn number(&mut self) -> io::Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }
}

#[cfg(test)]
mod tests;
