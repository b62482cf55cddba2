//! What the command line says.

use std::collections::HashMap;
use std::fmt;

use crate::row::SettingRow;

/// The values of flags; everything is optional.
#[derive(Clone, Default)]
pub struct Flags {
    /// By the name of the flag, in the order given.
    values: HashMap<&'static str, Vec<String>>,
}

impl Flags {
    /// The same with one more flag; one that may be given only once is replaced.
    pub fn with(mut self, row: &SettingRow, value: impl Into<String>) -> Self {
        let values = self.values.entry(row.flag).or_default();
        if !row.is_repeatable {
            values.clear();
        }
        values.push(value.into());
        self
    }

    pub(crate) fn get(&self, row: &SettingRow) -> Option<&[String]> {
        if row.flag.is_empty() { None } else { self.values.get(row.flag).map(Vec::as_slice) }
    }
}

/// Only the names: `--store` may hold a password.
impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}
