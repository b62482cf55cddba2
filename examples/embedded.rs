//! A limiter inside a program: load rules, ask, and tell people what happened.
//!
//! `cargo run -p tollgate-limiter --example embedded`
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use tollgate_core::{Descriptor, Entry, Request, Verdict};
use tollgate_limiter::Limiter;
use tollgate_rules::SourceFile;

const RULES: &str = "
domain: shop
descriptors:
  - key: user_id
    rate_limits:
      - { name: burst,     requests_per_unit: 2,   unit: second, algorithm: token_bucket }
      - { name: sustained, requests_per_unit: 100, unit: hour,   algorithm: sliding_buckets }
  - key: report
    rate_limit: { algorithm: leaky_bucket, requests_per_unit: 2, unit: second, burst: 3, max_wait: 2s }
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let source = SourceFile { name: "shop.yaml".into(), text: RULES.into() };
    let loaded = tollgate_rules::load(vec![source], &tollgate_rules::Options::default())?;
    for warning in &loaded.warnings {
        println!("{warning}");
    }
    let limiter = Limiter::new(loaded.rules);

    for attempt in 1..=3 {
        println!("user 42, request {attempt}: {}", ask(&limiter, "user_id", "42"));
    }
    for attempt in 1..=3 {
        println!("report x, request {attempt}: {}", ask(&limiter, "report", "x"));
    }
    Ok(())
}

fn ask(limiter: &Limiter, key: &str, value: &str) -> String {
    let entries = [Entry { key, value }];
    let descriptors = [Descriptor::new(&entries)];
    let reply = limiter.check(&Request::new("shop", &descriptors)).at_once();
    let rule =
        reply.binding().and_then(|decision| reply.rule(decision)).map_or("no rule", |rule| rule.name());
    match reply.verdict {
        Verdict::Allow => format!("go ahead ({rule})"),
        Verdict::Delay { wait } => format!("go ahead in {wait} ({rule})"),
        Verdict::Deny { retry_after: Some(after) } => format!("refused by {rule}, try again in {after}"),
        Verdict::Deny { retry_after: None } => format!("refused by {rule}, this can never pass"),
    }
}
