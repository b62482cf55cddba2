//! A curve as bars in SVG, with its table for who cannot see it.

use tollgate_replay::CurvePoint;

use super::Page;
use super::table::{self, Align};
use crate::history::{grouped, moment};

/// In units of the drawing; it grows with the page.
const WIDTH: u64 = 1_200;
const HEIGHT: u64 = 240;
/// As many bars as can be told apart.
const BARS_MAX: usize = 240;
/// Rows of the table.
const ROWS_MAX: usize = 48;

/// Draws a curve whose points are `step_s` apart.
pub(super) fn draw(page: &mut Page, curve: &[CurvePoint], step_s: u64) {
    let bars = merged(curve, BARS_MAX);
    let most = bars.iter().map(|bar| bar.requests).max().unwrap_or(0).max(1);
    let count = u64::try_from(bars.len()).unwrap_or(u64::MAX).max(1);
    let (first, last) =
        (curve.first().map_or(0, |point| point.at), curve.last().map_or(0, |point| point.at + step_s));
    page.raw("<figure class=\"chart\"><div class=\"legend\">");
    for (class, name) in [("allowed", "Allowed"), ("delayed", "Delayed"), ("denied", "Denied")] {
        page.raw("<span><i class=\"dot outcome-").raw(class).raw("\"></i>").raw(name).raw("</span>");
    }
    page.numbers(format_args!("<span>highest bar: {} requests</span></div>", grouped(most)));
    page.numbers(format_args!(
        "<svg class=\"curve\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Requests over time; the table below has the numbers\">"
    ));
    for (place, bar) in (0_u64..).zip(&bars) {
        let (left, right) = (place * WIDTH / count, (place + 1) * WIDTH / count);
        // A gap where bars are wide enough for one.
        let width = (right - left).saturating_sub(u64::from(right - left > 3)).max(1);
        let height = |part: u64| {
            u64::try_from(u128::from(part) * u128::from(HEIGHT) / u128::from(most)).unwrap_or(HEIGHT)
        };
        let mut top = HEIGHT;
        let passed = bar.requests.saturating_sub(bar.denied + bar.delayed);
        for (class, part) in [("allowed", passed), ("delayed", bar.delayed), ("denied", bar.denied)] {
            // What happened at all is seen.
            let height = height(part).max(u64::from(part > 0)).min(top);
            top -= height;
            if height > 0 {
                page.numbers(format_args!(
                    "<rect class=\"{class}\" x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\"/>"
                ));
            }
        }
    }
    page.numbers(format_args!(
        "</svg><div class=\"axis\"><span>{}</span><span>{}</span></div>",
        moment(first),
        moment(last)
    ));
    page.raw("<details><summary>As a table</summary>");
    let heads = [
        ("From (UTC)", Align::Left),
        ("Requests", Align::Right),
        ("Delayed", Align::Right),
        ("Denied", Align::Right),
    ];
    table::table(page, "Requests over time", &heads, |page| {
        for CurvePoint { at, requests, denied, delayed } in merged(curve, ROWS_MAX) {
            page.numbers(format_args!("<tr><td data-value=\"{at}\">{}</td>", moment(at)));
            for number in [requests, delayed, denied] {
                table::number(page, number);
            }
            page.raw("</tr>");
        }
    });
    page.raw("</details></figure>");
}

/// The points, so many put together that no more than `most` are left.
fn merged(curve: &[CurvePoint], most: usize) -> Vec<CurvePoint> {
    let together = |points: &[CurvePoint]| {
        let (first, rest) = points.split_first()?;
        Some(rest.iter().fold(*first, |sum, point| CurvePoint {
            at: sum.at,
            requests: sum.requests + point.requests,
            denied: sum.denied + point.denied,
            delayed: sum.delayed + point.delayed,
        }))
    };
    curve.chunks(curve.len().div_ceil(most).max(1)).filter_map(together).collect()
}
