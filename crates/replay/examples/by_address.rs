//! One rule by address over a log, for a profiler: what the table in `docs/guide/replay.md` measures,
//! without the command line around it.
//!
//! `valgrind --tool=callgrind target/release/examples/by_address access.log`
#![expect(clippy::print_stdout, reason = "it is a program for a terminal")]

use std::error::Error;
use std::fs::File;
use std::io::BufReader;
use std::sync::Arc;

use tollgate_http::{Action, AddressPrefixes, Fact, Mapping, PathTemplates};
use tollgate_replay::{LogSource, Replay, ReplaySettings, Spread};
use tollgate_rules::{Options, SourceFile};

const RULES: &str = "domain: gateway\ndescriptors:\n  - key: remote_address\n    \
    rate_limit: { algorithm: fixed_window, requests_per_unit: 10, unit: minute }\n";

fn main() -> Result<(), Box<dyn Error>> {
    let source = SourceFile { name: "rules.yaml".into(), text: RULES.to_owned() };
    let rules = Arc::new(tollgate_rules::load(vec![source], &Options::default())?.rules);
    let address = Action::new("remote_address", Fact::RemoteAddress(AddressPrefixes::default()));
    let path = Action::new("path", Fact::Path(PathTemplates::default()));
    let mapping = Mapping::new("gateway", vec![vec![address], vec![path]])?;
    let settings = ReplaySettings {
        rules,
        against: None,
        mapping,
        spread: Spread::Even,
        rows: 20,
        algorithms: false,
        suggest: None,
        explain: None,
    };
    let mut sources = Vec::new();
    for name in std::env::args().skip(1) {
        let lines = Box::new(BufReader::new(File::open(&name)?));
        sources.push(LogSource { name, lines, format: None });
    }
    let report = Replay::run(&settings, sources, &mut |_| ())?;
    println!("{} lines, {} requests, {} denied", report.lines, report.requests, report.denied);
    Ok(())
}
