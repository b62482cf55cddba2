//! A part of `tollgate.yaml` that is more than texts by key, with its places.
//!
//! The file keeps it as it stands there; whoever it is for takes it apart with
//! [`Fields`], which collects what is wrong.

use super::reader::Reader;

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// `file:line:column`.
    pub(super) place: String,
    pub(super) value: Value,
}

/// YAML as it stands there.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Null,
    Text(String),
    List(Vec<Node>),
    Map(Vec<Field>),
}

/// A field of a map.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) name: String,
    /// Where the name stands.
    pub(super) place: String,
    pub(super) node: Node,
}

/// A text and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) place: String,
    pub(super) text: String,
}

impl Node {
    /// Whether nothing stands there.
    fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// The text that it is; anything else is a mistake.
    pub(super) fn text(self, reader: &mut Reader<'_>) -> Option<Placed> {
        match self.value {
            Value::Text(text) => Some(Placed { place: self.place, text }),
            Value::Null | Value::List(_) | Value::Map(_) => {
                reader.mistake(self.place, "must be one value; write a text or a number");
                None
            }
        }
    }

    /// The list that it is; anything else is a mistake.
    pub(super) fn list(self, reader: &mut Reader<'_>) -> Vec<Self> {
        match self.value {
            Value::List(items) => items,
            Value::Null | Value::Text(_) | Value::Map(_) => {
                reader.mistake(self.place, "must be a list; write [ … ], or one item a line after a dash");
                Vec::new()
            }
        }
    }
}

/// The fields of a map, taken one by one.
pub(super) struct Fields {
    place: String,
    fields: Vec<Field>,
}

impl Fields {
    /// The fields of a node that may have these; nothing at all is an empty map.
    pub(super) fn of(node: Node, known: &[&str], reader: &mut Reader<'_>) -> Option<Self> {
        let Node { place, value } = node;
        let mut fields = match value {
            Value::Map(fields) => fields,
            Value::Null => Vec::new(),
            Value::Text(_) | Value::List(_) => {
                reader.mistake(place, format!("must be a map; write {}", known.join(", ")));
                return None;
            }
        };
        fields.retain(|field| {
            let is_known = known.contains(&field.name.as_str());
            if !is_known {
                let message = format!("unknown key '{}'; write one of {}", field.name, known.join(", "));
                reader.mistake(field.place.clone(), message);
            }
            is_known
        });
        Some(Self { place, fields })
    }

    /// The value of a field that is there and says something.
    pub(super) fn take(&mut self, name: &str) -> Option<Node> {
        let index = self.fields.iter().position(|field| field.name == name)?;
        Some(self.fields.swap_remove(index).node).filter(|node| !node.is_null())
    }

    /// The text of a field, if it is there.
    pub(super) fn text(&mut self, name: &str, reader: &mut Reader<'_>) -> Option<Placed> {
        self.take(name)?.text(reader)
    }

    /// The text of a field that must be there.
    pub(super) fn required(&mut self, name: &str, reader: &mut Reader<'_>) -> Option<Placed> {
        let Some(node) = self.take(name) else {
            reader.mistake(self.place.clone(), format!("'{name}' is missing; write {name}: and a text"));
            return None;
        };
        node.text(reader)
    }

    /// The text of a field as somebody understands it.
    pub(super) fn parsed<T>(
        &mut self,
        name: &str,
        reader: &mut Reader<'_>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let Placed { place, text } = self.text(name, reader)?;
        parse(text.trim()).map_err(|message| reader.mistake(place, message)).ok()
    }

    /// The texts of a field that is a list of them, or one.
    pub(super) fn texts(&mut self, name: &str, reader: &mut Reader<'_>) -> Vec<Placed> {
        match self.take(name) {
            None => Vec::new(),
            Some(Node { value: Value::List(items), .. }) => {
                items.into_iter().filter_map(|item| item.text(reader)).collect()
            }
            Some(node) => node.text(reader).into_iter().collect(),
        }
    }

    /// Where the map stands.
    pub(super) fn place(&self) -> &str {
        &self.place
    }
}
