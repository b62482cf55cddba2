//! `tollgate override`: exceptions for one descriptor, with an end and a reason, on a running server.
//!
//! Arguments → a call of `/v1/overrides` → what the server says, as text or JSON.
//!
//! Deliberately not here: what an override does; the server knows, and checks it.

use std::io;

use clap::{ArgGroup, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_history::time_text;
use tollgate_server::explain::words;

use crate::console::{BOLD, Console, DIM, Exit, Format, clean, count};
use crate::explain::{Pairs, parse_descriptor};
use crate::remote::{self, Remote};

/// Exceptions for one descriptor, with an end and a reason
///
/// Asks the admin listener of a running server. What is changed is in force at once, on all nodes
/// that share a Redis within a second, and in the log of GET /v1/audit.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tollgate override add shop user_id=42 --limit 500 --for 2h --reason 'a sale' --who ada
  tollgate override add shop remote_address=203.0.113.7 --deny --for 1d --reason abuse --who ada
  tollgate override list
  tollgate override remove 1f0c5a7be2d94c33 --reason 'the sale is over' --who ada

TOLLGATE_ADMIN_TOKEN is sent if it is set.
Exit codes: 0 fine, 1 the server does not answer or refuses, 64 a wrong flag.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Add(AddArgs),
    List(ListArgs),
    Remove(RemoveArgs),
}

/// Makes an exception, in the place of one for the same descriptor and rule
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("effect").required(true))]
struct AddArgs {
    /// The domain of the rules
    #[arg(value_name = "DOMAIN")]
    domain: String,
    /// The descriptor that it is for
    #[arg(value_name = "KEY=VALUE[,KEY=VALUE]", value_parser = parse_descriptor)]
    descriptor: Pairs,
    /// So many per window, instead of what the rule says
    #[arg(long, value_name = "N", group = "effect")]
    limit: Option<u32>,
    /// Let it pass
    #[arg(long, group = "effect")]
    unlimited: bool,
    /// Let nothing through
    #[arg(long, group = "effect")]
    deny: bool,
    /// The name of the rule, if the descriptor meets several
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,
    /// How long it lasts
    #[arg(long = "for", value_name = "SPAN", value_parser = span)]
    life_s: u64,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Shows the exceptions in force, the first to end first
#[derive(Debug, clap::Args)]
struct ListArgs {
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// The admin listener of the server
    #[arg(long, value_name = "URL", default_value = remote::USUAL)]
    server: String,
}

/// Removes an exception before its end
#[derive(Debug, clap::Args)]
struct RemoveArgs {
    /// Its id, as list shows it
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    change: ChangeArgs,
}

/// What every change has.
#[derive(Debug, clap::Args)]
struct ChangeArgs {
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Your name, for the log
    #[arg(long, value_name = "NAME")]
    who: String,
    /// The admin listener of the server
    #[arg(long, value_name = "URL", default_value = remote::USUAL)]
    server: String,
}

fn span(text: &str) -> Result<u64, String> {
    time_text::duration(text).map_err(|error| error.to_string())
}

/// What the server says of the overrides in force.
#[derive(Debug, Serialize, Deserialize)]
struct OverrideAnswer {
    kept_in: String,
    overrides: Vec<OverrideShown>,
}

/// One of them.
#[derive(Debug, Serialize, Deserialize)]
struct OverrideShown {
    id: String,
    domain: String,
    descriptor: Vec<PairShown>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    limit: Value,
    expires_at_unix_s: u64,
    reason: String,
    who: String,
    since_unix_s: u64,
}

/// One entry of a descriptor.
#[derive(Debug, Serialize, Deserialize)]
struct PairShown {
    key: String,
    value: String,
}

pub(crate) fn run(args: &Args, console: &mut Console<'_>) -> io::Result<Exit> {
    let done = match &args.action {
        Action::Add(args) => add(args, console),
        Action::List(args) => list(args, console),
        Action::Remove(args) => remove(args, console),
    };
    match done {
        Ok(written) => written.map(|()| Exit::Fine),
        Err(error) => {
            console.complain(&error.to_string(), error.fix())?;
            Ok(Exit::Failed)
        }
    }
}

type PrintResult = Result<io::Result<()>, remote::Error>;

fn add(args: &AddArgs, console: &mut Console<'_>) -> PrintResult {
    let limit = match args.limit {
        Some(count) => json!(count),
        None if args.deny => json!("deny"),
        None => json!("unlimited"),
    };
    let descriptor: Vec<Value> =
        args.descriptor.pairs().map(|(key, value)| json!({ "key": key, "value": value })).collect();
    let mut body = json!({
        "domain": args.domain, "descriptor": descriptor, "limit": limit, "expires_in_s": args.life_s,
        "reason": args.change.reason, "who": args.change.who,
    });
    if let (Some(rule), Some(fields)) = (&args.rule, body.as_object_mut()) {
        fields.insert("rule".to_owned(), json!(rule));
    }
    let made: OverrideShown = Remote::new(&args.change.server)?.put("/v1/overrides", &body)?;
    Ok(made.write(console))
}

fn list(args: &ListArgs, console: &mut Console<'_>) -> PrintResult {
    let answer: OverrideAnswer = Remote::new(&args.server)?.json("/v1/overrides", &[])?;
    if args.format == Format::Json {
        return Ok(console.json(&answer));
    }
    Ok(write_list(&answer, console))
}

fn remove(args: &RemoveArgs, console: &mut Console<'_>) -> PrintResult {
    let ChangeArgs { reason, who, server } = &args.change;
    let parameters = [("id", args.id.clone()), ("who", who.clone()), ("reason", reason.clone())];
    let removed: OverrideShown = Remote::new(server)?.delete("/v1/overrides", &parameters)?;
    Ok(writeln!(console.out, "removed {}", clean(&removed.words())))
}

fn write_list(answer: &OverrideAnswer, console: &mut Console<'_>) -> io::Result<()> {
    for shown in &answer.overrides {
        shown.write(console)?;
    }
    let kept = match answer.kept_in.as_str() {
        "redis" => "kept in Redis, for all nodes",
        "folder" => "kept in the data folder of this server",
        _ => "kept until this server ends, because it has no data folder",
    };
    writeln!(console.out, "{DIM}{}, {kept}{DIM:#}", count(answer.overrides.len(), "override"))
}

impl OverrideShown {
    fn write(&self, console: &mut Console<'_>) -> io::Result<()> {
        let ends = time_text::rfc3339(self.expires_at_unix_s);
        let (words, reason, who) = (self.words(), clean(&self.reason), clean(&self.who));
        writeln!(console.out, "{BOLD}{}{BOLD:#}  {}  until {ends}", clean(&self.id), clean(&words))?;
        writeln!(console.out, "  {DIM}{who}: {reason}{DIM:#}")
    }

    /// `shop user_id=42 burst: 500`.
    fn words(&self) -> String {
        let entries = self.descriptor.iter().map(|pair| (pair.key.as_str(), pair.value.as_str()));
        let rule = self.rule.as_ref().map(|rule| format!(" {rule}")).unwrap_or_default();
        let limit = self.limit.as_str().map_or_else(|| self.limit.to_string(), str::to_owned);
        format!("{} {}{rule}: {limit}", self.domain, words::descriptor(entries))
    }
}
