//! The Unix socket: stale files are replaced, everything else is left alone.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The file of a socket that we listen on; removed with this value.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: Identity,
}

/// What tells a file from one that replaced it: the number alone may be given
/// again, and the time is that of the making.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    inode: u64,
    made: (i64, i64),
}

impl Identity {
    fn of(path: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(path)?;
        Ok(Self { inode: found.ino(), made: (found.mtime(), found.mtime_nsec()) })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Whoever replaced the file in the meantime keeps theirs.
        if Identity::of(&self.path).is_ok_and(|found| found == self.identity) {
            // Nothing can be done about a file that cannot be removed; the next start replaces it.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Listens on `path`.
pub(super) fn bind(path: &Path) -> Result<(UnixListener, SocketFile), Error> {
    let failed = |reason: String| Error::Socket { path: path.to_owned(), reason };
    make_room(path).map_err(failed)?;
    let hint = "make its folder writable, or give another path with GRPC_UDS";
    let open = || -> io::Result<_> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let identity = Identity::of(path)?;
        Ok((listener, SocketFile { path: path.to_owned(), identity }))
    };
    open().map_err(|error| failed(format!("{error}; {hint}")))
}

/// Removes a socket that nobody listens on any more.
fn make_room(path: &Path) -> Result<(), String> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(format!("{error}; give another path with GRPC_UDS")),
    };
    if !found.file_type().is_socket() {
        return Err("a file that is no socket is there; remove it, or give another path with GRPC_UDS".into());
    }
    match UnixStream::connect(path) {
        Ok(_) => Err("another process listens there; end it, or give another path with GRPC_UDS".into()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| format!("{error}; remove the stale socket by hand"))
        }
        Err(error) => Err(format!("{error}; give another path with GRPC_UDS")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_ours_is_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rls.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a closed listener leaves its file behind");
        let (_listener, file) = bind(&path).unwrap();
        UnixStream::connect(&path).expect("someone listens");
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn a_live_socket_and_a_file_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rls.sock");
        let live = UnixListener::bind(&path).unwrap();
        assert!(bind(&path).unwrap_err().to_string().contains("another process listens there"));
        UnixStream::connect(&path).expect("it still listens");
        drop(live);

        let path = folder.path().join("notes.txt");
        fs::write(&path, "keep me").unwrap();
        assert!(bind(&path).unwrap_err().to_string().contains("no socket"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "keep me");
    }

    #[test]
    fn the_file_of_whoever_came_after_us_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rls.sock");
        let (listener, file) = bind(&path).unwrap();
        drop(listener);
        let (_newer, _kept) = bind(&path).unwrap();
        drop(file);
        UnixStream::connect(&path).expect("the newer one is still there");
    }
}
