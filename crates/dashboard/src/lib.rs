//! The web page for operators: its files, compressed.
//!
//! The build script makes them from `dashboard/`; `server/src/admin/page.rs` serves them.
//! Where npm was missing, the one file there is says how to get the others.
//!
//! Invariant: the same bytes have the same tag, and others another.
//!
//! Deliberately not here: HTTP.

use std::io::Read as _;

/// One file of the page.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    /// Where it is served, with a slash in front; `/index.html` is the page itself.
    pub path: &'static str,
    /// Its media type.
    pub content_type: &'static str,
    /// A hash of its bytes.
    pub tag: &'static str,
    /// Its bytes, compressed.
    pub gzip: &'static [u8],
}

/// Sorted by path.
static ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The file at a path.
pub fn asset(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

/// Whether the page is there, and not only the one that says why it is not.
pub fn is_built() -> bool {
    ASSETS.len() > 1
}

impl Asset {
    /// Its bytes as they were before compression.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let read = flate2::read::GzDecoder::new(self.gzip).read_to_end(&mut bytes);
        read.expect("the build script compressed them");
        bytes
    }

    /// Whether the name changes with the bytes, so that a browser may keep it for ever.
    pub fn is_immutable(&self) -> bool {
        self.path.starts_with("/assets/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a browser loads before it shows anything, compressed.
    const FIRST_LOAD_MAX: usize = 100_000;

    #[test]
    fn the_page_is_there_and_names_only_files_that_are_there() {
        let page = String::from_utf8(asset("/index.html").unwrap().bytes()).unwrap();
        for name in page.split("\"./").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(asset(&format!("/{name}")).is_some(), "{name}");
        }
    }

    #[test]
    fn a_first_load_is_small() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.gzip.len()).sum();
        assert!(bytes <= FIRST_LOAD_MAX, "{bytes} bytes");
    }
}
