//! Where history is kept: a folder of this node, or the Redis that all nodes share.

use std::fmt;
use std::path::{Path, PathBuf};

use tollgate_history::tables::{Access, RedbTables};
use tollgate_history::{Bounds, Error, History, LocalHistory, Result, SharedHistory};
use tollgate_redis::RedisConfig;
use tollgate_redis::history::RedisTables;
use tollgate_settings::StoreSettings;

/// Where history is kept.
#[derive(Debug, Clone)]
pub enum HistoryLocation {
    /// In this folder, which no other process has open.
    Folder(PathBuf),
    /// Beside the counters.
    Redis(Box<RedisConfig>),
}

impl HistoryLocation {
    /// The Redis of the counters if they are there, or else the folder.
    pub fn new(store: &StoreSettings, history: &tollgate_settings::HistorySettings) -> Self {
        match store {
            StoreSettings::Memory(_) => Self::Folder(history.folder.clone()),
            StoreSettings::Redis(config) => Self::Redis(config.clone()),
        }
    }

    /// Whether opening it may take seconds, because a server has to answer.
    pub(crate) const fn is_remote(&self) -> bool {
        matches!(self, Self::Redis(_))
    }

    /// The folder, unless it is on Redis.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::Redis(_) => None,
        }
    }

    pub(super) fn open(&self, bounds: Bounds) -> Result<Box<dyn History>> {
        match self {
            Self::Folder(folder) => {
                Ok(Box::new(LocalHistory::open(RedbTables::open(folder, Access::Write)?, bounds)?))
            }
            Self::Redis(config) => {
                let tables = RedisTables::new(config);
                let tables = tables.map_err(|error| Error::Tables { source: error.into() })?;
                Ok(Box::new(SharedHistory::open(tables, bounds)?))
            }
        }
    }

    /// What a user can do about an error.
    pub(super) const fn fix(&self, error: &Error) -> &'static str {
        match self {
            Self::Folder(_) => fix_folder(error),
            Self::Redis(_) => fix_redis(error),
        }
    }
}

impl fmt::Display for HistoryLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            Self::Redis(config) => write!(f, "{}", config.main),
        }
    }
}

const fn fix_folder(error: &Error) -> &'static str {
    match error {
        Error::InUse { .. } => {
            "end that process, or give each server a folder of its own with --data DIR; \
             it is tried again every 15 s"
        }
        Error::File { .. } | Error::Missing { .. } => {
            "make the folder writable, or name another one with --data DIR; it is tried again every 15 s"
        }
        Error::Corrupt { .. } | Error::DamagedFile { .. } => {
            "restore the folder from a backup, or move it away and a new one is begun"
        }
        Error::TooOld { .. } => "move the folder away and a new one is begun",
        Error::TooNew { .. } => {
            "use the version of tollgate that wrote it, or name another folder with --data DIR"
        }
        Error::Tables { .. } | _ => {
            "see that the disk has room and the file history.redb is sound, or move it away and a new one \
             is begun; it is tried again every 15 s"
        }
    }
}

const fn fix_redis(error: &Error) -> &'static str {
    match error {
        Error::Corrupt { .. } | Error::TooOld { .. } => {
            "remove what is there under h1:{history}: behind your key prefix, or set another prefix"
        }
        Error::TooNew { .. } => "another node runs a newer version; update this one, too",
        Error::Full { .. } => "the logs of the nodes say why none of them compacts it",
        Error::Tables { .. } | _ => {
            "see that Redis is up, takes writes and lets this user use the keys h1:*; counts wait meanwhile, \
             and it is tried again every 15 s"
        }
    }
}
