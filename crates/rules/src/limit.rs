//! One `rate_limit`, or one item of `rate_limits`.
//!
//! Called by `domain` for each descriptor. What numbers make a limit is
//! decided by [`Limit::new`]; here each refusal is put to the key it is about.
//!
//! Invariant: a parameter that the algorithm does not have is refused, so that
//! nothing written goes without effect.
//!
//! Deliberately not here: what the descriptor says about its limits.

use tollgate_core::limit::{BELOW_LOAD_MIN_PERCENT, EXCEED_MAX_PERCENT, WINDOW_MAX};
use tollgate_core::rule::{Elastic, RuleSpec};
use tollgate_core::{
    Algorithm, Limit, LimitError, Micros, Mode, OnStoreError, OverLimit, Parameters, Penalty, PenaltyError,
    Refill, Shape, Unit,
};
use tollgate_yaml::{Located, Location, Problems, YamlMap, YamlNode, YamlValue, one_of, quoted};

use crate::Options;
use crate::fields::{self, count, text};
use crate::keys::RuleMapKind;
use crate::lists::FileLists;

/// A message goes out with every refusal, so it is a sentence or two and no page.
pub const MESSAGE_MAX: usize = 1_000;

/// A limit as read, or that there is none.
#[derive(Debug)]
pub(crate) enum OneLimit {
    Unlimited { label: String, replaces: Vec<String> },
    Limited(Box<RuleSpec>),
}

type HasParameter = fn(&Parameters) -> bool;

/// The keys of a limit that only some algorithms have, and whether one has it.
pub(crate) const PARAMETERS: [(&str, HasParameter); 4] = [
    ("burst", |parameters| parameters.burst.is_some()),
    ("refill", |parameters| parameters.refill.is_some()),
    ("buckets", |parameters| parameters.buckets.is_some()),
    ("max_wait", |parameters| parameters.max_wait.is_some()),
];
/// Keys that mean nothing where nothing is limited, and that the reference
/// does not know, so that nobody depends on them being ignored.
pub(crate) const NOT_WITH_UNLIMITED: [&str; 15] = [
    "algorithm",
    "unit_multiplier",
    "burst",
    "refill",
    "buckets",
    "max_wait",
    "count_rejected",
    "throttle",
    "on_store_error",
    "postpaid",
    "penalty",
    "over_limit",
    "message",
    "allow",
    "deny",
];

/// Reads one limit; none if it makes no limit, which is reported.
pub(crate) fn read(node: &YamlNode, options: &Options, problems: &mut Problems) -> Option<OneLimit> {
    let fields = fields::read(node, RuleMapKind::Limit, problems)?;
    let label = text(&fields, "name", problems).unwrap_or_default();
    let replaces = replaces(&fields, &label, problems);
    match fields.flag("unlimited", problems) {
        Some(true) => {
            check_unlimited(&fields, problems);
            return Some(OneLimit::Unlimited { label, replaces });
        }
        // Neither yes nor no, so that nothing is to be said about the rest.
        None if fields.get("unlimited").is_some() => return None,
        Some(false) | None => {}
    }
    let numbers = LimitFields::read(&fields, problems);
    let message = message(&fields, problems);
    let lists = FileLists::read(&fields, problems);
    let (limit, unit, unit_multiplier) = numbers.limit(&fields, options, problems)?;
    let elastic = numbers.elastic(&limit, problems).ok()?;
    let (mode, lists) = (Mode::default(), lists?.shared());
    let spec = RuleSpec {
        label,
        elastic,
        unit_multiplier,
        mode,
        over_limit: numbers.over_limit,
        replaces,
        message,
        lists,
        ..RuleSpec::new(limit, unit)
    };
    Some(OneLimit::Limited(Box::new(spec)))
}

fn replaces(fields: &YamlMap, own: &str, problems: &mut Problems) -> Vec<String> {
    let mut names = Vec::new();
    for item in fields.list("replaces", "name: NAME", problems) {
        let Some(entry) = fields::read(item, RuleMapKind::Replaces, problems) else { continue };
        let errors_before = problems.error_count();
        let name = text(&entry, "name", problems).unwrap_or_default();
        if problems.error_count() > errors_before || entry.is_reported("name") {
            continue;
        }
        if name.is_empty() {
            problems.error(entry.location("name"), "a replaces entry needs a name", "write name: NAME");
        } else if name == own {
            let message = format!("limit {} replaces itself", quoted(own));
            problems.error(entry.location("name"), message, "write the name of another limit");
        } else {
            names.push(name);
        }
    }
    names
}

/// What to tell whom it refuses; empty if nothing is said.
fn message(fields: &YamlMap, problems: &mut Problems) -> String {
    let text = fields.text("message", problems).map_or_else(String::new, |text| text.value);
    if text.len() > MESSAGE_MAX {
        let problem = format!("a message of {} bytes is too long", text.len());
        problems.error(fields.location("message"), problem, format!("write at most {MESSAGE_MAX} bytes"));
    }
    text
}

fn check_unlimited(fields: &YamlMap, problems: &mut Problems) {
    // Ignored, but still a number.
    count(fields, "requests_per_unit", problems);
    let unit = text(fields, "unit", problems);
    if unit.is_some_and(|unit| Unit::from_name(&unit).is_some()) {
        let help = "leave unit out, or leave unlimited out";
        problems.error(fields.location("unit"), "unlimited and unit exclude each other", help);
    }
    for key in NOT_WITH_UNLIMITED {
        if let Some(field) = fields.get(key) {
            let message = format!("{key} means nothing with unlimited: true");
            problems.error(field.key_at, message, format!("leave {key} out, or leave unlimited out"));
        }
    }
}

/// Everything that may be written about a limit; none where it is absent, or
/// wrong, which is reported.
struct LimitFields {
    algorithm: AlgorithmField,
    unit: Option<Unit>,
    multiplier: Option<u32>,
    count: Option<u32>,
    burst: Option<u32>,
    refill: Option<Refill>,
    buckets: Option<u32>,
    max_wait: Option<Micros>,
    throttle: Option<Throttle>,
    count_rejected: Option<bool>,
    on_store_error: Option<OnStoreError>,
    postpaid: Option<bool>,
    penalty: Option<Penalty>,
    over_limit: OverLimit,
    /// Something was wrong, so that there is no limit.
    is_wrong: bool,
}

impl LimitFields {
    fn read(fields: &YamlMap, problems: &mut Problems) -> Self {
        let errors_before = problems.error_count();
        let algorithm = algorithm(fields, problems);
        let mut numbers = Self {
            algorithm,
            unit: unit(fields, problems),
            multiplier: count(fields, "unit_multiplier", problems),
            count: count(fields, "requests_per_unit", problems),
            burst: count(fields, "burst", problems),
            refill: refill(fields, problems),
            buckets: count(fields, "buckets", problems),
            max_wait: fields.parsed("max_wait", str::parse, problems).map(|wait| wait.value),
            throttle: throttle(fields, problems),
            count_rejected: fields.flag("count_rejected", problems),
            on_store_error: on_store_error(fields, problems),
            postpaid: fields.flag("postpaid", problems),
            penalty: penalty(fields, problems),
            over_limit: over_limit(fields, problems),
            is_wrong: false,
        };
        numbers.check_window(fields, problems);
        check_parameters(fields, algorithm, problems);
        numbers.check_over_limit(fields, problems);
        if fields.get("requests_per_unit").is_none() && !fields.is_reported("requests_per_unit") {
            problems.warning(
                fields.at,
                "requests_per_unit is missing, which means 0 and blocks every request",
                "write requests_per_unit: N, or requests_per_unit: 0 to block on purpose",
            );
        }
        numbers.is_wrong = problems.error_count() > errors_before;
        numbers
    }

    /// How long a window may be is said in the unit that it is written in.
    fn check_window(&self, fields: &YamlMap, problems: &mut Problems) {
        let (Some(unit), Some(multiplier)) = (self.unit, self.multiplier) else { return };
        let most = WINDOW_MAX.get() / unit.length().get();
        if multiplier == 0 || u64::from(multiplier) > most {
            let message = format!("a window of {multiplier} times one {} is out of range", unit.name());
            let help = format!("write unit_multiplier: 1 to {most}");
            problems.error(fields.location("unit_multiplier"), message, help);
        }
    }

    /// What does not go with putting requests off.
    fn check_over_limit(&self, fields: &YamlMap, problems: &mut Problems) {
        if self.over_limit != OverLimit::Defer {
            return;
        }
        let mut refuse = |key: &str, message: &str, help: &str| {
            let at = fields.get(key).map_or(fields.at, |field| field.key_at);
            problems.error(at, message, help);
        };
        if self.penalty.is_some() {
            let message = "a limit that defers denies nobody, so that a penalty has nothing to count";
            refuse("penalty", message, "leave penalty out, or write over_limit: deny");
        }
        if self.count_rejected == Some(true) {
            let message = "a request that is deferred is counted when it is sent, and not before";
            refuse("count_rejected", message, "leave count_rejected out, or write over_limit: deny");
        }
        if self.count == Some(0) {
            let message = "a limit of 0 never has room, so that nothing it defers would be sent";
            refuse("requests_per_unit", message, "write at least 1, or write over_limit: deny");
        }
    }

    fn limit(
        &self,
        fields: &YamlMap,
        options: &Options,
        problems: &mut Problems,
    ) -> Option<(Limit, Unit, u32)> {
        if self.is_wrong {
            return None;
        }
        let (unit, multiplier) = (self.unit?, self.multiplier.unwrap_or(1));
        let count = self.count.unwrap_or(0);
        let window = unit.length().times(u64::from(multiplier));
        let limit = match Limit::new(count, window, self.shape(count)) {
            Ok(limit) => limit,
            Err(error) => {
                problems.error_from(blamed(&error, fields), &error);
                return None;
            }
        };
        let limit = match &self.throttle {
            None | Some(Throttle::Elastic { .. }) => limit,
            Some(Throttle::Soft { exceed: Located { value: percent, at } }) => {
                limit.soft(*percent).map_err(|error| problems.error_from(*at, &error)).ok()?
            }
        };
        let is_deferring = self.over_limit == OverLimit::Defer;
        let by_default =
            self.algorithm == AlgorithmField::Absent && !options.stop_counting_rejected && !is_deferring;
        let count_rejected = self.count_rejected.unwrap_or(by_default);
        let on_store_error = self.on_store_error.unwrap_or_default();
        let limit = limit.counting_rejected(count_rejected).with_on_store_error(on_store_error);
        let limit = limit.with_postpaid(self.postpaid.unwrap_or(false)).with_penalty(self.penalty);
        Some((limit, unit, multiplier))
    }

    /// What more the limit allows while the load is low; an error if it makes no limit, which is reported.
    fn elastic(&self, limit: &Limit, problems: &mut Problems) -> Result<Option<Box<Elastic>>, ()> {
        let Some(Throttle::Elastic { exceed, below_load }) = &self.throttle else { return Ok(None) };
        let elastic = Elastic::new(limit, exceed.value, below_load.value).map_err(|error| {
            let at = if matches!(error, LimitError::BelowLoad { .. }) { below_load.at } else { exceed.at };
            problems.error_from(at, &error);
        })?;
        Ok(Some(Box::new(elastic)))
    }

    fn shape(&self, count: u32) -> Shape {
        let algorithm = match self.algorithm {
            AlgorithmField::Is(algorithm) => algorithm,
            AlgorithmField::Absent | AlgorithmField::Wrong => Algorithm::FixedWindow,
        };
        let parameters = Parameters {
            burst: self.burst,
            refill: self.refill,
            buckets: self.buckets,
            max_wait: Some(self.max_wait),
        };
        Shape::new(algorithm, &parameters, count)
    }
}

/// The key that a refusal is about.
fn blamed(error: &LimitError, fields: &YamlMap) -> Location {
    let candidates: &[&str] = match error {
        LimitError::Window { .. } => &["unit_multiplier", "unit"],
        LimitError::Buckets { .. } => &["buckets"],
        LimitError::NeverRefills { .. } | LimitError::NoBurst => &["burst"],
        LimitError::Fill { .. } => &["burst", "unit_multiplier", "requests_per_unit"],
        LimitError::Log { .. } | LimitError::Exceed { .. } | _ => &["requests_per_unit"],
    };
    candidates.iter().find_map(|key| fields.get(key)).map_or(fields.at, |field| field.node.at)
}

/// What is written as algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AlgorithmField {
    Absent,
    Wrong,
    Is(Algorithm),
}

fn algorithm(fields: &YamlMap, problems: &mut Problems) -> AlgorithmField {
    let is_absent = fields.get("algorithm").is_none();
    let names = Algorithm::ALL.map(Algorithm::name);
    match fields.choice("algorithm", &names, Algorithm::from_name, problems) {
        Some(algorithm) => AlgorithmField::Is(algorithm),
        None if is_absent => AlgorithmField::Absent,
        None => AlgorithmField::Wrong,
    }
}

fn unit(fields: &YamlMap, problems: &mut Problems) -> Option<Unit> {
    let names = Unit::ALL.map(Unit::name);
    if fields.get("unit").is_none() && !fields.is_reported("unit") {
        let help = format!("{} for unit", one_of(names));
        problems.error(fields.location("unit"), "a limit needs a unit", help);
    }
    fields.choice("unit", &names, Unit::from_name, problems)
}

fn refill(fields: &YamlMap, problems: &mut Problems) -> Option<Refill> {
    let find = |name: &str| Refill::ALL.into_iter().find(|refill| refill.name() == name);
    fields.choice("refill", &Refill::ALL.map(Refill::name), find, problems)
}

fn on_store_error(fields: &YamlMap, problems: &mut Problems) -> Option<OnStoreError> {
    let names = OnStoreError::ALL.map(OnStoreError::name);
    fields.choice("on_store_error", &names, OnStoreError::from_name, problems)
}

fn over_limit(fields: &YamlMap, problems: &mut Problems) -> OverLimit {
    let names = OverLimit::ALL.map(OverLimit::name);
    fields.choice("over_limit", &names, OverLimit::from_name, problems).unwrap_or_default()
}

/// Refuses parameters of other algorithms.
fn check_parameters(fields: &YamlMap, algorithm: AlgorithmField, problems: &mut Problems) {
    for (key, is_had) in PARAMETERS {
        let Some(field) = fields.get(key) else { continue };
        let owns =
            |algorithm: &Algorithm| is_had(&Shape::new(*algorithm, &Parameters::default(), 1).parameters());
        let has = match algorithm {
            AlgorithmField::Wrong => continue,
            AlgorithmField::Is(algorithm) if owns(&algorithm) => continue,
            AlgorithmField::Is(algorithm) => algorithm.name(),
            AlgorithmField::Absent => "a limit without algorithm",
        };
        let owners: Vec<&str> =
            Algorithm::ALL.iter().filter(|owner| owns(owner)).map(|owner| owner.name()).collect();
        let help = format!("write algorithm: {}, or leave {key} out", owners.join(" or "));
        problems.error(field.key_at, format!("{has} has no {key}"), help);
    }
}

/// A block grows to this where only `factor` is written, and no further.
const BLOCK_MAX_DEFAULT: Micros = Micros::from_secs(86_400);
/// And it doubles where only `max` is.
const FACTOR_DEFAULT: u32 = 2;

/// What becomes of whoever is denied too often.
fn penalty(fields: &YamlMap, problems: &mut Problems) -> Option<Penalty> {
    let map = fields::read(&fields.get("penalty")?.node, RuleMapKind::Penalty, problems)?;
    for key in ["after", "within", "block"] {
        if map.get(key).is_none() && !map.is_reported(key) {
            problems.error(map.at, format!("a penalty needs {key}"), RuleMapKind::Penalty.example());
        }
    }
    let after = count(&map, "after", problems);
    let mut span = |key| map.parsed(key, str::parse::<Micros>, problems).map(|span| span.value);
    let (within, block, max) = (span("within"), span("block"), span("max"));
    let factor = count(&map, "factor", problems);
    let is_wrong = |key| map.get(key).is_some();
    if max.is_none() && is_wrong("max") || factor.is_none() && is_wrong("factor") {
        return None;
    }
    let block = block?;
    let made = Penalty::new(after?, within?, block).and_then(|penalty| match (factor, max) {
        (None, None) => Ok(penalty),
        (factor, max) => {
            penalty.growing(factor.unwrap_or(FACTOR_DEFAULT), max.unwrap_or(BLOCK_MAX_DEFAULT.max(block)))
        }
    });
    made.map_err(|error| {
        let key = match error {
            PenaltyError::After { .. } => "after",
            PenaltyError::Within { .. } => "within",
            PenaltyError::Block { .. } => "block",
            PenaltyError::Factor { .. } => "factor",
            PenaltyError::Max { .. } | _ => "max",
        };
        problems.error_from(map.location(key), &error);
    })
    .ok()
}

const THROTTLE_HELP: &str = "write throttle: hard, throttle: { soft: { exceed: 10% } }, \
                             or throttle: { elastic: { exceed: 100%, below_load: 70% } }";

/// What a limit lets through beyond its numbers.
#[derive(Debug)]
enum Throttle {
    Soft { exceed: Located<u32> },
    Elastic { exceed: Located<u32>, below_load: Located<u32> },
}

/// What may be exceeded and by how much; none for a hard limit.
fn throttle(fields: &YamlMap, problems: &mut Problems) -> Option<Throttle> {
    let node = &fields.get("throttle")?.node;
    let (word, value) = match &*node.value {
        YamlValue::Map(pairs) => match pairs.as_slice() {
            [(key, value)] => (key, Some(value)),
            _ => (node, None),
        },
        YamlValue::Scalar(_) | YamlValue::List(_) => (node, None),
        YamlValue::Broken => return None,
    };
    match (word.as_str().unwrap_or_default(), value) {
        ("hard", None) => {}
        ("soft", Some(value)) => {
            let [exceed] = percentages(value, "soft", ["exceed"], "write soft: { exceed: 10% }", problems)?;
            return Some(Throttle::Soft { exceed });
        }
        ("elastic", Some(value)) => {
            let help = "write elastic: { exceed: 100%, below_load: 70% }";
            let [exceed, below_load] =
                percentages(value, "elastic", ["exceed", "below_load"], help, problems)?;
            return Some(Throttle::Elastic { exceed, below_load });
        }
        ("soft", None) => {
            let help = "write throttle: { soft: { exceed: 10% } }";
            problems.error(word.at, "throttle: soft needs to know by how much", help);
        }
        ("elastic", None) => {
            let help = "write throttle: { elastic: { exceed: 100%, below_load: 70% } }";
            problems.error(
                word.at,
                "throttle: elastic needs to know by how much, and below which load",
                help,
            );
        }
        ("", _) => problems.error(word.at, "throttle is not understood", THROTTLE_HELP),
        (word_text, _) => {
            problems.error(word.at, format!("unknown throttle {}", quoted(word_text)), THROTTLE_HELP);
        }
    }
    None
}

/// The percentages of these keys, all of which there must be.
fn percentages<const N: usize>(
    node: &YamlNode,
    what: &str,
    keys: [&str; N],
    help: &str,
    problems: &mut Problems,
) -> Option<[Located<u32>; N]> {
    let YamlValue::Map(pairs) = &*node.value else {
        problems.error(node.at, format!("{what} must be a map with {}", keys.join(" and ")), help);
        return None;
    };
    let mut found: [Option<Located<u32>>; N] = std::array::from_fn(|_| None);
    for (key, value) in pairs {
        let Some(name) = key.as_str() else { continue };
        let Some((_, place)) = keys.iter().zip(&mut found).find(|(key, _)| **key == name) else {
            problems.error(key.at, format!("unknown key {}", quoted(name)), help);
            return None;
        };
        let text = value.as_str().unwrap_or_default();
        let Some(percent) = text.strip_suffix('%').and_then(|digits| digits.parse::<u32>().ok()) else {
            let message = format!("{name} must be a percentage, this is {}", quoted(text));
            let (least, most) =
                if name == "exceed" { (1, EXCEED_MAX_PERCENT) } else { (BELOW_LOAD_MIN_PERCENT, 100) };
            problems.error(value.at, message, format!("write {name}: N%, with N from {least} to {most}"));
            return None;
        };
        *place = Some(Located { value: percent, at: value.at });
    }
    for (key, place) in keys.iter().zip(&found) {
        if place.is_none() {
            problems.error(node.at, format!("{what} needs {key}"), help);
            return None;
        }
    }
    Some(found.map(|place| place.expect("each was found")))
}
