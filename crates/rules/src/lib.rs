//! Rule files: YAML text in, a checked [`RuleSet`] out, all mistakes at once.
//!
//! The files are a superset of envoyproxy/ratelimit's. In the order of the flow:
//!
//! | module | what it does |
//! |---|---|
//! | `files` | [`read`]: paths → [`Source`]s |
//! | `yaml` | text → a tree of nodes, each with its place |
//! | `fields`, `keys` | a map → known fields; unknown and misplaced keys |
//! | `walk`, `limit`, `metadata` | fields → the specification of a domain |
//! | `siblings` | what descriptors of one level do to each other |
//! | `problem` | what is wrong, where, and what to write instead |
//! | `duration` | [`parse_duration`]: `1m30s` |
//!
//! Invariant: the outcome does not depend on the order in which files are
//! given; they are sorted by name first.
//! Invariant: rules are used as a whole or not at all.
//!
//! Deliberately not here: watching files for changes, and rules from
//! elsewhere, which make [`DomainSpec`]s by themselves.

mod duration;
mod fields;
mod files;
mod keys;
mod limit;
mod metadata;
mod problem;
mod siblings;
mod walk;
mod yaml;

use std::collections::HashMap;

use tollgate_core::rule::DomainSpec;
use tollgate_core::{RuleError, RuleSet};

pub use duration::{DurationError, parse_duration};
pub use files::{FILE_BYTES_MAX, FILES_MAX, FOLDER_DEPTH_MAX, is_test_file, read, read_what_can_be};
pub use limit::MESSAGE_MAX;
pub use problem::{LoadError, PROBLEMS_MAX, Problem, Severity};
use problem::{Place, Report};
use siblings::Siblings;
pub use walk::LIMITS_MAX;
pub use yaml::{ALIASED_MAX, NESTING_MAX};

/// A rule file's text and what to call it.
///
/// ```
/// use tollgate_rules::Source;
/// let source = Source { name: "rules/shop.yaml".into(), text: "domain: shop".into() };
/// assert_eq!(source.name, "rules/shop.yaml");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The path as the user gave it; messages show it.
    pub name: String,
    /// The YAML.
    pub text: String,
}

/// How to put files together.
///
/// ```
/// use tollgate_rules::Options;
/// assert!(!Options::default().merge_domains);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether several files may be about one domain; their descriptors are
    /// then appended in the order of the files' names.
    pub merge_domains: bool,
    /// Whether a limit that says neither `algorithm` nor `count_rejected`
    /// leaves rejected requests uncounted; envoyproxy/ratelimit counts them.
    pub stop_counting_rejected: bool,
}

/// Rules that are good, and what is to be said about them all the same.
///
/// ```
/// use tollgate_rules::{Options, Source, load};
/// let text = "domain: shop\ndescriptors:\n- key: user\n  rate_limit: {unit: hour}\n".into();
/// let loaded = load(vec![Source { name: "shop.yaml".into(), text }], &Options::default())?;
/// assert_eq!(loaded.files, 1);
/// assert_eq!(loaded.warnings[0].line, 4); // requests_per_unit is missing
/// # Ok::<(), tollgate_rules::LoadError>(())
/// ```
#[derive(Debug)]
pub struct Loaded {
    /// The rules.
    pub rules: RuleSet,
    /// What is used as it is and probably not meant, by file and line.
    pub warnings: Vec<Problem>,
    /// How many files the rules came from.
    pub files: usize,
}

/// Reads the rules of all sources.
///
/// ```
/// use tollgate_rules::{Options, Source, load};
/// let text = "
/// domain: shop
/// descriptors:
///   - key: remote_address
///     rate_limit: { algorithm: token_bucket, requests_per_unit: 100, unit: second, burst: 200 }
/// ";
/// let source = Source { name: "shop.yaml".into(), text: text.into() };
/// let loaded = load(vec![source], &Options::default())?;
/// assert_eq!(loaded.rules.rules()[0].limit.capacity(), 200);
/// # Ok::<(), tollgate_rules::LoadError>(())
/// ```
///
/// # Errors
/// If anything is wrong in any of them; all that is wrong is told.
pub fn load(mut sources: Vec<Source>, options: &Options) -> Result<Loaded, LoadError> {
    sources.sort_by(|one, other| one.name.cmp(&other.name));
    let mut report = Report::new(&sources, options);
    let mut domains = Domains::default();
    for (file, source) in sources.iter().enumerate() {
        if source.text.len() > FILE_BYTES_MAX {
            let at = Place { file, ..Place::default() };
            report.error(at, files::TOO_LARGE, files::TOO_LARGE_HELP);
            continue;
        }
        let errors_before = report.errors_seen();
        match yaml::parse(&source.text, file, &mut report) {
            Some(root) => {
                let domain = walk::domain(&root, &mut report);
                domains.add(domain, options, &mut report);
            }
            None if report.errors_seen() == errors_before => {
                walk::empty(Place { file, line: 1, column: 1 }, &mut report);
            }
            None => {}
        }
    }
    let specs = domains.finish(&mut report);
    let rules = if report.errors_seen() == 0 { built(specs, &mut report) } else { None };
    let files = sources.len();
    let (mut errors, mut warnings) = report.finish(&sources);
    match rules {
        Some(rules) => Ok(Loaded { rules, warnings, files }),
        None => {
            errors.append(&mut warnings);
            Err(LoadError { problems: errors })
        }
    }
}

/// The set; what only the set can find wrong belongs to no line.
fn built(specs: Vec<DomainSpec>, report: &mut Report) -> Option<RuleSet> {
    RuleSet::new(specs).map_err(|error| report.refuse(Place::default(), &error)).ok()
}

/// The domains of all files, in the order in which they first come.
#[derive(Default)]
struct Domains {
    by_name: HashMap<String, usize>,
    list: Vec<(String, Place, Siblings)>,
}

impl Domains {
    fn add(&mut self, domain: Option<walk::Domain>, options: &Options, report: &mut Report) {
        let Some(walk::Domain { name, name_at, level }) = domain else { return };
        let known = self.by_name.get(&name).and_then(|index| self.list.get_mut(*index));
        let Some((_, first, siblings)) = known else {
            self.by_name.insert(name.clone(), self.list.len());
            self.list.push((name, name_at, level));
            return;
        };
        if options.merge_domains {
            return siblings.append(level);
        }
        let error = RuleError::DomainTwice { domain: name.clone() }.to_string();
        let message = error.split_once("; ").map_or(error.as_str(), |(message, _)| message);
        let message = format!("{message}, first at line {} of {}", first.line, report.name_of(first.file));
        report.error(
            name_at,
            message,
            "write all of it in one file, or allow it with --merge-domains or MERGE_DOMAIN_CONFIG=true",
        );
        siblings::check(&level, &name, report);
    }

    fn finish(self, report: &mut Report) -> Vec<DomainSpec> {
        let specs = self.list.into_iter().map(|(name, _, level)| {
            siblings::check(&level, &name, report);
            DomainSpec { name, descriptors: level.specs }
        });
        specs.collect()
    }
}
