//! Requests that are sent later: where they are kept, and how many.

use std::path::PathBuf;

use tollgate_defer::DeferConfig;

use crate::rows;
use crate::settings_reader::SettingsReader;

/// Requests that are sent later.
#[derive(Debug, Clone)]
pub struct DeferSettings {
    /// The folder, unless the store is Redis.
    pub folder: PathBuf,
    /// The bounds.
    pub config: DeferConfig,
}

pub(crate) fn read(reader: &mut SettingsReader<'_>) -> DeferSettings {
    DeferSettings {
        folder: reader.get(&rows::DATA),
        config: DeferConfig {
            max_requests: reader.get(&rows::DEFER_MAX_REQUESTS),
            max_bytes: reader.get(&rows::DEFER_MAX_BYTES),
            max_body: reader.get(&rows::DEFER_MAX_BODY),
            max_age: reader.get(&rows::DEFER_MAX_AGE),
            keep_results: reader.get(&rows::DEFER_KEEP_RESULTS),
            max_attempts: reader.get(&rows::DEFER_MAX_ATTEMPTS),
            keep_headers: reader.get(&rows::DEFER_KEEP_HEADERS),
        },
    }
}
