//! A real access log: 30,969 requests to NASA's web server on 1 August 1995.
//!
//! For tests and benchmarks of the history, which want the skew and the daily curve of real traffic.
//! The log is part of the repository; `data/README.md` names its source and licence.

use std::io::Read as _;

use flate2::read::GzDecoder;

const NASA: &[u8] = include_bytes!("../data/nasa-1995-08-01.log.gz");

/// The text of NASA's log.
pub fn nasa_log() -> String {
    let mut text = String::new();
    GzDecoder::new(NASA).read_to_string(&mut text).expect("the file in the repository is whole");
    text
}
