//! `tollgate top`: what a running server is doing, live in the terminal.
//!
//! A thread samples the server again and again (`sample`); `state` makes rates of two
//! samples; `view` draws them, `screen` owns the terminal, and `once` writes text where
//! there is none.
//!
//! Deliberately not here: what is counted; the server knows.

mod once;
mod sample;
mod screen;
mod state;
mod view;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use tollgate_history::query::TopOrder;
use tollgate_history::time_text;

use crate::console::{Console, Exit};
use crate::remote::{self, Remote};

/// Shows what a running server is doing: requests and denials a second, the routes,
/// rules and keys with the most, the store.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Keys: q or Ctrl-C quits, d sorts by denials or by all.

Examples:
  tollgate top
  tollgate top --server http://10.0.0.5:6070 --last 1h
  tollgate top --once | head

TOLLGATE_ADMIN_TOKEN is sent if it is set.
Exit codes: 0 fine, 1 the server does not answer, 64 a wrong flag, or no terminal.")]
pub(crate) struct Args {
    /// The admin listener of the server
    #[arg(long, value_name = "URL", default_value = remote::USUAL)]
    server: String,
    /// The lists are of so long until now
    #[arg(long, value_name = "SPAN", default_value = "5m")]
    last: String,
    /// How often to look
    #[arg(long, value_name = "SPAN", default_value = "2s")]
    every: String,
    /// Print what there is as text, once, and end
    #[arg(long)]
    once: bool,
}

pub(crate) fn run(args: &Args, console: &mut Console<'_>) -> io::Result<Exit> {
    let every = match time_text::duration(&args.last).and_then(|_| time_text::duration(&args.every)) {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(error) => {
            console.complain(&error.to_string(), "write a span such as 5m")?;
            return Ok(Exit::BadConfiguration);
        }
    };
    let sampler = Remote::new(&args.server).map(|remote| sample::Sampler::new(remote, &args.last));
    let told = sampler.and_then(|sampler| {
        if args.once {
            let sample = sampler.sample(TopOrder::Total)?;
            return Ok(once::write(&sample, &args.last, console.out).map(|()| Exit::Fine));
        }
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            let help = "run it on a terminal, or add --once for one text";
            return Ok(console
                .complain("top draws on a terminal, and this is none", help)
                .map(|()| Exit::BadConfiguration));
        }
        Ok(screen::show(sampler, every).map(|()| Exit::Fine))
    });
    told.unwrap_or_else(|error| {
        console.complain(&error.to_string(), error.fix())?;
        Ok(crate::history::exit_for(&error))
    })
}
