//! Tollgate beside its peers: `cargo xtask bench-grpc`, `bench-http`, `bench-resp`, `bench-redis` or
//! `bench-gateway`, which build and install what this needs and start `compare WHAT [SECONDS [TURNS [BEFORE]]]`, where
//! BEFORE is another build of `tollgate`.
#![expect(clippy::print_stdout, reason = "it prints tables")]

use anyhow::{Context as _, Result};
use tollgate_bench::compare::{self, Turns};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().context("write grpc, http, resp, redis or gateway")?;
    let mut turns = Turns::default();
    if let Some(seconds) = arguments.next() {
        turns.seconds = seconds.parse().with_context(|| format!("'{seconds}' is no number of seconds"))?;
    }
    if let Some(count) = arguments.next() {
        turns.count = count.parse().with_context(|| format!("'{count}' is no number of turns"))?;
    }
    turns.before = arguments.next().map(Into::into);
    compare::run(&what, &turns, &mut |text| println!("{text}"))
}
