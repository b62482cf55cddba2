//! What was measured, as people read it: tables in Markdown, plots in SVG, and the page of both.
//!
//! Before this come the sections of `compare`, which measure; behind it `docs/performance.md`. A section is
//! kept in `target/bench/` when it was measured, and the page is made of all sections that are there.
//!
//! | module | what it holds |
//! |---|---|
//! | [`samples`] | values of several turns: median and spread |
//! | [`table`] | a table in Markdown |
//! | [`plot`] | curves and bars in SVG |
//! | [`page`] | sections on disk, and `docs/performance.md` |

pub mod page;
pub mod plot;
pub mod samples;
pub mod table;

/// What one section came to.
#[derive(Debug, Default)]
pub struct Section {
    /// Its tables and what is said about them, in Markdown.
    pub text: String,
    /// Its plots: name of the file without its end, and SVG.
    pub plots: Vec<(String, String)>,
}

impl Section {
    /// Adds a piece of text, with an empty line behind it.
    pub fn say(&mut self, text: &str) {
        self.text.push_str(text.trim_end());
        self.text.push_str("\n\n");
    }

    /// Adds a plot where the text has come to.
    pub fn show(&mut self, name: &str, what: &str, svg: String) {
        self.say(&format!("![{what}](performance/{name}.svg)"));
        self.plots.push((name.to_owned(), svg));
    }
}
