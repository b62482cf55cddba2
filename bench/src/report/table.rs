//! A table in Markdown, with columns as wide as they need, so that it reads in a terminal too.

use std::fmt;

/// Rows of words; the first is the head.
#[derive(Debug, Clone, Default)]
pub struct MarkdownTable(Vec<Vec<String>>);

impl MarkdownTable {
    /// A table with this head.
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Self(vec![head.into_iter().map(Into::into).collect()])
    }

    /// One more row.
    pub fn row<S: Into<String>>(&mut self, words: impl IntoIterator<Item = S>) {
        self.0.push(words.into_iter().map(Into::into).collect());
    }
}

impl fmt::Display for MarkdownTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.0.first().map_or(0, Vec::len);
        let width = |at: usize| {
            let words = self.0.iter().filter_map(|row| row.get(at));
            words.map(|word| word.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (at, row) in self.0.iter().enumerate() {
            for (at, (word, width)) in row.iter().zip(&widths).enumerate() {
                if at == 0 { write!(f, "| {word:<width$}")? } else { write!(f, " | {word:>width$}")? }
            }
            writeln!(f, " |")?;
            if at == 0 {
                let rule = |(at, width): (usize, &usize)| match at {
                    0 => format!("|{}", "-".repeat(width + 2)),
                    _ => format!("|{}:", "-".repeat(width + 1)),
                };
                writeln!(f, "{}|", widths.iter().enumerate().map(rule).collect::<String>())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_word() {
        let mut table = MarkdownTable::new(["who", "µs"]);
        table.row(["governor", "61"]);
        assert_eq!(table.to_string(), "| who      | µs |\n|----------|---:|\n| governor | 61 |\n");
    }
}
