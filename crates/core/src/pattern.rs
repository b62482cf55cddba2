//! Values with `*` in them.
//!
//! A pattern is matched against the text `key_value`: the first literal is its
//! beginning, the last its end, and those between are found from left to right.
//!
//! Deliberately not here: an escape for a literal `*`; an exact match is tried
//! before any pattern, so a value that is the pattern itself is found there.

/// A text with at least one `*`, each standing for any run of characters.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    literals: Box<[Box<str>]>,
    shortest: usize,
}

impl Pattern {
    /// The pattern of `text`; none if it has no `*`.
    pub(crate) fn new(text: &str) -> Option<Self> {
        if !text.contains('*') {
            return None;
        }
        let literals: Box<[Box<str>]> = text.split('*').map(Box::from).collect();
        let shortest = literals.iter().map(|literal| literal.len()).sum();
        Some(Self { literals, shortest })
    }

    /// What every match begins with.
    pub(crate) fn prefix(&self) -> &str {
        self.literals.first().map_or("", |literal| literal)
    }

    /// Whether `text` fits.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = &*self.literals else { return false };
        if text.len() < self.shortest {
            return false;
        }
        let Some(rest) = text.strip_prefix(&**first) else { return false };
        let Some(mut rest) = rest.strip_suffix(&**last) else { return false };
        for literal in middle {
            let Some(at) = rest.find(&**literal) else { return false };
            rest = rest.get(at + literal.len()..).unwrap_or("");
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_run_of_characters() {
        let cases = [
            ("path_/api/*", "path_/api/", true),
            ("path_/api/*", "path_/api/x/y", true),
            ("path_/api/*", "path_/apis", false),
            ("f_*.pdf", "f_a.pdf", true),
            ("f_*.pdf", "f_a.pdf.exe", false),
            ("f_a*b*c", "f_a-b-c", true),
            ("f_a*b*c", "f_abc", true),
            ("f_a*b*c", "f_ac", false),
            ("f_ab*ba", "f_aba", false),
            ("k_*", "k_", true),
            ("*_x", "anything_x", true),
            ("**", "", true),
        ];
        for (pattern, text, fits) in cases {
            assert_eq!(Pattern::new(pattern).unwrap().matches(text), fits, "{pattern} {text}");
        }
        assert!(Pattern::new("plain").is_none());
    }
}
