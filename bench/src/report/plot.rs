//! Curves and bars in SVG, in the colours of the dashboard, light and dark.
//!
//! Small on purpose: a page has about ten of them. Axes of curves are logarithmic, because what is plotted
//! goes over powers of ten; bars begin at 0.
#![expect(
    clippy::float_arithmetic,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "places on a picture"
)]

use std::fmt::Write as _;

/// One curve: its name and its points, with x and y above 0.
#[derive(Debug, Clone)]
pub struct PlotCurve {
    /// What it is called.
    pub name: String,
    /// Where it goes.
    pub points: Vec<(u64, f64)>,
}

/// What stands around a plot.
#[derive(Debug, Clone, Copy)]
pub struct Labels<'a> {
    /// What it shows.
    pub title: &'a str,
    /// What goes to the right.
    pub x: &'a str,
    /// What goes up, or what a bar is.
    pub y: &'a str,
}

const WIDTH: f64 = 640.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 40.0;
const HEIGHT: f64 = 240.0;

/// Colours are the dashboard's (`dashboard/src/style.css`): allowed, denied, delayed, soft, shadow-denied, degraded.
const STYLE: &str = "<style>\
text{font:12px system-ui,sans-serif;fill:#5a6472}.t{font-size:14px;fill:#1a202b}\
.b{fill:#fff}.g{stroke:#dde1e7}\
.c0{--c:#3f86c8}.c1{--c:#d0500a}.c2{--c:#159a74}.c3{--c:#d9a900}.c4{--c:#c063a0}.c5{--c:#7c838d}\
path{fill:none;stroke:var(--c);stroke-width:2}circle,.bar{fill:var(--c)}\
@media(prefers-color-scheme:dark){text{fill:#9aa5b4}.t{fill:#e7ebf1}.b{fill:#181e27}.g{stroke:#2c3541}\
.c0{--c:#4a90d2}.c1{--c:#f0732a}.c2{--c:#2bb58b}.c3{--c:#e8c547}.c4{--c:#d987bd}.c5{--c:#8f97a3}}\
</style>";

/// Curves over axes that go by powers of ten; the upward axis begins at the power below the smallest value.
pub fn curves(labels: Labels<'_>, curves: &[PlotCurve]) -> String {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let x = Axis::over(points().map(|(x, _)| *x as f64), LEFT, WIDTH - RIGHT);
    let y = Axis::over(points().map(|(_, y)| *y), TOP + HEIGHT, TOP);
    let mut svg = begin(labels.title, TOP + HEIGHT + 44.0);
    for power in x.powers() {
        let at = x.place(10_f64.powi(power));
        put(
            &mut svg,
            &format!(r#"<line class="g" x1="{at:.1}" x2="{at:.1}" y1="{TOP}" y2="{}"/>"#, TOP + HEIGHT),
        );
        text(&mut svg, at, TOP + HEIGHT + 16.0, "middle", &round(10_f64.powi(power)));
    }
    for power in y.powers() {
        let at = y.place(10_f64.powi(power));
        put(
            &mut svg,
            &format!(r#"<line class="g" x1="{LEFT}" x2="{}" y1="{at:.1}" y2="{at:.1}"/>"#, WIDTH - RIGHT),
        );
        text(&mut svg, LEFT - 6.0, at + 4.0, "end", &round(10_f64.powi(power)));
    }
    text(&mut svg, f64::midpoint(LEFT, WIDTH - RIGHT), TOP + HEIGHT + 36.0, "middle", labels.x);
    text(&mut svg, 8.0, TOP - 8.0, "start", labels.y);
    for (n, curve) in curves.iter().enumerate() {
        let places: Vec<(f64, f64)> =
            curve.points.iter().map(|(px, py)| (x.place(*px as f64), y.place(*py))).collect();
        let steps = places
            .iter()
            .enumerate()
            .map(|(at, (x, y))| format!("{}{x:.1} {y:.1}", if at == 0 { "M" } else { "L" }));
        let dots = places.iter().map(|(x, y)| format!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="3"/>"#));
        put(
            &mut svg,
            &format!(
                r#"<g class="c{}"><path d="{}"/>{}</g>"#,
                n % 6,
                steps.collect::<String>(),
                dots.collect::<String>()
            ),
        );
        if curves.len() > 1 {
            let (end_x, end_y) = places.last().copied().unwrap_or((LEFT, TOP));
            text(&mut svg, end_x - 6.0, end_y - 8.0, "end", &curve.name);
        }
    }
    svg + "</svg>\n"
}

/// Horizontal bars with their names and values; those of ours have a colour of their own.
pub fn bars(labels: Labels<'_>, bars: &[(String, f64)]) -> String {
    let most = bars.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
    let (left, row) = (260.0, 24.0);
    let mut svg = begin(labels.title, TOP + row * bars.len() as f64 + 28.0);
    for (n, (name, value)) in bars.iter().enumerate() {
        let top = TOP + row * n as f64;
        let width = (WIDTH - RIGHT - 56.0 - left) * value / most;
        let class = if name.to_lowercase().contains("tollgate") { 0 } else { 5 };
        put(
            &mut svg,
            &format!(
                r#"<g class="c{class}"><rect class="bar" x="{left}" y="{top:.1}" width="{width:.1}" height="{}" rx="2"/></g>"#,
                row - 6.0
            ),
        );
        text(&mut svg, left - 6.0, top + 13.0, "end", &name.replace('`', ""));
        text(&mut svg, left + width + 6.0, top + 13.0, "start", &round(*value));
    }
    text(&mut svg, left, TOP + row * bars.len() as f64 + 16.0, "start", labels.y);
    svg + "</svg>\n"
}

/// An axis by powers of ten.
struct Axis {
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let logs: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::log10).collect();
        let least = logs.iter().copied().fold(f64::INFINITY, f64::min).floor();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max).ceil();
        if least.is_finite() {
            Self { least, most: most.max(least + 1.0), from, to }
        } else {
            Self { least: 0.0, most: 1.0, from, to }
        }
    }

    fn place(&self, value: f64) -> f64 {
        self.from + (self.to - self.from) * (value.log10() - self.least) / (self.most - self.least)
    }

    #[expect(clippy::cast_possible_truncation, reason = "powers of ten are small")]
    fn powers(&self) -> std::ops::RangeInclusive<i32> {
        self.least as i32..=self.most as i32
    }
}

fn begin(title: &str, height: f64) -> String {
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">{STYLE}<rect class="b" width="100%" height="100%" rx="6"/>"#
    );
    put(&mut svg, &format!(r#"<title>{0}</title><text class="t" x="8" y="20">{0}</text>"#, escaped(title)));
    svg
}

fn put(svg: &mut String, piece: &str) {
    svg.push_str(piece);
    svg.push('\n');
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    let words = escaped(words);
    writeln!(svg, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{words}</text>"#)
        .expect("a text takes every line");
}

fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;")
}

/// A number as people read it on an axis.
fn round(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{} M", trimmed(value / 1e6)),
        value if value >= 1e3 => format!("{} k", trimmed(value / 1e3)),
        value => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let text = if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABELS: Labels<'_> = Labels { title: "cost & keys", x: "keys", y: "ns" };

    #[test]
    fn a_curve_goes_from_corner_to_corner_of_its_powers_of_ten() {
        let curve = PlotCurve { name: "check".into(), points: vec![(1_000, 10.0), (10_000, 100.0)] };
        let svg = curves(LABELS, &[curve]);
        assert!(svg.contains("M64.0 280.0L624.0 40.0"), "{svg}");
        assert!(svg.contains("cost &amp; keys") && svg.contains(">10 k<"), "{svg}");
    }

    #[test]
    fn the_longest_bar_is_the_largest_value_and_ours_has_a_colour() {
        let svg = bars(LABELS, &[("peer".into(), 2.5), ("tollgate".into(), 5.0)]);
        assert!(svg.contains(r#"<g class="c5"><rect class="bar" x="260" y="40.0" width="154.0""#), "{svg}");
        assert!(svg.contains(r#"<g class="c0"><rect class="bar" x="260" y="64.0" width="308.0""#), "{svg}");
    }
}
