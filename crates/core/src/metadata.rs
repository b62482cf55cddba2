//! Free data that an operator attaches to a rule, given back to callers.
//!
//! A tree without a serialisation of its own: the edges convert.

/// A piece of free data.
///
/// ```
/// use tollgate_core::MetadataValue;
/// let mut first = MetadataValue::Map(vec![("team".into(), MetadataValue::Text("a".into()))]);
/// first.merge(&MetadataValue::Map(vec![("team".into(), MetadataValue::Null), ("tier".into(), MetadataValue::Int(2))]));
/// assert_eq!(
///     first,
///     MetadataValue::Map(vec![("team".into(), MetadataValue::Text("a".into())), ("tier".into(), MetadataValue::Int(2))])
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetadataValue {
    /// Nothing.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number, as written.
    Number(String),
    /// Text.
    Text(String),
    /// Several, in order.
    List(Vec<MetadataValue>),
    /// Several by name, in the order written.
    Map(Vec<(String, MetadataValue)>),
}

impl MetadataValue {
    /// Adds what `other` has and this has not; maps are merged all the way
    /// down, and the value that was there first wins.
    pub fn merge(&mut self, other: &Self) {
        let (Self::Map(mine), Self::Map(theirs)) = (self, other) else { return };
        for (name, value) in theirs {
            match mine.iter_mut().find(|(own, _)| own == name) {
                Some((_, own)) => own.merge(value),
                None => mine.push((name.clone(), value.clone())),
            }
        }
    }
}
