//! A page for Prometheus: the text format, version 0.0.4.
//!
//! [`super::render`] puts families and samples in; the page comes out.
//!
//! Our own writer, because the reference's counters have no `_total` at the
//! end, which writers for `OpenMetrics` add.
//!
//! Invariant: what callers send cannot leave its label.

use std::fmt::{Display, Write as _};

/// What the page is, for `Content-Type`.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What kind of series a family holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

impl MetricKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A page in the making.
#[derive(Debug, Default)]
pub(super) struct MetricsPage {
    text: String,
}

impl MetricsPage {
    /// Begins a family; its samples follow.
    pub(super) fn family(&mut self, name: &str, kind: MetricKind, help: &str) {
        let help = help.replace('\\', r"\\").replace('\n', r"\n");
        let kind = kind.name();
        self.put(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// One sample of the family begun last.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(name);
        put_labels(&mut self.text, labels);
        self.put(format_args!(" {value}\n"));
    }

    /// The same with labels that [`labels_text`] made, for series that share
    /// them: putting labels together is most of the work of a large page.
    pub(super) fn sample_of(&mut self, name: &str, labels: &str, value: u64) {
        self.text.push_str(name);
        self.text.push_str(labels);
        match value {
            // Most counters of most rules are, and formatting costs as much as all the rest.
            0 => self.text.push_str(" 0\n"),
            _ => self.put(format_args!(" {value}\n")),
        }
    }

    /// Makes room for so many bytes more, so that a large page does not grow by copies of itself.
    pub(super) fn reserve(&mut self, bytes: usize) {
        self.text.reserve(bytes);
    }

    /// A family of one sample without labels.
    pub(super) fn single(&mut self, name: &str, kind: MetricKind, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("writing to a string does not fail");
    }
}

/// Labels as they stand on the page; nothing if there are none.
pub(super) fn labels_text(labels: &[(&str, &str)]) -> String {
    let mut text = String::new();
    put_labels(&mut text, labels);
    text
}

fn put_labels(out: &mut String, labels: &[(&str, &str)]) {
    for (place, (label, value)) in labels.iter().enumerate() {
        out.push(if place == 0 { '{' } else { ',' });
        out.push_str(label);
        out.push_str("=\"");
        put_escaped(out, value);
        out.push('"');
    }
    if !labels.is_empty() {
        out.push('}');
    }
}

fn put_escaped(out: &mut String, value: &str) {
    // Hardly any value has anything to escape.
    if !value.bytes().any(|byte| matches!(byte, b'\\' | b'"' | b'\n')) {
        return out.push_str(value);
    }
    for c in value.chars() {
        match c {
            '\\' => out.push_str(r"\\"),
            '"' => out.push_str(r#"\""#),
            '\n' => out.push_str(r"\n"),
            other => out.push(other),
        }
    }
}

/// A whole number of thousandths, shown in whole units: 2,500 is `2.5`.
pub(super) struct Milli(pub(super) u64);

/// A whole number of microseconds, shown in seconds.
pub(super) struct Seconds(pub(super) u64);

impl Display for Milli {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        decimal(f, self.0 / 1_000, &format!("{:03}", self.0 % 1_000))
    }
}

impl Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        decimal(f, self.0 / 1_000_000, &format!("{:06}", self.0 % 1_000_000))
    }
}

fn decimal(f: &mut std::fmt::Formatter<'_>, whole: u64, fraction: &str) -> std::fmt::Result {
    match fraction.trim_end_matches('0') {
        "" => write!(f, "{whole}"),
        fraction => write!(f, "{whole}.{fraction}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_help_type_and_samples() {
        let mut page = MetricsPage::default();
        page.family("tollgate_x", MetricKind::Counter, "What\nit is.");
        page.sample("tollgate_x", &[("a", "1"), ("b", "2")], 3);
        page.single("tollgate_y", MetricKind::Gauge, "Y.", Seconds(1_500_000));
        let expected = "# HELP tollgate_x What\\nit is.\n# TYPE tollgate_x counter\ntollgate_x{a=\"1\",b=\"2\"} 3\n\
                        # HELP tollgate_y Y.\n# TYPE tollgate_y gauge\ntollgate_y 1.5\n";
        assert_eq!(page.finish(), expected);
    }

    #[test]
    fn a_value_cannot_leave_its_label() {
        let mut page = MetricsPage::default();
        page.sample("x", &[("a", "q\"} 1\ny\\")], 2);
        assert_eq!(page.finish(), "x{a=\"q\\\"} 1\\ny\\\\\"} 2\n");
    }

    #[test]
    fn numbers_are_shown_without_rounding() {
        let shown = [0, 5, 25, 1_000_000, 10_000_001].map(|us| Seconds(us).to_string());
        assert_eq!(shown, ["0", "0.000005", "0.000025", "1", "10.000001"]);
        assert_eq!([5, 2_500, 10_000].map(|milli| Milli(milli).to_string()), ["0.005", "2.5", "10"]);
    }
}
