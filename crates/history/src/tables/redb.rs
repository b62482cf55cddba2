//! Tables in a folder: one redb file, and a lock file beside it.
//!
//! redb commits by copy-on-write with a checksum and one or two fsyncs; a crash
//! leaves the last commit that returned. The lock is a file of our own, because
//! it can name the process that holds it.
//!
//! Deliberately not here: threads and background work; `store` says when to write.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redb::{
    Database, DatabaseError, ReadOnlyDatabase, ReadTransaction, ReadableDatabase as _, TableDefinition,
    TableError,
};

use super::{GetVisitor, ScanVisitor, TableId, Tables, WriteBatch};
use crate::error::{Error, Result};

/// The file with the counts.
const FILE: &str = "history.redb";
/// The file that is locked while the folder is open.
const LOCK: &str = "history.lock";
/// How often a lock that is held is tried, and the pause between: a fifth of a second in all.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Page cache, in bytes: holds nearly all of 10,000 series at full retention.
const CACHE_BYTES: usize = 64 << 20;

/// How a folder is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To read. Several processes may at once; nothing is created.
    Read,
    /// To read and write. One process at a time.
    Write,
}

/// An open folder.
#[derive(Debug)]
pub struct RedbTables {
    database: Opened,
    folder: PathBuf,
    /// Released after the database is closed.
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

impl RedbTables {
    /// Opens the folder. With [`Access::Write`] it is created if it is missing.
    ///
    /// # Errors
    ///
    /// If the folder is open elsewhere, there is nothing to read, or the files
    /// cannot be used.
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
        begun.map_err(failed)
    }

    /// Gives free space at the end of the file back to the disk.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn compact(&mut self) -> Result<()> {
        if let Opened::Write(database) = &mut self.database {
            database.compact().map_err(failed)?;
        }
        Ok(())
    }
}

fn lock(folder: &Path, access: Access) -> Result<File> {
    let path = folder.join(LOCK);
    let not_used = |action| move |source| Error::File { action, path: folder.join(LOCK), source };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(&path).map_err(not_used("open"))?;
    match try_lock(&file, access) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // The holder's name only makes the message better.
            drop(file.read_to_string(&mut holder));
            let holder = match holder.trim() {
                "" => "another process".to_owned(),
                pid => format!("process {pid}"),
            };
            return Err(Error::InUse { folder: folder.into(), holder });
        }
        Err(TryLockError::Error(source)) => return Err(not_used("lock")(source)),
    }
    if access == Access::Write {
        let noted = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| write!(file, "{}", std::process::id()));
        noted.map_err(not_used("write"))?;
    }
    Ok(file)
}

/// Takes the lock. One that is held is tried again for a moment: a process that is just ending still has
/// it, and so does a child of this one between fork and exec.
#[expect(clippy::disallowed_methods, reason = "this thread waits for files anyway, and the wait is bounded")]
fn try_lock(file: &File, access: Access) -> Result<(), TryLockError> {
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
    // Created only if they are missing, so that a full disk does not keep the file from being read.
    if !has_tables(&database)? {
        let write = database.begin_write().map_err(failed)?;
        for table in TableId::ALL {
            write.open_table(definition(table)).map_err(failed)?;
        }
        write.commit().map_err(failed)?;
    }
    Ok(database)
}

fn has_tables(database: &Database) -> Result<bool> {
    let read = database.begin_read().map_err(failed)?;
    for table in TableId::ALL {
        if open_table(&read, table)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// After a crash redb repairs the file, which needs write access.
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
    failed(error)
}

fn failed(error: impl Into<redb::Error>) -> Error {
    Error::Tables { source: Box::new(error.into()) }
}

const fn definition(table: TableId) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
    TableDefinition::new(table.name())
}

/// One table; none if nothing was ever written to the file.
fn open_table(read: &ReadTransaction, table: TableId) -> Result<Option<ReadOnlyTable>> {
    match read.open_table(definition(table)) {
        Ok(opened) => Ok(Some(opened)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

type ReadOnlyTable = redb::ReadOnlyTable<&'static [u8], &'static [u8]>;

impl Tables for RedbTables {
    fn get_many(&self, table: TableId, keys: &[Vec<u8>], visit: &mut GetVisitor<'_>) -> Result<()> {
        let Some(opened) = open_table(&self.begin_read()?, table)? else { return Ok(()) };
        for (place, key) in keys.iter().enumerate() {
            if let Some(value) = opened.get(key.as_slice()).map_err(failed)? {
                visit(place, value.value())?;
            }
        }
        Ok(())
    }

    fn scan(&self, table: TableId, range: Range<&[u8]>, visit: &mut ScanVisitor<'_>) -> Result<()> {
        if range.start >= range.end {
            return Ok(());
        }
        let Some(opened) = open_table(&self.begin_read()?, table)? else { return Ok(()) };
        for pair in opened.range(range).map_err(failed)? {
            let (key, value) = pair.map_err(failed)?;
            if visit(key.value(), value.value())?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn commit(&mut self, batch: &WriteBatch) -> Result<()> {
        let Opened::Write(database) = &self.database else {
            return Err(Error::File {
                action: "write to",
                path: self.folder.clone(),
                source: std::io::Error::other("it was opened to be read"),
            });
        };
        let write = database.begin_write().map_err(failed)?;
        for table in TableId::ALL {
            let mut opened = write.open_table(definition(table)).map_err(failed)?;
            for (_, key) in batch.removes.iter().filter(|(of, _)| *of == table) {
                opened.remove(key.as_slice()).map_err(failed)?;
            }
            for (_, key, value) in batch.puts.iter().filter(|(of, _, _)| *of == table) {
                opened.insert(key.as_slice(), value.as_slice()).map_err(failed)?;
            }
        }
        write.commit().map_err(failed)
    }

    fn size_bytes(&self) -> Result<Option<u64>> {
        let path = self.folder.join(FILE);
        let about = std::fs::metadata(&path);
        about.map(|about| Some(about.len())).map_err(|source| Error::File { action: "look at", path, source })
    }
}
