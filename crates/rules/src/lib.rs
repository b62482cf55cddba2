//! Rule files: YAML text in, a checked [`RuleSet`] out, all mistakes at once.
//!
//! The files are a superset of envoyproxy/ratelimit's. In the order of the flow:
//!
//! | module | what it does |
//! |---|---|
//! | `files` | [`read`]: paths → [`SourceFile`]s |
//! | `tollgate_yaml` | text → a tree of nodes, each with its place |
//! | `fields`, `keys` | a map → known fields; unknown and misplaced keys |
//! | `domain`, `limit`, `metadata` | fields → the specification of a domain |
//! | `lists` | `allow` and `deny`, written down or in files of their own |
//! | `schema` | [`schema`]: the same keys as JSON Schema, for editors |
//! | `siblings` | what descriptors of one level do to each other |
//!
//! Invariant: the outcome does not depend on the order in which files are
//! given; they are sorted by name first.
//! Invariant: rules are used as a whole or not at all.
//!
//! Deliberately not here: watching files for changes, and rules from
//! elsewhere, which make [`DomainSpec`]s by themselves.

mod domain;
mod fields;
mod files;
mod keys;
mod limit;
mod lists;
mod metadata;
mod schema;
mod siblings;

use std::collections::HashMap;

use tollgate_core::rule::DomainSpec;
use tollgate_core::{RuleError, RuleSet};
pub use tollgate_yaml::{LoadError, Problem, Severity, SourceFile};
use tollgate_yaml::{Location, Problems};

use domain::FileDomain;
pub use domain::LIMITS_MAX;
pub use files::{FILES_MAX, FOLDER_DEPTH_MAX, is_test_file, read, read_what_can_be, test_files};
pub use limit::MESSAGE_MAX;
pub use lists::{LIST_MAX, list_files};
pub use schema::schema;

/// How to put files together.
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
/// use tollgate_rules::{Options, SourceFile, load};
/// let text = "
/// domain: shop
/// descriptors:
///   - key: remote_address
///     rate_limit: { algorithm: token_bucket, requests_per_unit: 100, unit: second, burst: 200 }
/// ";
/// let source = SourceFile { name: "shop.yaml".into(), text: text.into() };
/// let loaded = load(vec![source], &Options::default())?;
/// assert_eq!(loaded.rules.rules()[0].limit.capacity(), 200);
///
/// let source = SourceFile { name: "shop.yaml".into(), text: "domian: shop\n".into() };
/// let error = load(vec![source], &Options::default()).unwrap_err();
/// assert_eq!(error.to_string(), "shop.yaml:1:1: error: unknown key 'domian'; write domain");
/// # Ok::<(), tollgate_rules::LoadError>(())
/// ```
///
/// # Errors
/// If anything is wrong in any of them; all that is wrong is told.
pub fn load(mut sources: Vec<SourceFile>, options: &Options) -> Result<Loaded, LoadError> {
    sources.sort_by(|one, other| one.name.cmp(&other.name));
    let files = sources.len();
    let mut problems = Problems::new(sources);
    let mut domains = DomainList::default();
    for file in 0..files {
        let Some(document) = tollgate_yaml::parse(file, &mut problems) else { continue };
        if let Some(at) = document.second {
            let message = "only the first document of a file is read, this one has no effect";
            problems.warning(at, message, "write one domain per file");
        }
        if let Some(domain) = domain::read(&document.root, options, &mut problems) {
            domains.add(domain, options, &mut problems);
        }
    }
    let specs = domains.finish(&mut problems);
    let rules = if problems.error_count() == 0 { built(specs, &mut problems) } else { None };
    let problems = problems.finish();
    match rules {
        Some(rules) => Ok(Loaded { rules, warnings: problems, files }),
        None => Err(LoadError { problems }),
    }
}

/// The set; what only the set can find wrong belongs to no line.
fn built(specs: Vec<DomainSpec>, problems: &mut Problems) -> Option<RuleSet> {
    RuleSet::new(specs).map_err(|error| problems.error_from(Location::default(), &error)).ok()
}

/// The domains of all files, in the order in which they first come.
#[derive(Default)]
struct DomainList {
    by_name: HashMap<String, usize>,
    list: Vec<FileDomain>,
}

impl DomainList {
    fn add(&mut self, domain: FileDomain, options: &Options, problems: &mut Problems) {
        let known = self.by_name.get(&domain.name).and_then(|index| self.list.get_mut(*index));
        let Some(first) = known else {
            self.by_name.insert(domain.name.clone(), self.list.len());
            self.list.push(domain);
            return;
        };
        let FileDomain { name, name_at, lists, level } = domain;
        if options.merge_domains {
            first.lists.append(lists);
            return first.level.append(level);
        }
        let first = first.name_at;
        let error = RuleError::DomainTwice { domain: name.clone() }.to_string();
        let message = error.split_once("; ").map_or(error.as_str(), |(message, _)| message);
        let message = format!("{message}, first at line {} of {}", first.line, problems.name_of(first.file));
        problems.error(
            name_at,
            message,
            "write all of it in one file, or allow it with --merge-domains or MERGE_DOMAIN_CONFIG=true",
        );
        siblings::check(&level, &name, problems);
    }

    fn finish(self, problems: &mut Problems) -> Vec<DomainSpec> {
        let specs = self.list.into_iter().map(|FileDomain { name, lists, level, .. }| {
            siblings::check(&level, &name, problems);
            DomainSpec { name, lists: lists.shared(), descriptors: level.specs }
        });
        specs.collect()
    }
}
