//! One `rate_limit`, or one item of `rate_limits`.
//!
//! Called by the walk for each descriptor. What numbers make a limit is
//! decided by [`Limit::new`]; here each refusal is put to the key it is about.
//!
//! Invariant: a parameter that the algorithm does not have is refused, so that
//! nothing written goes without effect.
//!
//! Deliberately not here: what the descriptor says about its limits.

use tollgate_core::limit::{EXCEED_MAX_PERCENT, WINDOW_MAX};
use tollgate_core::rule::RuleSpec;
use tollgate_core::{Algorithm, Limit, LimitError, Micros, Mode, OnStoreError, Refill, Shape, Unit};

use super::duration::parse_duration;
use super::fields::Fields;
use super::keys::{Level, help_for_word};
use super::problem::{Place, Report, quoted};
use super::yaml::{Kind, Node};

/// Sub-windows where none are written.
const BUCKETS_DEFAULT: u32 = 60;

/// A message goes out with every refusal, so it is a sentence or two and no page.
pub const MESSAGE_MAX: usize = 1_000;

/// A limit as read, or that there is none.
#[derive(Debug)]
pub(crate) enum OneLimit {
    Unlimited { label: String, replaces: Vec<String> },
    Limited(RuleSpec),
}

/// Which keys of a limit only some algorithms have, and which.
const PARAMETERS: [(&str, &[Algorithm]); 4] = [
    ("burst", &[Algorithm::TokenBucket, Algorithm::LeakyBucket]),
    ("refill", &[Algorithm::TokenBucket]),
    ("buckets", &[Algorithm::SlidingBuckets]),
    ("max_wait", &[Algorithm::LeakyBucket]),
];

/// Keys that mean nothing where nothing is limited, and that the reference
/// does not know, so that nobody depends on them being ignored.
const NOT_WITH_UNLIMITED: [&str; 10] = [
    "algorithm",
    "unit_multiplier",
    "burst",
    "refill",
    "buckets",
    "max_wait",
    "count_rejected",
    "throttle",
    "on_store_error",
    "message",
];

/// Reads one limit; none if it makes no limit, which is reported.
pub(crate) fn read(node: &Node, report: &mut Report) -> Option<OneLimit> {
    let fields = Fields::read(node, Level::Limit, "a limit", report)?;
    let label = fields.text("name", report).unwrap_or_default();
    let replaces = replaces(&fields, &label, report);
    match fields.flag("unlimited", report) {
        Some(true) => {
            check_unlimited(&fields, report);
            return Some(OneLimit::Unlimited { label, replaces });
        }
        // Neither yes nor no, so that nothing is to be said about the rest.
        None if fields.set("unlimited").is_some() => return None,
        Some(false) | None => {}
    }
    let numbers = Numbers::read(&fields, report);
    let message = message(&fields, report);
    let (limit, unit, unit_multiplier) = numbers.limit(&fields, report)?;
    let mode = Mode::default();
    let spec = RuleSpec { label, limit, unit, unit_multiplier, mode, replaces, metadata: None, message };
    Some(OneLimit::Limited(spec))
}

fn replaces(fields: &Fields, own: &str, report: &mut Report) -> Vec<String> {
    let mut names = Vec::new();
    for item in fields.list("replaces", "name: NAME", report) {
        let Some(entry) = Fields::read(&item, Level::Replaces, "a replaces entry", report) else { continue };
        let errors_before = report.errors_seen();
        let name = entry.text("name", report).unwrap_or_default();
        if report.errors_seen() > errors_before || entry.is_told("name") {
            continue;
        }
        if name.is_empty() {
            report.error(entry.place("name"), "a replaces entry needs a name", "write name: NAME");
        } else if name == own {
            let message = format!("limit {} replaces itself", quoted(own));
            report.error(entry.place("name"), message, "write the name of another limit");
        } else {
            names.push(name);
        }
    }
    names
}

/// What to tell whom it refuses; empty if nothing is said.
fn message(fields: &Fields, report: &mut Report) -> String {
    let text = fields.raw("message", report).unwrap_or_default();
    if text.len() > MESSAGE_MAX {
        let problem = format!("a message of {} bytes is too long", text.len());
        report.error(fields.place("message"), problem, format!("write at most {MESSAGE_MAX} bytes"));
    }
    text
}

fn check_unlimited(fields: &Fields, report: &mut Report) {
    // Ignored, but still a number.
    fields.number("requests_per_unit", report);
    let unit = fields.text("unit", report);
    if unit.is_some_and(|unit| Unit::from_name(&unit).is_some()) {
        let help = "leave unit out, or leave unlimited out";
        report.error(fields.place("unit"), "unlimited and unit exclude each other", help);
    }
    for key in NOT_WITH_UNLIMITED {
        if let Some(field) = fields.set(key) {
            let message = format!("{key} means nothing with unlimited: true");
            report.error(field.key_at, message, format!("leave {key} out, or leave unlimited out"));
        }
    }
}

/// Everything that may be written about a limit; none where it is absent, or
/// wrong, which is reported.
struct Numbers {
    algorithm: Written,
    unit: Option<Unit>,
    multiplier: Option<u32>,
    count: Option<u32>,
    burst: Option<u32>,
    refill: Option<Refill>,
    buckets: Option<u32>,
    max_wait: Option<Micros>,
    exceed: Option<(u32, Place)>,
    count_rejected: Option<bool>,
    on_store_error: Option<OnStoreError>,
    /// Something was wrong, so that there is no limit.
    is_wrong: bool,
}

impl Numbers {
    fn read(fields: &Fields, report: &mut Report) -> Self {
        let errors_before = report.errors_seen();
        let algorithm = algorithm(fields, report);
        let mut numbers = Self {
            algorithm,
            unit: unit(fields, report),
            multiplier: fields.number("unit_multiplier", report),
            count: fields.number("requests_per_unit", report),
            burst: fields.number("burst", report),
            refill: refill(fields, report),
            buckets: fields.number("buckets", report),
            max_wait: max_wait(fields, report),
            exceed: throttle(fields, report),
            count_rejected: fields.flag("count_rejected", report),
            on_store_error: on_store_error(fields, report),
            is_wrong: false,
        };
        numbers.check_window(fields, report);
        check_parameters(fields, algorithm, report);
        if fields.set("requests_per_unit").is_none() && !fields.is_told("requests_per_unit") {
            report.warning(
                fields.at,
                "requests_per_unit is missing, which means 0 and blocks every request",
                "write requests_per_unit: N, or requests_per_unit: 0 to block on purpose",
            );
        }
        numbers.is_wrong = report.errors_seen() > errors_before;
        numbers
    }

    /// How long a window may be is said in the unit that it is written in.
    fn check_window(&self, fields: &Fields, report: &mut Report) {
        let (Some(unit), Some(multiplier)) = (self.unit, self.multiplier) else { return };
        let most = WINDOW_MAX.get() / unit.length().get();
        if multiplier == 0 || u64::from(multiplier) > most {
            let message = format!("a window of {multiplier} times one {} is out of range", unit.name());
            let help = format!("write unit_multiplier: 1 to {most}");
            report.error(fields.place("unit_multiplier"), message, help);
        }
    }

    fn limit(&self, fields: &Fields, report: &mut Report) -> Option<(Limit, Unit, u32)> {
        if self.is_wrong {
            return None;
        }
        let (unit, multiplier) = (self.unit?, self.multiplier.unwrap_or(1));
        let count = self.count.unwrap_or(0);
        let window = unit.length().times(u64::from(multiplier));
        let limit = match Limit::new(count, window, self.shape(count)) {
            Ok(limit) => limit,
            Err(error) => {
                report.refuse(blamed(&error, fields), &error);
                return None;
            }
        };
        let limit = match self.exceed {
            None => limit,
            Some((percent, at)) => limit.soft(percent).map_err(|error| report.refuse(at, &error)).ok()?,
        };
        let by_default = self.algorithm == Written::Absent && !report.options().stop_counting_rejected;
        let count_rejected = self.count_rejected.unwrap_or(by_default);
        let on_store_error = self.on_store_error.unwrap_or_default();
        let limit = limit.counting_rejected(count_rejected).with_on_store_error(on_store_error);
        Some((limit, unit, multiplier))
    }

    fn shape(&self, count: u32) -> Shape {
        let burst = self.burst.unwrap_or(count);
        let algorithm = match self.algorithm {
            Written::Is(algorithm) => algorithm,
            Written::Absent | Written::Wrong => Algorithm::FixedWindow,
        };
        match algorithm {
            Algorithm::FixedWindow => Shape::FixedWindow,
            Algorithm::SlidingLog => Shape::SlidingLog,
            Algorithm::SlidingCounter => Shape::SlidingCounter,
            Algorithm::SlidingBuckets => {
                Shape::SlidingBuckets { buckets: self.buckets.unwrap_or(BUCKETS_DEFAULT) }
            }
            Algorithm::TokenBucket => Shape::TokenBucket { burst, refill: self.refill.unwrap_or_default() },
            Algorithm::LeakyBucket => Shape::LeakyBucket { burst, max_wait: self.max_wait },
        }
    }
}

/// The key that a refusal is about.
fn blamed(error: &LimitError, fields: &Fields) -> Place {
    let candidates: &[&str] = match error {
        LimitError::Window { .. } => &["unit_multiplier", "unit"],
        LimitError::Buckets { .. } => &["buckets"],
        LimitError::NeverRefills { .. } | LimitError::NoBurst => &["burst"],
        LimitError::Fill { .. } => &["burst", "unit_multiplier", "requests_per_unit"],
        LimitError::Log { .. } | LimitError::Exceed { .. } | _ => &["requests_per_unit"],
    };
    candidates.iter().find_map(|key| fields.set(key)).map_or(fields.at, |field| field.node.at)
}

/// What is written as algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Absent,
    Wrong,
    Is(Algorithm),
}

fn algorithm(fields: &Fields, report: &mut Report) -> Written {
    if fields.set("algorithm").is_none() {
        return Written::Absent;
    }
    let Some(name) = fields.text("algorithm", report) else { return Written::Wrong };
    Algorithm::from_name(&name).map_or_else(
        || {
            let help = help_for_word("algorithm", &name, &Algorithm::ALL.map(Algorithm::name));
            report.error(fields.place("algorithm"), format!("unknown algorithm {}", quoted(&name)), help);
            Written::Wrong
        },
        Written::Is,
    )
}

fn unit(fields: &Fields, report: &mut Report) -> Option<Unit> {
    let names = Unit::ALL.map(Unit::name);
    if fields.set("unit").is_none() {
        if !fields.is_told("unit") {
            report.error(fields.place("unit"), "a limit needs a unit", help_for_word("unit", "", &names));
        }
        return None;
    }
    let name = fields.text("unit", report)?;
    let unit = Unit::from_name(&name);
    if unit.is_none() {
        let message = format!("unknown unit {}", quoted(&name));
        report.error(fields.place("unit"), message, help_for_word("unit", &name, &names));
    }
    unit
}

fn refill(fields: &Fields, report: &mut Report) -> Option<Refill> {
    let name = fields.text("refill", report)?;
    match name.as_str() {
        "smooth" => Some(Refill::Smooth),
        "interval" => Some(Refill::Interval),
        _ => {
            let help = help_for_word("refill", &name, &["smooth", "interval"]);
            report.error(fields.place("refill"), format!("unknown refill {}", quoted(&name)), help);
            None
        }
    }
}

fn on_store_error(fields: &Fields, report: &mut Report) -> Option<OnStoreError> {
    let name = fields.text("on_store_error", report)?;
    let found = OnStoreError::from_name(&name);
    if found.is_none() {
        let help = help_for_word("on_store_error", &name, &OnStoreError::ALL.map(OnStoreError::name));
        report.error(
            fields.place("on_store_error"),
            format!("unknown on_store_error {}", quoted(&name)),
            help,
        );
    }
    found
}

fn max_wait(fields: &Fields, report: &mut Report) -> Option<Micros> {
    let text = fields.raw("max_wait", report)?;
    parse_duration(&text).map_err(|error| report.refuse(fields.place("max_wait"), &error)).ok()
}

/// Refuses parameters of other algorithms.
fn check_parameters(fields: &Fields, algorithm: Written, report: &mut Report) {
    for (key, owners) in PARAMETERS {
        let Some(field) = fields.set(key) else { continue };
        let has = match algorithm {
            Written::Wrong => continue,
            Written::Is(algorithm) if owners.contains(&algorithm) => continue,
            Written::Is(algorithm) => algorithm.name(),
            Written::Absent => "a limit without algorithm",
        };
        let owners: Vec<&str> = owners.iter().map(|owner| owner.name()).collect();
        let help = format!("write algorithm: {}, or leave {key} out", owners.join(" or "));
        report.error(field.key_at, format!("{has} has no {key}"), help);
    }
}

const SOFT_HELP: &str = "write throttle: hard, or throttle: { soft: { exceed: 10% } }";

/// The percentage of a soft limit and where it stands; none for a hard limit.
fn throttle(fields: &Fields, report: &mut Report) -> Option<(u32, Place)> {
    let field = fields.set("throttle")?;
    let at = field.node.at;
    let (word, word_at, value) = match &*field.node.kind {
        Kind::Scalar(scalar) => (scalar.text.as_str(), at, None),
        Kind::Map(pairs) => match pairs.as_slice() {
            [(key, value)] => match &*key.kind {
                Kind::Scalar(scalar) => (scalar.text.as_str(), key.at, Some(value)),
                Kind::Map(_) | Kind::List(_) | Kind::Broken => ("", key.at, None),
            },
            _ => ("", at, None),
        },
        Kind::List(_) => ("", at, None),
        Kind::Broken => return None,
    };
    match (word, value) {
        ("hard", None) => None,
        ("elastic", _) => {
            report.error(word_at, "throttle: elastic is not in this version of Tollgate", SOFT_HELP);
            None
        }
        ("soft", Some(value)) => exceed(value, report),
        ("soft", None) => {
            let help = "write throttle: { soft: { exceed: 10% } }";
            report.error(word_at, "throttle: soft needs to know by how much", help);
            None
        }
        _ => {
            let what = if word.is_empty() {
                "throttle is not understood".to_owned()
            } else {
                format!("unknown throttle {}", quoted(word))
            };
            report.error(word_at, what, SOFT_HELP);
            None
        }
    }
}

fn exceed(value: &Node, report: &mut Report) -> Option<(u32, Place)> {
    let help = "write soft: { exceed: 10% }";
    let Kind::Map(pairs) = &*value.kind else {
        report.error(value.at, "soft must be a map with exceed", help);
        return None;
    };
    let mut found = None;
    for (key, value) in pairs {
        let Kind::Scalar(name) = &*key.kind else { continue };
        if name.text != "exceed" {
            report.error(key.at, format!("unknown key {}", quoted(&name.text)), help);
            return None;
        }
        let text = match &*value.kind {
            Kind::Scalar(scalar) => scalar.text.as_str(),
            Kind::Map(_) | Kind::List(_) | Kind::Broken => "",
        };
        match text.strip_suffix('%').and_then(|digits| digits.parse::<u32>().ok()) {
            Some(percent) => found = Some((percent, value.at)),
            None => {
                let message = format!("exceed must be a percentage, this is {}", quoted(text));
                report.error(
                    value.at,
                    message,
                    format!("write exceed: N%, with N from 1 to {EXCEED_MAX_PERCENT}"),
                );
                return None;
            }
        }
    }
    if found.is_none() {
        report.error(value.at, "soft needs exceed", help);
    }
    found
}
