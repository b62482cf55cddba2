//! Tables in a folder: one redb file, and a lock file beside it.
//!
//! redb commits by copy-on-write with a checksum and one or two fsyncs; a crash
//! leaves the last commit that returned. The lock is a file of our own, because
//! it can name the process that holds it.
//!
//! Invariants:
//! - The checksums of all pages are verified when the file is opened, because redb
//!   does not verify them when it reads, and a wrong page may hide rows.
//! - redb may panic on a damaged file; that never leaves this module.
//! - To read writes nothing: what redb repairs after a crash stays in memory.
//! - Files and folders that are made here are their owner's alone.
//!
//! Deliberately not here: threads and background work; `store` says when to write.

mod overlay;

use std::cell::Cell;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use redb::{Database, DatabaseError, ReadTransaction, ReadableDatabase as _, TableDefinition, TableError};

use super::{GetVisitor, ScanVisitor, TableId, Tables, WriteBatch};
use crate::error::{Error, Result};
use overlay::OverlayFile;

/// The file with the counts.
const FILE: &str = "history.redb";
/// The file that replaces it when it is rewritten.
const NEW_FILE: &str = "history.redb.new";
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
    /// None only while this is dropped.
    database: Option<Database>,
    access: Access,
    folder: PathBuf,
    /// Whether redb had to give up the last commit, or what it knew of free pages.
    is_repaired: bool,
    /// Released after the database is closed.
    _lock: File,
}

impl RedbTables {
    /// Opens the folder, and verifies all checksums. With [`Access::Write`] it is created
    /// if it is missing.
    ///
    /// # Errors
    ///
    /// If the folder is open elsewhere, there is nothing to read, or the files are
    /// damaged or cannot be used.
    pub fn open(folder: &Path, access: Access) -> Result<Self> {
        let path = folder.join(FILE);
        match access {
            Access::Read if !path.is_file() => return Err(Error::Missing { folder: folder.into() }),
            Access::Read => {}
            Access::Write => create_folder(folder).map_err(|source| Error::File {
                action: "make the folder",
                path: folder.into(),
                source,
            })?,
        }
        let lock = lock(folder, access)?;
        let (database, is_repaired) = contained(folder, || {
            let mut database = open_file(folder, &path, access)?;
            let is_sound = database.check_integrity().map_err(|error| not_opened(folder, error))?;
            // Created only if they are missing, so that a full disk does not keep the file from being read.
            if access == Access::Write && !has_tables(folder, &database)? {
                create_tables(folder, &database)?;
            }
            Ok((database, !is_sound))
        })?;
        Ok(Self { database: Some(database), access, folder: folder.into(), is_repaired, _lock: lock })
    }

    fn database(&self) -> Result<&Database> {
        self.database.as_ref().ok_or(Error::Stale)
    }

    /// Gives free space at the end of the file back to the disk.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn compact(&mut self) -> Result<()> {
        let Self { database: Some(database), access: Access::Write, folder, .. } = self else {
            return Ok(());
        };
        contained(folder, || database.compact().map(drop).map_err(|error| failed(folder, error)))
    }
}

impl Drop for RedbTables {
    fn drop(&mut self) {
        let database = self.database.take();
        // redb writes when it is closed. What it could not write is repaired when it is next opened.
        drop(contained(&self.folder, || {
            drop(database);
            Ok(())
        }));
    }
}

thread_local! {
    /// Whether a panic on this thread is an answer about a damaged file.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Runs redb. If it panics, the file is damaged; the words of the panic are in the error and nowhere else.
fn contained<R>(folder: &Path, work: impl FnOnce() -> Result<R>) -> Result<R> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !CONTAINED.get() {
                before(panic);
            }
        }));
    });
    let outer = CONTAINED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    CONTAINED.set(outer);
    done.unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it cannot be read");
        Err(damaged(folder, words))
    })
}

fn damaged(folder: &Path, reason: &str) -> Error {
    Error::DamagedFile { path: folder.join(FILE), reason: reason.lines().next().unwrap_or_default().into() }
}

/// Makes a folder that only its owner may enter, and those above it, unless it is there.
fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Opens a file that only its owner may read, and makes it if it is not there: names of
/// keys may be secrets. One that an older version made is closed to others.
fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let is_open_to_others = file.metadata()?.permissions().mode() & 0o077 != 0;
        if is_open_to_others {
            // If it is somebody else's file, it stays as they want it.
            drop(file.set_permissions(std::fs::Permissions::from_mode(0o600)));
        }
    }
    Ok(file)
}

fn lock(folder: &Path, access: Access) -> Result<File> {
    let path = folder.join(LOCK);
    let not_used = |action| move |source| Error::File { action, path: folder.join(LOCK), source };
    let mut file = open_private(&path).map_err(not_used("open"))?;
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

fn open_file(folder: &Path, path: &Path, access: Access) -> Result<Database> {
    let not_used = |source| Error::File { action: "open", path: path.into(), source };
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    let opened = match access {
        Access::Read => builder.create_with_backend(OverlayFile::open(path).map_err(not_used)?),
        Access::Write => builder.create_file(open_private(path).map_err(not_used)?),
    };
    opened.map_err(|error| not_opened(folder, error))
}

fn create_tables(folder: &Path, database: &Database) -> Result<()> {
    let write = database.begin_write().map_err(|error| failed(folder, error))?;
    for table in TableId::ALL {
        write.open_table(definition(table)).map_err(|error| failed(folder, error))?;
    }
    write.commit().map_err(|error| failed(folder, error))
}

/// Copies all rows in one transaction.
fn copy(folder: &Path, from: &Database, to: &Database) -> Result<()> {
    let read = from.begin_read().map_err(|error| failed(folder, error))?;
    let write = to.begin_write().map_err(|error| failed(folder, error))?;
    for table in TableId::ALL {
        let mut copy = write.open_table(definition(table)).map_err(|error| failed(folder, error))?;
        let Some(opened) = open_table(folder, &read, table)? else { continue };
        for pair in opened.range::<&[u8]>(..).map_err(|error| failed(folder, error))? {
            let (key, value) = pair.map_err(|error| failed(folder, error))?;
            copy.insert(key.value(), value.value()).map_err(|error| failed(folder, error))?;
        }
    }
    write.commit().map_err(|error| failed(folder, error))
}

fn has_tables(folder: &Path, database: &Database) -> Result<bool> {
    let read = database.begin_read().map_err(|error| failed(folder, error))?;
    for table in TableId::ALL {
        if open_table(folder, &read, table)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn not_opened(folder: &Path, error: DatabaseError) -> Error {
    if matches!(error, DatabaseError::DatabaseAlreadyOpen) {
        return Error::InUse { folder: folder.into(), holder: "another process".into() };
    }
    failed(folder, error)
}

fn failed(folder: &Path, error: impl Into<redb::Error>) -> Error {
    let error = error.into();
    if let redb::Error::Corrupted(reason) = &error {
        return damaged(folder, reason);
    }
    if let redb::Error::Io(error) = &error
        && error.kind() == io::ErrorKind::InvalidData
    {
        return damaged(folder, &error.to_string());
    }
    Error::Tables { source: Box::new(error) }
}

const fn definition(table: TableId) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
    TableDefinition::new(table.name())
}

/// One table; none if nothing was ever written to the file.
fn open_table(folder: &Path, read: &ReadTransaction, table: TableId) -> Result<Option<ReadOnlyTable>> {
    match read.open_table(definition(table)) {
        Ok(opened) => Ok(Some(opened)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(failed(folder, error)),
    }
}

type ReadOnlyTable = redb::ReadOnlyTable<&'static [u8], &'static [u8]>;

impl RedbTables {
    /// Reads one table, if it is there.
    fn read(&self, table: TableId, read: impl FnOnce(&ReadOnlyTable) -> Result<()>) -> Result<()> {
        let folder = self.folder.as_path();
        contained(folder, || {
            let begun = self.database()?.begin_read().map_err(|error| failed(folder, error))?;
            open_table(folder, &begun, table)?.map_or(Ok(()), |opened| read(&opened))
        })
    }
}

impl Tables for RedbTables {
    fn get_many(&self, table: TableId, keys: &[Vec<u8>], visit: &mut GetVisitor<'_>) -> Result<()> {
        let failed = |error| failed(&self.folder, error);
        self.read(table, |opened| {
            for (place, key) in keys.iter().enumerate() {
                if let Some(value) = opened.get(key.as_slice()).map_err(failed)? {
                    visit(place, value.value())?;
                }
            }
            Ok(())
        })
    }

    fn scan(&self, table: TableId, range: Range<&[u8]>, visit: &mut ScanVisitor<'_>) -> Result<()> {
        if range.start >= range.end {
            return Ok(());
        }
        let failed = |error| failed(&self.folder, error);
        self.read(table, |opened| {
            for pair in opened.range(range).map_err(failed)? {
                let (key, value) = pair.map_err(failed)?;
                if visit(key.value(), value.value())?.is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    fn commit(&mut self, batch: &WriteBatch) -> Result<()> {
        let folder = self.folder.as_path();
        if self.access == Access::Read {
            let source = io::Error::other("it was opened to be read");
            return Err(Error::File { action: "write to", path: folder.into(), source });
        }
        contained(folder, || {
            let write = self.database()?.begin_write().map_err(|error| failed(folder, error))?;
            for table in TableId::ALL {
                let mut opened =
                    write.open_table(definition(table)).map_err(|error| failed(folder, error))?;
                for (_, key) in batch.removes.iter().filter(|(of, _)| *of == table) {
                    opened.remove(key.as_slice()).map_err(|error| failed(folder, error))?;
                }
                for (_, key, value) in batch.puts.iter().filter(|(of, _, _)| *of == table) {
                    opened.insert(key.as_slice(), value.as_slice()).map_err(|error| failed(folder, error))?;
                }
            }
            write.commit().map_err(|error| failed(folder, error))
        })
    }

    fn size_bytes(&self) -> Result<Option<u64>> {
        let path = self.folder.join(FILE);
        let about = std::fs::metadata(&path);
        about.map(|about| Some(about.len())).map_err(|source| Error::File { action: "look at", path, source })
    }

    fn rewrite(&mut self) -> Result<()> {
        let (path, new) = (self.folder.join(FILE), self.folder.join(NEW_FILE));
        let folder = self.folder.clone();
        let not_used = |action, path: &Path| {
            let path = path.to_owned();
            move |source| Error::File { action, path, source }
        };
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(not_used("remove", &new)(error));
            }
            _ => {}
        }
        contained(&folder, || copy(&folder, self.database()?, &open_file(&folder, &new, Access::Write)?))?;
        let old = self.database.take();
        drop(contained(&folder, || {
            drop(old);
            Ok(())
        }));
        let renamed = std::fs::rename(&new, &path).and_then(|()| File::open(&folder)?.sync_all());
        renamed.map_err(not_used("replace", &path))?;
        self.database = Some(contained(&folder, || open_file(&folder, &path, Access::Write))?);
        Ok(())
    }

    fn damaged(&self) -> u64 {
        u64::from(self.is_repaired)
    }
}
