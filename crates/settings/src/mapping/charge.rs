//! When a descriptor is charged, and what: `charge`, `refund_on` and `cost` beside its actions.

use tollgate_http::{ChargeTerms, Fact, ResponseCost, StatusPattern, StatusSet};
use tollgate_yaml::{Located, MapSchema, Problems, YamlMap, YamlNode};

use super::required_text;
use crate::go_syntax::choice;

pub(crate) const CHARGE: MapSchema = MapSchema {
    what: "charge",
    keys: &["when", "status"],
    example: "charge: { when: response, status: [401, 403] }",
};
pub(crate) const COST: MapSchema = MapSchema {
    what: "cost",
    keys: &["from", "header_name", "field", "default"],
    example: "cost: { from: json, field: usage.total_tokens }",
};

/// The most that an answer without a number can cost.
const DEFAULT_MAX: u64 = 1_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChargeTime {
    Request,
    Response,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CostFrom {
    Header,
    Json,
}

/// The terms of a descriptor; none if they are wrong, which is reported.
pub(super) fn terms(descriptor: &YamlMap, problems: &mut Problems) -> Option<ChargeTerms> {
    // Each is read before any is judged, so that all mistakes are told at once.
    let before = problems.error_count();
    let refund_on = descriptor.get("refund_on").and_then(|_| statuses(descriptor, "refund_on", problems));
    let cost = descriptor.get("cost").and_then(|field| cost(&field.node, problems));
    let (mut time, mut status) = (None, None);
    let charge = descriptor.get("charge").and_then(|field| YamlMap::read(&field.node, &CHARGE, problems));
    if let Some(charge) = charge {
        let times = [("request", ChargeTime::Request), ("response", ChargeTime::Response)];
        time = charge.parsed("when", |text| choice(text, "is no time to charge at", &times), problems);
        status = charge.get("status").and_then(|_| statuses(&charge, "status", problems));
    }
    if problems.error_count() > before {
        return None;
    }
    let needs_response = status.is_some() || cost.is_some();
    match time.map(|time| time.value) {
        Some(ChargeTime::Request) if needs_response => {
            let message = "the status and the cost of an answer are not known when the request comes";
            problems.error(descriptor.location("charge"), message, "write charge: { when: response }");
            None
        }
        None | Some(ChargeTime::Request) if !needs_response => {
            Some(refund_on.map_or(ChargeTerms::AtOnce, ChargeTerms::RefundOn))
        }
        None | Some(ChargeTime::Request | ChargeTime::Response) if refund_on.is_some() => {
            let message = "refund_on gives back what was taken when the request came, and nothing was";
            let help = "write charge: { when: response, status: [STATUS] } for the answers that are charged";
            problems.error(descriptor.location("refund_on"), message, help);
            None
        }
        None | Some(ChargeTime::Request | ChargeTime::Response) => {
            Some(ChargeTerms::OnResponse { status, cost: cost.unwrap_or(ResponseCost::One) })
        }
    }
}

fn statuses(map: &YamlMap, key: &str, problems: &mut Problems) -> Option<StatusSet> {
    let texts = map.texts(key, "STATUS", problems);
    let count = texts.len();
    let mut patterns = Vec::new();
    for Located { value, at } in texts {
        match StatusPattern::parse(&value) {
            Ok(pattern) => patterns.push(pattern),
            Err(error) => problems.error_from(at, &error),
        }
    }
    if patterns.len() < count {
        return None;
    }
    StatusSet::new(patterns).map_err(|error| problems.error_from(map.location(key), &error)).ok()
}

fn cost(node: &YamlNode, problems: &mut Problems) -> Option<ResponseCost> {
    let map = YamlMap::read(node, &COST, problems)?;
    map.required("from", "response_header or json", problems)?;
    let sources = [("response_header", CostFrom::Header), ("json", CostFrom::Json)];
    let from = map.parsed("from", |text| choice(text, "has no cost", &sources), problems)?.value;
    let default = map.number("default", 0..=DEFAULT_MAX, problems).unwrap_or(1);
    let (wanted, other, example) = match from {
        CostFrom::Header => ("header_name", "field", "NAME"),
        CostFrom::Json => ("field", "header_name", "usage.total_tokens"),
    };
    if map.get(other).is_some() {
        let message = format!("{other} is not for this kind of cost");
        problems.error(map.location(other), message, format!("write {wanted}: {example}"));
    }
    let Located { value, at } = required_text(&map, wanted, example, problems)?;
    let cost = match from {
        CostFrom::Json => ResponseCost::json(&value, default),
        CostFrom::Header => match Fact::header(&value) {
            Ok(Fact::Header(name)) => Ok(ResponseCost::Header { name, default }),
            Ok(_) | Err(_) => Err(tollgate_http::Error::HeaderName { text: value }),
        },
    };
    cost.map_err(|error| problems.error_from(at, &error)).ok()
}
