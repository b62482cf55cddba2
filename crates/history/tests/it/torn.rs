//! Kills and torn logs on Redis: no flush that was acknowledged is lost, none counts twice.
//!
//! Method: two children (this test binary again) write numbered flushes to one
//! server, each until it is acknowledged, and compact in turn. One of them, or the
//! server, is killed at a random moment 50 times; a child that starts again sends
//! first what was not acknowledged. Then the server's append-only file is cut off at
//! random places.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use tollgate_core::Time;
use tollgate_history::query::TimeRange;
use tollgate_history::{Flush, FlushId, History, InstanceId, Label, Outcome, SharedHistory, TrafficCounts};
use tollgate_redis::history::RedisTables;
use tollgate_testkit::RedisServer;
use tollgate_testkit::redis::wait_until;

use crate::log::XorShift;
use crate::nodes::{LOCK, open};

const KILLS: u64 = 50;
const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
/// Tells the child where, who it is, and what was acknowledged.
const ORDERS: &str = "TOLLGATE_TEST_TORN_ORDERS";
const START_MIN: u32 = 20_000 * 1_440;
const ALWAYS: TimeRange = TimeRange { from_s: 0, to_s: 1 << 40 };
const PATIENCE: Duration = Duration::from_secs(30);

/// Flush `seq`: seven minutes later than the last, so that each is compacted on its own
/// and days are rolled up every two hundred.
fn flush(writer: u8, seq: u64) -> (Flush, Time) {
    let minute = START_MIN + 7 * u32::try_from(seq).unwrap();
    let mut counts = TrafficCounts::default();
    for route in 0..40 {
        counts.add(minute, Label::Requests, Outcome::Allowed, count(seq, route));
        let label = Label::Route(format!("/{}", route + seq % 3).into());
        counts.add(minute, label, Outcome::Allowed, count(seq, route));
    }
    let id = FlushId { instance: InstanceId([writer; 16]), seq };
    (Flush { id, counts }, Time::from_secs(u64::from(minute) * 60))
}

fn count(seq: u64, route: u64) -> u64 {
    1 + (seq * 7 + route * 13) % 11
}

fn sum(seqs: u64) -> u64 {
    (1..=seqs).flat_map(|seq| (0..40).map(move |route| count(seq, route))).sum()
}

/// Tries until it is acknowledged, and then compacts if it can.
fn write(history: &mut SharedHistory<RedisTables>, writer: u8, seq: u64) {
    let (flush, now) = flush(writer, seq);
    wait_until("a flush is acknowledged", PATIENCE, || history.append(&flush).is_ok());
    // The next leader does what fails here.
    drop(history.maintain(now));
}

/// Does nothing unless it is called by the test below.
#[test]
fn the_child_writes_until_it_is_killed() {
    let Some(orders) = std::env::var_os(ORDERS) else { return };
    let orders = orders.into_string().unwrap();
    let [url, writer, acknowledged] = orders.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let (writer, mut seq) = (writer.parse().unwrap(), acknowledged.parse().unwrap());
    let mut opened = None;
    wait_until("the history opens", PATIENCE, || {
        opened = open(url).ok();
        opened.is_some()
    });
    let mut history = opened.unwrap();
    let mut out = std::io::stdout();
    loop {
        seq += 1;
        let (flush, now) = flush(writer, seq);
        wait_until("a flush is acknowledged", PATIENCE, || history.append(&flush).is_ok());
        writeln!(out, "acknowledged {seq}").unwrap();
        drop(history.maintain(now));
    }
}

struct WriterProcess {
    id: u8,
    acknowledged: u64,
    running: Option<(Child, std::io::Lines<BufReader<ChildStdout>>)>,
}

impl WriterProcess {
    fn start(&mut self, url: &str) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "torn::the_child_writes_until_it_is_killed", "--nocapture", "--test-threads=1"])
            .env(ORDERS, format!("{url} {} {}", self.id, self.acknowledged))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        self.running = Some((child, lines));
    }

    /// Reads until so many more are acknowledged.
    fn follow(&mut self, more: u64) {
        let until = self.acknowledged + more;
        while self.acknowledged < until {
            let (_, lines) = self.running.as_mut().unwrap();
            let line = lines.next().unwrap().unwrap();
            self.hear(&line);
        }
    }

    fn hear(&mut self, line: &str) {
        // The harness may put its own words before ours.
        if let Some((_, seq)) = line.split_once("acknowledged ") {
            self.acknowledged = seq.parse().unwrap();
        }
    }

    fn kill(&mut self) {
        let Some((mut child, lines)) = self.running.take() else { return };
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines.map_while(Result::ok) {
            self.hear(&line);
        }
    }
}

impl Drop for WriterProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

#[test]
fn no_acknowledged_flush_is_lost_or_counted_twice_whoever_is_killed() {
    let mut server = RedisServer::start_with(&DURABLE);
    let url = server.url();
    let mut random = XorShift(u64::from(std::process::id()) * 2 + 1);
    let mut writers = [1, 2].map(|id| WriterProcess { id, acknowledged: 0, running: None });
    writers.iter_mut().for_each(|writer| writer.start(&url));
    for kill in 0..KILLS {
        let who = usize::try_from(kill % 2).unwrap();
        writers[who].follow(1 + random.below(4));
        // Nothing depends on the lock: the other one may lead at once.
        server.cli(&["del", LOCK]);
        (0..random.below(4_000_000)).for_each(|n| {
            std::hint::black_box(n);
        });
        if kill % 5 == 4 {
            server.restart();
        } else {
            writers[who].kill();
            writers[who].start(&url);
        }
    }
    writers.iter_mut().for_each(WriterProcess::kill);
    let mut history = open(&url).unwrap();
    let known: u64 = writers.iter().map(|writer| sum(writer.acknowledged)).sum();
    let open_flushes: u64 =
        writers.iter().map(|writer| sum(writer.acknowledged + 1) - sum(writer.acknowledged)).sum();
    let told = history.read(|reader| reader.summary(ALWAYS)).unwrap().total;
    assert!((known..=known + open_flushes).contains(&told), "{told}, of which {known} are acknowledged");
    // What was not acknowledged is sent again, and then it is exact.
    for writer in &mut writers {
        writer.acknowledged += 1;
        write(&mut history, writer.id, writer.acknowledged);
    }
    let all: u64 = writers.iter().map(|writer| sum(writer.acknowledged)).sum();
    assert_eq!(history.read(|reader| reader.summary(ALWAYS)).unwrap().total, all);
    let flushes: u64 = writers.iter().map(|writer| writer.acknowledged).sum();
    println!("{flushes} flushes over {KILLS} kills, every sum exact");
}

/// Cuts so many bytes off the append-only file; whether there were so many.
fn cut(server: &RedisServer, bytes: u64) -> bool {
    let folder = server.folder().join("appendonlydir");
    let is_log = |path: &std::path::PathBuf| path.to_string_lossy().ends_with(".incr.aof");
    let log = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).find(is_log).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(log).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length.saturating_sub(bytes)).unwrap();
    length >= bytes
}

#[test]
fn an_append_only_file_that_is_torn_anywhere_repeats_nothing() {
    let mut server = RedisServer::start_with(&DURABLE);
    let mut random = XorShift(u64::from(std::process::id()) * 2 + 1);
    let mut last = 0;
    for round in 0..20 {
        let mut history = open(&server.url()).unwrap();
        let first = last;
        last += 3;
        server.cli(&["del", LOCK]);
        ((first + 1)..=last).for_each(|seq| write(&mut history, 1, seq));
        assert_eq!(server.cli(&["hlen", "h1:{history}:l"]), "0", "everything is compacted");
        server.kill();
        // Anywhere in the last flush and its commit, or in those before.
        assert!(cut(&server, 1 + random.below(6_000)));
        // The first start drops what is torn; a second one reads what the first has left.
        server.restart();
        let mut history = open(&server.url()).unwrap();
        (first.saturating_sub(9).max(1)..=last).for_each(|seq| write(&mut history, 1, seq));
        server.restart();
        let mut history = open(&server.url()).unwrap();
        let told = history.read(|reader| reader.summary(ALWAYS)).unwrap().total;
        assert_eq!(told, sum(last), "round {round}");
    }
}
