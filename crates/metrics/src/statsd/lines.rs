//! What a line for a daemon looks like.
//!
//! Invariant: one line is one line, whatever a name holds.

use regex::Regex;

use super::StatsdError;
use crate::config::{Mogrifier, StatsdDialect};
use crate::template::GroupTemplate;

/// What kind of number a line holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum LineType {
    /// What has come since the last time.
    Counter,
    /// What is.
    Gauge,
    /// Milliseconds that so many calls took.
    Timer {
        /// How many.
        count: u64,
    },
}

/// Makes lines.
#[derive(Debug)]
pub(super) struct LineFormat {
    /// Behind every name, or behind every line.
    tags: String,
    /// None where tags are part of the name.
    rewrites: Option<Vec<Rewrite>>,
}

#[derive(Debug)]
struct Rewrite {
    pattern: Regex,
    name: GroupTemplate,
    tags: Vec<(String, GroupTemplate)>,
}

impl LineFormat {
    pub(super) fn new(dialect: &StatsdDialect, tags: &[(String, String)]) -> Result<Self, StatsdError> {
        let mut tags = tags.to_vec();
        tags.sort();
        Ok(match dialect {
            StatsdDialect::Plain => {
                let tag = |(key, value): &(String, String)| format!(".__{}={}", clean(key), clean(value));
                Self { tags: tags.iter().map(tag).collect(), rewrites: None }
            }
            StatsdDialect::Dog(mogrifiers) => {
                let tags: Vec<String> = tags.iter().map(|(key, value)| tag(key, value)).collect();
                let rewrites = mogrifiers.iter().map(Rewrite::new).collect::<Result<_, _>>()?;
                Self { tags: tags.join(","), rewrites: Some(rewrites) }
            }
        })
    }

    /// One line, with its end.
    pub(super) fn line(&self, name: &str, value: u64, kind: LineType) -> String {
        let kind = match kind {
            LineType::Counter => "c".to_owned(),
            LineType::Gauge => "g".to_owned(),
            LineType::Timer { count: 0 | 1 } => "ms".to_owned(),
            LineType::Timer { count } => format!("ms|@{}", rate(count)),
        };
        let Some(rewrites) = &self.rewrites else {
            return format!("{name}{}:{value}|{kind}\n", self.tags);
        };
        let rewritten = rewrites.iter().find_map(|rewrite| rewrite.apply(name));
        let (name, added) = rewritten.unwrap_or_else(|| (name.to_owned(), Vec::new()));
        let tags: Vec<&str> = Some(self.tags.as_str())
            .filter(|tags| !tags.is_empty())
            .into_iter()
            .chain(added.iter().map(String::as_str))
            .collect();
        match tags.join(",").as_str() {
            "" => format!("{name}:{value}|{kind}\n"),
            tags => format!("{name}:{value}|{kind}|#{tags}\n"),
        }
    }
}

impl Rewrite {
    fn new(mogrifier: &Mogrifier) -> Result<Self, StatsdError> {
        let problem = |error: regex::Error| StatsdError::Pattern {
            pattern: mogrifier.pattern.clone(),
            problem: error.to_string(),
        };
        Ok(Self {
            pattern: Regex::new(&mogrifier.pattern).map_err(problem)?,
            name: GroupTemplate::new(&mogrifier.name),
            tags: mogrifier
                .tags
                .iter()
                .map(|(key, value)| (key.clone(), GroupTemplate::new(value)))
                .collect(),
        })
    }

    fn apply(&self, name: &str) -> Option<(String, Vec<String>)> {
        let captures = self.pattern.captures(name)?;
        let groups: Vec<&str> =
            captures.iter().map(|group| group.map_or("", |group| group.as_str())).collect();
        let tags = self.tags.iter().map(|(key, value)| tag(key, &value.fill(&groups))).collect();
        Some((clean(&self.name.fill(&groups)), tags))
    }
}

fn tag(key: &str, value: &str) -> String {
    format!("{}:{}", clean(key), clean(value).replace([',', '#'], "_"))
}

/// Without what ends a name or a line.
fn clean(text: &str) -> String {
    text.replace(|c: char| c == ':' || c == '|' || c.is_control(), "_")
}

/// The sample rate that stands for `count` samples, rounded down, so that its
/// inverse is never less than the count.
fn rate(count: u64) -> String {
    const DIGITS: u64 = 1_000_000_000_000;
    let rate = format!("{:012}", (DIGITS / count).max(1));
    format!("0.{}", rate.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn tags_are_part_of_a_plain_name_and_sorted() {
        let lines = LineFormat::new(&StatsdDialect::Plain, &pairs(&[("b", "2"), ("a", "1:x")])).unwrap();
        assert_eq!(lines.line("r.hits", 5, LineType::Counter), "r.hits.__a=1_x.__b=2:5|c\n");
        assert_eq!(lines.line("r.keys", 7, LineType::Gauge), "r.keys.__a=1_x.__b=2:7|g\n");
    }

    #[test]
    fn a_timer_of_many_calls_has_a_sample_rate() {
        let lines = LineFormat::new(&StatsdDialect::Plain, &[]).unwrap();
        let timer = |count| lines.line("t", 3, LineType::Timer { count });
        assert_eq!(
            [timer(1), timer(4), timer(3)],
            ["t:3|ms\n", "t:3|ms|@0.25\n", "t:3|ms|@0.333333333333\n"]
        );
        for count in [2, 3, 7, 999, 123_456] {
            let inverse = rate(count).parse::<f64>().unwrap().recip();
            assert_eq!(format!("{}", inverse.floor()), count.to_string());
        }
    }

    #[test]
    fn the_first_mogrifier_that_matches_rewrites_a_name() {
        let mogrifier = |pattern: &str, name: &str, tags: &[(&str, &str)]| Mogrifier {
            pattern: pattern.into(),
            name: name.into(),
            tags: pairs(tags),
        };
        let dialect = StatsdDialect::Dog(vec![
            mogrifier(
                r"^ratelimit\.service\.rate_limit\.(.*)\.(.*)\.(.*)$",
                "ratelimit.service.rate_limit.$3",
                &[("domain", "$1"), ("descriptor", "$2")],
            ),
            mogrifier("service", "never", &[]),
        ]);
        let lines = LineFormat::new(&dialect, &pairs(&[("zone", "a,b")])).unwrap();
        let dotted = "ratelimit.service.rate_limit.mongo_cps.database_users.total_hits";
        assert_eq!(
            lines.line(dotted, 2, LineType::Counter),
            "ratelimit.service.rate_limit.total_hits:2|c|#zone:a_b,domain:mongo_cps,descriptor:database_users\n"
        );
        assert_eq!(lines.line("x.y", 2, LineType::Gauge), "x.y:2|g|#zone:a_b\n");
        let without = LineFormat::new(&StatsdDialect::Dog(Vec::new()), &[]).unwrap();
        assert_eq!(without.line("x.y", 2, LineType::Timer { count: 2 }), "x.y:2|ms|@0.5\n");
    }

    #[test]
    fn a_bad_pattern_is_told() {
        let bad = Mogrifier { pattern: "(".into(), name: "x".into(), tags: Vec::new() };
        let error = LineFormat::new(&StatsdDialect::Dog(vec![bad]), &[]).unwrap_err().to_string();
        assert!(error.starts_with("the mogrifier pattern '(' is not a regular expression"), "{error}");
    }

    /// What cadence, a client for StatsD, sends for the same.
    fn by_cadence(name: &str, value: u64, kind: LineType, tags: &[(&str, &str)]) -> String {
        use cadence::prelude::*;
        let (lines, sink) = cadence::SpyMetricSink::new();
        let client = cadence::StatsdClient::builder("", sink).build();
        let signed = i64::try_from(value).unwrap();
        macro_rules! send {
            ($metric:expr) => {
                tags.iter().fold($metric, |metric, (key, value)| metric.with_tag(key, value)).send()
            };
        }
        match kind {
            LineType::Counter => send!(client.count_with_tags(name, signed)),
            LineType::Gauge => send!(client.gauge_with_tags(name, value)),
            LineType::Timer { count: 1 } => send!(client.time_with_tags(name, value)),
            LineType::Timer { count } => {
                let rate = rate(count).parse().unwrap();
                send!(client.time_with_tags(name, value).with_sampling_rate(rate));
            }
        }
        String::from_utf8(lines.recv().unwrap()).unwrap() + "\n"
    }

    #[test]
    fn cadence_sends_the_same_lines() {
        let tag_sets: [&[(&str, &str)]; 3] = [&[], &[("env", "prod")], &[("a", "1"), ("zone", "eu-1")]];
        let kinds = [1, 2, 4, 1_000].map(|count| LineType::Timer { count });
        for tags in tag_sets {
            let format = LineFormat::new(&StatsdDialect::Dog(Vec::new()), &pairs(tags)).unwrap();
            for kind in [LineType::Counter, LineType::Gauge].into_iter().chain(kinds) {
                for (name, value) in [("x", 0), ("ratelimit.service.rate_limit.d.k_v.total_hits", 1 << 53)] {
                    assert_eq!(format.line(name, value, kind), by_cadence(name, value, kind, tags));
                }
            }
        }
    }
}
