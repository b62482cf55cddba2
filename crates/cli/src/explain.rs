//! `tollgate explain`: which rules a request meets, which one decides, and why.
//!
//! Arguments → a request → the limiter's own answer, on counters that nobody
//! has used yet → the server's [`Story`] → text or JSON.
//!
//! Deliberately not here: matching and deciding, and what there is to say about it.

mod text;

use std::io;
use std::path::PathBuf;

use tollgate_core::{Descriptor, Entry, Micros, Operation, Request, Time};
use tollgate_limiter::{Limiter, Load, LoadSource};
use tollgate_rules::Options;
use tollgate_server::explain::Story;

use crate::console::{Console, Exit, Format, show_problems};
pub(crate) use text::limits as limits_text;

/// Which rules a request meets, which one decides, and why
///
/// Walks through the rules as a request does, level by level, and says what
/// was chosen, what else was there, and why not that. Then decides the request
/// on counters that nobody has used yet.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each KEY=VALUE[,KEY=VALUE]… is one descriptor; its entries are matched in the order written.
A comma inside of a value is written \\, and an equals sign needs nothing.

Examples:
  tollgate explain --rules rules/ shop user_id=42
  tollgate explain --rules shop.yaml shop plan=free,user_id=42 remote_address=10.0.0.1
  tollgate explain --rules shop.yaml shop user_id=42 --cost 20 --format json
  tollgate explain --rules search.yaml search customer=acme --cost 60 --load 0.4

Exit codes: 0 explained, 64 rules that are wrong or cannot be read.")]
pub(crate) struct Args {
    /// A rule file, or a folder of them; may be given several times
    #[arg(long, value_name = "PATH", required = true)]
    rules: Vec<PathBuf>,
    /// Let several files add to one domain
    #[arg(long)]
    merge_domains: bool,
    /// The domain of the request
    #[arg(value_name = "DOMAIN")]
    domain: String,
    /// The descriptors of the request
    #[arg(value_name = "KEY=VALUE[,KEY=VALUE]", required = true, value_parser = parse_descriptor)]
    descriptors: Vec<Pairs>,
    /// What the request takes from each limit; several are those of the descriptors, in order
    #[arg(long, value_name = "N[,N]", default_value = "1", value_delimiter = ',')]
    cost: Vec<u64>,
    /// How loaded the system is, from 0 to 1, for elastic limits [default: 1]
    #[arg(long, value_name = "LOAD", value_parser = parse_load)]
    load: Option<Load>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

fn parse_load(text: &str) -> Result<Load, String> {
    let load = text.parse().ok().and_then(Load::new);
    load.ok_or_else(|| "write a number from 0, idle, to 1, full".to_owned())
}

/// What `--load` stands for.
const TOLD_LOAD: LoadSource<'_> = LoadSource { name: "explain", domain: None };

/// The entries of one descriptor, as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pairs(pub(crate) Vec<(String, String)>);

pub(crate) fn run(args: &Args, console: &mut Console<'_>) -> io::Result<Exit> {
    let options = Options { merge_domains: args.merge_domains, ..Options::default() };
    let loaded =
        match tollgate_rules::read(&args.rules).and_then(|sources| tollgate_rules::load(sources, &options)) {
            Ok(loaded) => loaded,
            Err(error) => {
                show_problems(console.err, &error.problems)?;
                return Ok(Exit::BadConfiguration);
            }
        };
    let own_costs = match args.cost.as_slice() {
        [_] => &[],
        costs if costs.len() == args.descriptors.len() => costs,
        costs => {
            let what = format!("there are {} costs for {} descriptors", costs.len(), args.descriptors.len());
            console.complain(&what, "give one cost for all, or one for each")?;
            return Ok(Exit::BadConfiguration);
        }
    };
    let limiter = Limiter::new(loaded.rules);
    if let Some(load) = args.load {
        let reported = limiter.load().report(TOLD_LOAD, load, Micros::SECOND, Time::EPOCH);
        reported.expect("one source is not too many");
    }
    let entries: Vec<Vec<Entry<'_>>> = args.descriptors.iter().map(Pairs::entries).collect();
    let own_costs = own_costs.iter().copied().map(Some).chain(std::iter::repeat(None));
    let descriptors: Vec<Descriptor<'_>> = entries
        .iter()
        .zip(own_costs)
        .map(|(entries, cost)| Descriptor { cost, ..Descriptor::new(entries) })
        .collect();
    let request = Request::new(&args.domain, &descriptors).with_cost(args.cost.first().copied().unwrap_or(1));
    // Any instant will do for unused counters; at this one a window of the clock begins.
    let reply = limiter.operate(&request, Operation::Check, Time::EPOCH).at_once();
    let story = Story::new(&request, &reply);
    match args.format {
        Format::Text => text::write(&story, &args.cost, console.out)?,
        Format::Json => console.json(&story)?,
    }
    Ok(Exit::Fine)
}

impl Pairs {
    fn entries(&self) -> Vec<Entry<'_>> {
        self.pairs().map(Entry::from).collect()
    }

    /// Keys and values.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

/// `key=value,key=value`; `\,` is a comma that separates nothing.
pub(crate) fn parse_descriptor(text: &str) -> Result<Pairs, String> {
    let mut pairs = Vec::new();
    for entry in split_entries(text) {
        let Some((key, value)) = entry.split_once('=') else {
            return Err(match entry.as_str() {
                "" => "an entry is empty; write KEY=VALUE between the commas".to_owned(),
                entry => format!(
                    "'{entry}' has no value; write {entry}=VALUE, or \\, for a comma inside of a value"
                ),
            });
        };
        if key.is_empty() {
            return Err(format!("'{entry}' has no key; write KEY={value}"));
        }
        pairs.push((key.to_owned(), value.to_owned()));
    }
    Ok(Pairs(pairs))
}

fn split_entries(text: &str) -> Vec<String> {
    let mut entries = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let escaped = c == '\\' && chars.next_if_eq(&',').is_some();
        match entries.last_mut() {
            Some(_) if c == ',' => entries.push(String::new()),
            Some(entry) => entry.push(if escaped { ',' } else { c }),
            None => {}
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<(String, String)>, String> {
        parse_descriptor(text).map(|pairs| pairs.0)
    }

    #[test]
    fn a_descriptor_is_entries_between_commas() {
        let cases: [(&str, &[(&str, &str)]); 6] = [
            ("user_id=42", &[("user_id", "42")]),
            ("a=1,b=2", &[("a", "1"), ("b", "2")]),
            ("a=", &[("a", "")]),
            ("q=x=y==", &[("q", "x=y==")]),
            (r"path=/a\,b,c=d", &[("path", "/a,b"), ("c", "d")]),
            (r"dir=C:\x", &[("dir", r"C:\x")]),
        ];
        for (text, pairs) in cases {
            let expected: Vec<_> =
                pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
            assert_eq!(parsed(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_entry_is_refused_with_what_to_write() {
        let cases = [
            ("user_id", r"'user_id' has no value; write user_id=VALUE, or \, for a comma inside of a value"),
            ("", "an entry is empty; write KEY=VALUE between the commas"),
            ("a=1,", "an entry is empty; write KEY=VALUE between the commas"),
            ("=42", "'=42' has no key; write KEY=42"),
        ];
        for (text, message) in cases {
            assert_eq!(parsed(text), Err(message.to_owned()));
        }
    }
}
