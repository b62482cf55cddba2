//! Sections on disk, and `docs/performance.md` made of them.
//!
//! A section that was measured is written to `target/bench/`, its plots to `docs/performance/`. The
//! page is written each time, so that one section can be measured again alone; one that was never measured says so.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::Section;

/// A section of the page.
#[derive(Debug, Clone, Copy)]
pub struct SectionRow {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What stands below its heading.
    pub intro: &'static str,
    /// What bounds its figures.
    pub bound: &'static str,
}

/// All sections in the order of the page.
pub const SECTIONS: &[SectionRow] = &[
    SectionRow {
        name: "in-process",
        title: "In process",
        intro: "One check of one library, in nanoseconds of processor time: the median of five turns in each of three processes, what it lay between, and how many times faster than governor that is. \
                Keys are 16 bytes of text, one behind the other in memory as if they had just come off a socket, and were inserted in another order. Everything is allowed unless denied is said. With 2 threads it is the processor time of a check while another thread checks the same key.",
        bound: "One key is bound by instructions: hashing, the table, the maths, the clock. A million keys do not fit the caches, and each line that must be fetched from memory costs more than all of that; so libraries that keep a key as text on the heap pay twice. Keys in batches overlap these fetches where a library lets them. The last row decides nothing: it hashes a key, and reads and writes 24 bytes of a table as large as Tollgate's.",
    },
    SectionRow {
        name: "memory",
        title: "Bytes a key",
        intro: "Resident memory of a process divided by keys, with what allocators and growing tables waste.",
        bound: "A slot of Tollgate's table is 24 bytes, whatever the text of the key, in a table that is at least four sevenths full. A full log is within a twentieth of what 500 instants to the microsecond take at least, 1,513 bytes ([why](decisions/016-logs-in-bits.md)).",
    },
    SectionRow {
        name: "pause",
        title: "No pause",
        intro: "A million new keys are checked one by one, while ten million others are alive, and while all of those have just run out. In nanoseconds, with about 40 for reading the clock; medians of three turns.",
        bound: "The median is two lines of memory. What is above p99.9 is the growth of one of 256 shards, or the machine doing something else: compare the two rows. A shared machine holds a program up for some microseconds a thousand times a second and more, which is p99.9 of both then.",
    },
    SectionRow {
        name: "grpc",
        title: "gRPC",
        intro: "`ShouldRateLimit` with rules as people have them (`examples/plans.yaml`), beside servers that decide nothing and always say OK.",
        bound: "HTTP/2 framing, header compression and the system calls of the sockets; deciding is a fifth, with all that is counted about it; the row without a history says what of that is the history. Load and server share the machine, so CPU time for a call says more than calls a second.",
    },
    SectionRow {
        name: "http",
        title: "HTTP",
        intro: "`POST /v1/check`, one request at a time on each of 50 connections. Each server has one core to itself while it is loaded, and the load has another: where both share two cores, a server that needs less time is slowed down by the load that it lets in. All of them start as many threads as they find cores.",
        bound: "Two system calls and a wake-up for each request, on the side of the load as well; JSON and the decision are a third. The row without a history says what counting by route, rule and key costs; metrics are counted in every row.",
    },
    SectionRow {
        name: "resp",
        title: "RESP",
        intro: "50 connections, with one command or more on their way on each. Each server has one core to itself while it is loaded, and the load has another; redis-server uses no more than one anyhow. In the last table keys live for a quarter of a second, so that each server is busy with forgetting them, and the others are stopped while it is loaded: p99 is what to look at there.",
        bound: "With one command on its way the kernel, which takes three quarters of the CPU time of Tollgate: two system calls for each, and as many on the side of the load. With 16 and 64 these are shared, and what is left is parsing, deciding, and memory that is not in a cache. The rows without a history say what counting by rule and key costs; metrics are counted in every row.",
    },
    SectionRow {
        name: "redis",
        title: "Decisions on Redis",
        intro: "Over gRPC, with Redis on the same machine, beside what `redis-benchmark` gets from the same script alone.",
        bound: "Redis runs scripts on one thread: its CPU time for a decision is what a shard can give. Requests that arrive together share a call. Load, service and Redis share two cores, so that the sum of their CPU times bounds requests a second; compare requests for the same CPU time.",
    },
    SectionRow {
        name: "gateway",
        title: "Gateway",
        intro: "Proxies on one core each in front of the same upstream, 64 connections: without limits, with a limit for each of a million keys, most of which they have met before, and denying. nginx may forget a key that was not asked for a minute, the others keep all.",
        bound: "Proxying: two connections, eight system calls. Each proxy is loaded without limits and at once with them, in many short turns: what limiting adds is the median of these differences, and not that of two medians.",
    },
    SectionRow {
        name: "scaling",
        title: "Scaling",
        intro: "What a decision costs when there is more of something.",
        bound: "Each curve says below it how it must grow; where it grows faster, something is wrong.",
    },
];

/// Keeps a section, and writes the page of all that are there.
///
/// # Errors
/// If a file cannot be written.
pub fn keep(name: &str, section: &Section) -> Result<()> {
    let (docs, kept) = (root().join("docs"), kept()?);
    fs::create_dir_all(docs.join("performance"))?;
    fs::write(kept.join(format!("{name}.md")), &section.text)?;
    for (plot, svg) in &section.plots {
        fs::write(docs.join(format!("performance/{plot}.svg")), svg)?;
    }
    let mut page = head()?;
    for row in SECTIONS {
        let text = fs::read_to_string(kept.join(format!("{}.md", row.name)));
        let text = text.unwrap_or_else(|_| {
            format!("Not measured on this build yet: `cargo xtask bench --only {}`.", row.name)
        });
        let SectionRow { title, intro, bound, .. } = row;
        page += &format!(
            "\n## {title}\n\n{}\n\n{}\n\n**What bounds it.** {}\n",
            lines(intro),
            text.trim(),
            lines(bound)
        );
    }
    fs::write(docs.join("performance.md"), page).context("cannot write docs/performance.md")?;
    Ok(())
}

/// One sentence a line, as all pages have it.
fn lines(text: &str) -> String {
    text.replace(". ", ".\n")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Beside the program, in the target folder.
fn kept() -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot tell where this program lies")?;
    let target = program.ancestors().nth(2).context("it lies in a target folder")?;
    let folder = target.join("bench");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn head() -> Result<String> {
    let (cpus, memory) = (fs::read_to_string("/proc/cpuinfo")?, fs::read_to_string("/proc/meminfo")?);
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).map(str::to_owned);
        line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned())).unwrap_or_default()
    };
    let cores = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let kib: u64 = field(&memory, "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0);
    Ok(format!(
        "# How fast, how small\n\n\
         `cargo xtask bench` has measured everything on this page and has written it; `--only NAME` measures one section again.\n\
         [Scale](scale.md) tells what follows from it for ten million decisions a second.\n\n\
         **Machine.** {cores} cores of a shared {} with {} GiB; Linux, client, server and peers all on it, all traffic on loopback.\n\
         Nobody promised that the machine was quiet: each section says how much else was running, and each figure how far its turns lay apart.\n\n\
         **Method.** Those who are compared take turns, at least three and mostly twelve of half a second: each is loaded, then the next, and again.\n\
         A figure is the median of its turns; ± is half of what the half of the turns in the middle lies apart, in percent of the median, or all of them if there are three.\n\
         What stands beside something else is the median of the ratios of one turn each, so that a machine that is slow for some of them is slow for both.\n\
         What stands in one table was measured together and may be compared; figures of two tables may not.\n\
         CPU time of a server for a request is the steadiest figure, because it does not count the time that others had the core.\n\
         Builds are the release profile of this repository; peers are their published versions.\n",
        field(&cpus, "model name"),
        (kib + (1 << 19)) >> 20
    ))
}

/// How busy the machine is, for the end of a section.
pub fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}
