//! The engine in a folder: one redb file, and a lock beside it.
//!
//! redb commits by copy-on-write with a checksum and one or two fsyncs; a crash
//! leaves the last commit that returned. The lock is a file of our own, because
//! it can say who holds it.
//!
//! Deliberately not here: threads and background work; the store says when.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redb::{
    Database, DatabaseError, ReadOnlyDatabase, ReadTransaction, ReadableDatabase as _, TableDefinition,
    TableError,
};

use super::{Batch, Engine, Table, Visit};
use crate::error::{Error, Result};

/// The file with the counts.
const FILE: &str = "history.redb";
/// The file that is locked while the folder is open.
const LOCK: &str = "history.lock";
/// A lock that is held is tried so often, with this pause: a fifth of a second in all.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Bytes of pages that may stay in memory: nearly all of 10,000 series at full retention. A small history
/// takes what it has.
const CACHE_BYTES: usize = 64 << 20;

/// How a folder is opened.
///
/// ```
/// use tollgate_history::engine::Access;
/// assert_ne!(Access::Read, Access::Write);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To ask; several may at once, and nothing is made if there is nothing.
    Read,
    /// To ask and to write; one at a time.
    Write,
}

/// An open folder.
///
/// ```no_run
/// use tollgate_history::engine::{Access, Embedded};
/// let engine = Embedded::open("tollgate-data".as_ref(), Access::Write)?;
/// # Ok::<(), tollgate_history::Error>(())
/// ```
#[derive(Debug)]
pub struct Embedded {
    database: Opened,
    folder: PathBuf,
    /// Held until the engine goes, after the database.
    _lock: File,
}

enum Opened {
    Read(ReadOnlyDatabase),
    Write(Database),
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Read(_) => "Read",
            Self::Write(_) => "Write",
        })
    }
}

impl Embedded {
    /// Opens the folder; to write, it is made if it is not there.
    ///
    /// # Errors
    ///
    /// If the folder is open elsewhere, if there is nothing to read, or if the
    /// files cannot be used.
    pub fn open(folder: &Path, access: Access) -> Result<Self> {
        let path = folder.join(FILE);
        match access {
            Access::Read if !path.is_file() => return Err(Error::Missing { folder: folder.into() }),
            Access::Read => {}
            Access::Write => std::fs::create_dir_all(folder).map_err(|source| Error::File {
                action: "make the folder",
                path: folder.into(),
                source,
            })?,
        }
        let lock = lock(folder, access)?;
        let database = match access {
            Access::Read => Opened::Read(open_to_read(folder, &path)?),
            Access::Write => Opened::Write(open_to_write(folder, &path)?),
        };
        Ok(Self { database, folder: folder.into(), _lock: lock })
    }

    fn begin_read(&self) -> Result<ReadTransaction> {
        let begun = match &self.database {
            Opened::Read(database) => database.begin_read(),
            Opened::Write(database) => database.begin_read(),
        };
        begun.map_err(engine)
    }

    /// Gives free space at the end of the file back to the disk.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn compact(&mut self) -> Result<()> {
        if let Opened::Write(database) = &mut self.database {
            database.compact().map_err(engine)?;
        }
        Ok(())
    }
}

fn lock(folder: &Path, access: Access) -> Result<File> {
    let path = folder.join(LOCK);
    let failed = |action| move |source| Error::File { action, path: folder.join(LOCK), source };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(&path).map_err(failed("open"))?;
    match take(&file, access) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // Who holds it is a help, and not knowing it no reason to fail.
            drop(file.read_to_string(&mut holder));
            let holder = match holder.trim() {
                "" => "another process".to_owned(),
                pid => format!("process {pid}"),
            };
            return Err(Error::InUse { folder: folder.into(), holder });
        }
        Err(TryLockError::Error(source)) => return Err(failed("lock")(source)),
    }
    if access == Access::Write {
        let noted = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| write!(file, "{}", std::process::id()));
        noted.map_err(failed("write"))?;
    }
    Ok(file)
}

/// Takes a lock. One that is held is tried again for a moment: whoever ends just now still has it, and
/// so has a process that is being started from here, until it is what it is to be.
#[expect(clippy::disallowed_methods, reason = "files are waited for here anyway, and this is bounded")]
fn take(file: &File, access: Access) -> Result<(), TryLockError> {
    let attempt = || match access {
        Access::Read => file.try_lock_shared(),
        Access::Write => file.try_lock(),
    };
    for _ in 1..LOCK_TRIES {
        match attempt() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            other => return other,
        }
    }
    attempt()
}

fn open_to_write(folder: &Path, path: &Path) -> Result<Database> {
    let opened = Database::builder().set_cache_size(CACHE_BYTES).create(path);
    let database = opened.map_err(|error| not_opened(folder, error))?;
    // A disk that is full is no reason not to read what is there.
    if !has_tables(&database)? {
        let write = database.begin_write().map_err(engine)?;
        for table in Table::ALL {
            write.open_table(definition(table)).map_err(engine)?;
        }
        write.commit().map_err(engine)?;
    }
    Ok(database)
}

fn has_tables(database: &Database) -> Result<bool> {
    let read = database.begin_read().map_err(engine)?;
    for table in Table::ALL {
        match read.open_table(definition(table)) {
            Ok(_) => {}
            Err(TableError::TableDoesNotExist(_)) => return Ok(false),
            Err(error) => return Err(engine(error)),
        }
    }
    Ok(true)
}

/// After a crash the file wants a repair, which needs to write: done first.
fn open_to_read(folder: &Path, path: &Path) -> Result<ReadOnlyDatabase> {
    let open = || Database::builder().set_cache_size(CACHE_BYTES).open_read_only(path);
    match open() {
        Err(DatabaseError::RepairAborted) => {
            drop(Database::open(path).map_err(|error| not_opened(folder, error))?);
            open().map_err(|error| not_opened(folder, error))
        }
        other => other.map_err(|error| not_opened(folder, error)),
    }
}

fn not_opened(folder: &Path, error: DatabaseError) -> Error {
    if matches!(error, DatabaseError::DatabaseAlreadyOpen) {
        return Error::InUse { folder: folder.into(), holder: "another process".into() };
    }
    engine(error)
}

fn engine(error: impl Into<redb::Error>) -> Error {
    Error::Engine { source: Box::new(error.into()) }
}

const fn definition(table: Table) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
    TableDefinition::new(match table {
        Table::Meta => "meta",
        Table::Series => "series",
        Table::Seen => "seen",
        Table::Log => "log",
        Table::Blocks => "blocks",
    })
}

impl Engine for Embedded {
    fn get_many(&self, table: Table, keys: &[Vec<u8>], visit: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let read = self.begin_read()?;
        let opened = match read.open_table(definition(table)) {
            Ok(opened) => opened,
            Err(TableError::TableDoesNotExist(_)) => return Ok(()),
            Err(error) => return Err(engine(error)),
        };
        for (place, key) in keys.iter().enumerate() {
            if let Some(value) = opened.get(key.as_slice()).map_err(engine)? {
                visit(place, value.value());
            }
        }
        Ok(())
    }

    fn scan(&self, table: Table, range: Range<&[u8]>, visit: &mut Visit<'_>) -> Result<()> {
        if range.start >= range.end {
            return Ok(());
        }
        let read = self.begin_read()?;
        let opened = match read.open_table(definition(table)) {
            Ok(opened) => opened,
            Err(TableError::TableDoesNotExist(_)) => return Ok(()),
            Err(error) => return Err(engine(error)),
        };
        for pair in opened.range(range).map_err(engine)? {
            let (key, value) = pair.map_err(engine)?;
            if visit(key.value(), value.value()).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn commit(&mut self, batch: &Batch) -> Result<()> {
        let Opened::Write(database) = &self.database else {
            return Err(Error::File {
                action: "write to",
                path: self.folder.clone(),
                source: std::io::Error::other("it was opened to be read"),
            });
        };
        let write = database.begin_write().map_err(engine)?;
        for table in Table::ALL {
            let mut opened = write.open_table(definition(table)).map_err(engine)?;
            for (_, key) in batch.removes.iter().filter(|(of, _)| *of == table) {
                opened.remove(key.as_slice()).map_err(engine)?;
            }
            for (_, key, value) in batch.puts.iter().filter(|(of, _, _)| *of == table) {
                opened.insert(key.as_slice(), value.as_slice()).map_err(engine)?;
            }
        }
        write.commit().map_err(engine)
    }

    fn disk_bytes(&self) -> Result<Option<u64>> {
        let path = self.folder.join(FILE);
        let about = std::fs::metadata(&path);
        about.map(|about| Some(about.len())).map_err(|source| Error::File { action: "look at", path, source })
    }
}
