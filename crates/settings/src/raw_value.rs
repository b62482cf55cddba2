//! A value as it was given: the text of a flag or variable, or a piece of YAML.
//!
//! The reader finds it, and a setting's parser makes a value of it.
//!
//! Invariant: no message repeats what stands there, which may be a secret.

use std::path::PathBuf;

use tollgate_core::Secret;
use tollgate_yaml::{YamlNode, YamlValue};

/// A value as it was given.
pub(crate) enum RawValue {
    /// One text.
    Text(String),
    /// The texts of a flag that was given several times.
    Texts(Vec<String>),
    /// What stands in the file.
    Yaml(YamlNode),
}

impl RawValue {
    /// The one text that it is.
    pub(crate) fn text(&self) -> Result<&str, String> {
        let text = match self {
            Self::Text(text) => Some(text.as_str()),
            Self::Texts(texts) => texts.last().map(String::as_str),
            Self::Yaml(node) => node.as_str(),
        };
        text.ok_or_else(|| "must be one value; write a text or a number".to_owned())
    }

    /// The texts that it is: several flags, a list in the file, or one text,
    /// which `split` takes apart.
    fn texts_by(&self, split: fn(&str) -> Vec<String>) -> Result<Vec<String>, String> {
        let texts = match self {
            Self::Text(text) => Some(split(text)),
            Self::Texts(texts) => Some(texts.clone()),
            Self::Yaml(node) => match &*node.value {
                YamlValue::Scalar(scalar) => Some(split(&scalar.text)),
                YamlValue::List(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
                YamlValue::Map(_) | YamlValue::Broken => None,
            },
        };
        texts.ok_or_else(|| "must be a list; write [first, second]".to_owned())
    }

    /// The texts that it is; one text is one of them, commas and all.
    pub(crate) fn texts(&self) -> Result<Vec<String>, String> {
        self.texts_by(|text| vec![text.to_owned()])
    }

    /// The texts that it is; in one text there are commas between them.
    pub(crate) fn list(&self) -> Result<Vec<String>, String> {
        self.texts_by(comma_list)
    }

    /// Names with values: a map in the file, or one text such as `k:v,k2:v2`
    /// with one of `signs` between name and value.
    pub(crate) fn pairs(&self, signs: &[char]) -> Result<Vec<(String, String)>, String> {
        if let Self::Yaml(node) = self
            && let YamlValue::Map(pairs) = &*node.value
        {
            let own = |node: &YamlNode| node.as_str().map(str::to_owned);
            let pairs = pairs.iter().map(|(name, value)| own(name).zip(own(value)));
            let pairs: Option<Vec<(String, String)>> = pairs.collect();
            return pairs.ok_or_else(|| "must be names with values; write name: value".to_owned());
        }
        let text = self.text().map_err(|_| "must be names with values; write name: value".to_owned())?;
        pairs(text, signs)
    }

    /// The YAML that it is.
    pub(crate) fn node(&self) -> Result<YamlNode, String> {
        match self {
            Self::Yaml(node) => Ok(node.clone()),
            Self::Text(_) | Self::Texts(_) => Err("must be a map; write it in tollgate.yaml".to_owned()),
        }
    }
}

pub(crate) fn text(value: &RawValue) -> Result<String, String> {
    value.text().map(str::to_owned)
}

pub(crate) fn path(value: &RawValue) -> Result<PathBuf, String> {
    value.text().map(PathBuf::from)
}

pub(crate) fn paths(value: &RawValue) -> Result<Vec<PathBuf>, String> {
    Ok(value.texts()?.into_iter().map(PathBuf::from).collect())
}

pub(crate) fn secret(value: &RawValue) -> Result<Secret, String> {
    value.text().map(Secret::new)
}

pub(crate) fn colon_pairs(value: &RawValue) -> Result<Vec<(String, String)>, String> {
    value.pairs(&[':'])
}

pub(crate) fn equals_pairs(value: &RawValue) -> Result<Vec<(String, String)>, String> {
    value.pairs(&['='])
}

/// `a,b,c`.
fn comma_list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

/// `k:v,k2:v2`, with one of `signs` between name and value.
pub(crate) fn pairs(text: &str, signs: &[char]) -> Result<Vec<(String, String)>, String> {
    let sign = signs.first().copied().unwrap_or(':');
    let pair = |item: String| match item.split_once(signs) {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(format!("an item is no pair of a name and a value; write name{sign}value,name{sign}value")),
    };
    comma_list(text).into_iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_split_at_the_first_sign() {
        let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(pairs("a:1, b:2:3,", &[':']), Ok(vec![own("a", "1"), own("b", "2:3")]));
        assert_eq!(
            pairs("authorization=Bearer a:b", &['=', ':']),
            Ok(vec![own("authorization", "Bearer a:b")])
        );
        assert!(pairs("lonely", &[':']).is_err());
        assert!(pairs(":nameless", &[':']).is_err());
    }
}
