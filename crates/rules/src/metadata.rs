//! Free data on a rule: YAML as a [`Value`].
//!
//! Its keys and values are the operator's own; only what could not be given
//! back to callers is refused.
//!
//! Deliberately not here: how it is sent.

use std::collections::HashMap;

use tollgate_core::Value;

use super::fields::{Field, shown};
use super::problem::Report;
use super::yaml::{Kind, Node, Resolved};

/// The free data of a descriptor; none if it is no map, which is reported.
pub(crate) fn read(field: &Field, report: &mut Report) -> Option<Value> {
    match &*field.node.kind {
        Kind::Map(_) => value(&field.node, report),
        Kind::Broken | Kind::Scalar(_) | Kind::List(_) => {
            field.wrong("a map", "write metadata: and below it NAME: VALUE", report);
            None
        }
    }
}

fn value(node: &Node, report: &mut Report) -> Option<Value> {
    match &*node.kind {
        Kind::List(items) => {
            let items: Vec<Option<Value>> = items.iter().map(|item| value(item, report)).collect();
            Some(Value::List(items.into_iter().collect::<Option<_>>()?))
        }
        Kind::Map(pairs) => {
            let mut free = Free::default();
            free.add(pairs, report);
            Some(Value::Map(free.fields))
        }
        Kind::Scalar(scalar) => Some(match scalar.resolve() {
            Resolved::Null => Value::Null,
            Resolved::Bool(is_true) => Value::Bool(is_true),
            Resolved::Int(number) => Value::Int(number),
            Resolved::Text => Value::Text(scalar.text.clone()),
            Resolved::Float => Value::Number(scalar.text.clone()),
            Resolved::Timestamp => {
                let message = format!("metadata cannot hold {}", shown(node));
                report.error(node.at, message, format!("write \"{}\", in quotes", scalar.text));
                return None;
            }
        }),
        Kind::Broken => None,
    }
}

/// The fields of a map; the last of two equal names wins.
#[derive(Default)]
struct Free {
    fields: Vec<(String, Value)>,
    places: HashMap<String, usize>,
}

impl Free {
    fn put(&mut self, name: String, value: Value) {
        match self.places.get(&name).and_then(|index| self.fields.get_mut(*index)) {
            Some(field) => field.1 = value,
            None => {
                self.places.insert(name.clone(), self.fields.len());
                self.fields.push((name, value));
            }
        }
    }

    fn add(&mut self, pairs: &[(Node, Node)], report: &mut Report) {
        for (key, node) in pairs {
            match &*key.kind {
                Kind::Scalar(scalar) if scalar.is_merge() => self.merge(node, report),
                Kind::Scalar(scalar) => {
                    if let Some(value) = value(node, report) {
                        self.put(scalar.text.clone(), value);
                    }
                }
                Kind::Map(_) | Kind::List(_) => {
                    let message = format!("a key must be a text, this is {}", shown(key));
                    report.error(key.at, message, "write NAME: VALUE");
                }
                Kind::Broken => {}
            }
        }
    }

    /// Adds what an anchored map has; of several maps the first wins.
    fn merge(&mut self, node: &Node, report: &mut Report) {
        let sources = match &*node.kind {
            Kind::List(items) => items.iter().rev().collect(),
            Kind::Map(_) | Kind::Scalar(_) | Kind::Broken => vec![node],
        };
        for source in sources {
            match &*source.kind {
                Kind::Map(pairs) => self.add(pairs, report),
                Kind::Scalar(_) | Kind::List(_) => {
                    let message = format!("<< takes a map, this is {}", shown(source));
                    report.error(source.at, message, "write <<: *NAME with the anchor of a map");
                }
                Kind::Broken => {}
            }
        }
    }
}
