//! Texts with `$1` in them, filled from what a pattern has matched.
//!
//! Used where operators rewrite names: the Prometheus mapping and the
//! mogrifiers of `DogStatsD`.

/// A text with `$1` or `${1}` where the first group belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupTemplate(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Group(usize),
}

impl GroupTemplate {
    /// Splits `text` at its groups; a `$` that names no group is a `$`.
    pub(super) fn new(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            pieces.push(Piece::Text(before.to_owned()));
            match group(after) {
                Some((number, after)) => {
                    pieces.push(Piece::Group(number));
                    rest = after;
                }
                None => {
                    pieces.push(Piece::Text("$".to_owned()));
                    rest = after;
                }
            }
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Self(pieces)
    }

    /// The text with `groups` in it; one that is not there is empty.
    pub(super) fn fill(&self, groups: &[&str]) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Group(number) => groups.get(*number).copied().unwrap_or_default().to_owned(),
        };
        self.0.iter().map(piece).collect()
    }
}

/// The group that `text`, which follows a `$`, begins with, and what follows it.
fn group(text: &str) -> Option<(usize, &str)> {
    if let Some(braced) = text.strip_prefix('{') {
        let (number, after) = braced.split_once('}')?;
        return Some((number.parse().ok()?, after));
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, after) = text.split_at(end);
    Some((number.parse().ok()?, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_filled_in() {
        let groups = ["all", "one", "two"];
        let rows = [
            ("x.$1.y$2", "x.one.ytwo"),
            ("${1}0", "one0"),
            ("$0", "all"),
            ("$9-$10", "-"),
            ("a$ b$x ${z} $", "a$ b$x ${z} $"),
            ("", ""),
        ];
        for (text, expected) in rows {
            assert_eq!(GroupTemplate::new(text).fill(&groups), expected);
        }
    }
}
