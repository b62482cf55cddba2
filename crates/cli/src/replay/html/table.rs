//! A table that a click on a head sorts by its column.

use super::Page;
use crate::history::grouped;

/// Where a column's text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
    /// Right, and left out where the page is narrow.
    Extra,
}

/// A table of these columns, with the rows that `rows` writes.
pub(super) fn table(page: &mut Page, name: &str, heads: &[(&str, Align)], rows: impl FnOnce(&mut Page)) {
    page.raw("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"")
        .text(name)
        .raw("\"><table class=\"sortable\"><thead><tr>");
    for (head, align) in heads {
        let class = match align {
            Align::Left => "",
            Align::Right => " class=\"num\"",
            Align::Extra => " class=\"num wide\"",
        };
        page.raw("<th scope=\"col\"")
            .raw(class)
            .raw("><button type=\"button\">")
            .text(head)
            .raw("</button></th>");
    }
    page.raw("</tr></thead><tbody>\n");
    rows(page);
    page.raw("</tbody></table></div>\n");
}

/// A cell with a number.
pub(super) fn number(page: &mut Page, number: u64) {
    page.numbers(format_args!("<td class=\"num\" data-value=\"{number}\">{}</td>", grouped(number)));
}
