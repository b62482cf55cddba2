//! The same as text, once.

use std::io::{self, Write};

use tollgate_history::SeriesKind;
use tollgate_history::time_text::rfc3339;

use super::sample::{ServerSample, deferred};
use crate::console::{BOLD, WARN, clean};
use crate::history::{grouped, write_top};

pub(super) fn write(sample: &ServerSample, last: &str, out: &mut dyn Write) -> io::Result<()> {
    let at = rfc3339(sample.at.get() / 1_000_000);
    writeln!(out, "{BOLD}tollgate top{BOLD:#} {} at {at}", clean(&sample.url))?;
    let since = |label: &str| sample.page.sum("tollgate_requests_total", label).unwrap_or(0.0);
    writeln!(out, "since its start: {:.0} requests, {:.0} denied", since(""), since("\"denied\""))?;
    if let Some(keys) = sample.page.sum("tollgate_store_keys", "") {
        let is_degraded =
            sample.page.sum("tollgate_store_degraded", "").is_some_and(|degraded| degraded > 0.0);
        writeln!(out, "store: {keys:.0} keys{}", if is_degraded { ", DEGRADED" } else { "" })?;
    }
    if let Some(deferred) = deferred(&sample.page) {
        writeln!(out, "{deferred}")?;
    }
    let lists = match &sample.lists {
        Ok(lists) => lists,
        Err(why) => return writeln!(out, "{WARN}there are no lists{WARN:#}: {}", clean(why)),
    };
    let (total, denied) = (grouped(lists.summary.total), grouped(lists.summary.denied));
    writeln!(out, "in the last {}: {total} requests, {denied} denied", clean(last))?;
    for (by, top) in
        [(SeriesKind::Route, &lists.routes), (SeriesKind::Rule, &lists.rules), (SeriesKind::Key, &lists.keys)]
    {
        writeln!(out)?;
        write_top(by, top, out)?;
    }
    Ok(())
}
