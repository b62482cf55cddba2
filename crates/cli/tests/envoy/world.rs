//! An Envoy with Tollgate behind it, and an upstream.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::envoy::{Around, Envoy};
use crate::http::{self, Answer};
use crate::tollgate::Tollgate;
use crate::upstream;

/// What the answers are about; each kind of rule once.
pub(crate) const RULES: &str = include_str!("rules.yaml");

/// The setting with which Tollgate tells callers by itself.
pub(crate) const TELL: &str = "TOLLGATE_TELL_THROUGH_ENVOY";

/// The three of them; ended with this value.
pub(crate) struct World {
    // Ended first, so that it does not complain about the other.
    pub(crate) envoy: Envoy,
    pub(crate) tollgate: Tollgate,
    folder: PathBuf,
}

impl World {
    /// Starts them for the test of that name: Tollgate with these settings, Envoy failing requests
    /// that Tollgate does not answer.
    pub(crate) fn new(test: &str, settings: &[(&str, &str)]) -> Self {
        Self::start(test, settings, true)
    }

    /// The same, with Envoy letting requests through that Tollgate does not answer, as is its default.
    pub(crate) fn failing_open(test: &str) -> Self {
        Self::start(test, &[], false)
    }

    fn start(test: &str, settings: &[(&str, &str)], fails_closed: bool) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("envoy").join(test);
        // What an earlier run left; there is none the first time.
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(folder.join("rules")).unwrap();
        write_rules(&folder, RULES);
        let tollgate = Tollgate::start(&folder.join("rules"), settings, "127.0.0.1:0");
        // Where Tollgate tells callers by itself, Envoy's own headers would come besides.
        let has_own_headers = settings.iter().all(|(name, _)| *name != TELL);
        let (grpc, upstream) = (tollgate.grpc, upstream::start());
        let around = Around { tollgate: grpc, upstream, fails_closed, has_own_headers };
        let envoy = Envoy::start(&folder, &around);
        Self { envoy, tollgate, folder }
    }

    /// Sends a request to Envoy.
    pub(crate) fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        http::get(self.envoy.front, path, headers).unwrap()
    }

    /// The statuses of `count` requests in a row.
    pub(crate) fn statuses(&self, count: usize, headers: &[(&str, &str)]) -> Vec<u16> {
        (0..count).map(|_| self.get("/", headers).status).collect()
    }

    /// Replaces the rules, in one step as a careful editor does.
    pub(crate) fn write_rules(&self, text: &str) {
        write_rules(&self.folder, text);
    }

    /// The same world with another Tollgate on the same port in place of one that has ended.
    pub(crate) fn start_tollgate_again(folder: &Path, grpc: &str) -> Tollgate {
        Tollgate::start(&folder.join("rules"), &[], grpc)
    }

    /// Takes it apart.
    pub(crate) fn into_parts(self) -> (Envoy, Tollgate, PathBuf) {
        (self.envoy, self.tollgate, self.folder)
    }
}

fn write_rules(folder: &Path, text: &str) {
    let aside = folder.join("rules.new");
    fs::write(&aside, text).unwrap();
    fs::rename(aside, folder.join("rules/shop.yaml")).unwrap();
}
