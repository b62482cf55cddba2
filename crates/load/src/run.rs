//! Carries out a plan.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;
use std::{io, thread};

use crate::clock::Stopwatch;
use crate::cpu;
use crate::error::Error;
use crate::keys::{Distribution, Drawer};
use crate::line::Line;
use crate::plan::{Length, Plan};
use crate::probe;
use crate::tally::{Latencies, Tally, Verdicts};
use crate::worker::{Hand, Worker};

/// How often whoever watches is told.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// How far a run is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Time since its start, the warm-up included.
    pub elapsed: Duration,
    /// Answers since its start.
    pub answered: u64,
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How long was measured.
    pub elapsed: Duration,
    /// How many were answered in that time, errors included.
    pub answered: u64,
    /// With what.
    pub verdicts: Verdicts,
    /// How many went wrong.
    pub errors: u64,
    /// The first thing that went wrong.
    pub first_error: Option<String>,
    /// Connections that were closed before the end.
    pub lost: usize,
    /// In an open loop, questions that were due and had no answer at the end.
    pub unanswered: u64,
    /// After which time.
    pub latencies: Latencies,
    /// What the server used meanwhile; none if nobody knows.
    pub server_cpu: Option<Duration>,
    /// What we used meanwhile.
    pub own_cpu: Option<Duration>,
}

/// Carries out a plan; `tell` is told ten times a second how far it is.
///
/// # Errors
/// If nobody answers, or not in that protocol, or all connections are lost.
pub fn run(plan: &Plan, server_pid: Option<u32>, tell: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    probe::ask(plan)?;
    let answered = AtomicU64::new(0);
    let hands = deal(plan)?;
    let stopwatch = Stopwatch::start();
    let mut workers = Vec::new();
    for hand in hands {
        workers.push(Worker::new(plan, hand, stopwatch, &answered).map_err(system)?);
    }
    let (results, cpu) = thread::scope(|scope| {
        let (done, results) = mpsc::channel();
        for worker in workers {
            let done = done.clone();
            // Whoever waits for it is there until the last of them.
            scope.spawn(move || drop(done.send(worker.run())));
        }
        drop(done);
        let watch = Watch { plan, server_pid, stopwatch, answered: &answered };
        watch.until_done(&results, tell)
    });
    let mut tally = Tally::new();
    for result in results {
        tally.merge(result.map_err(system)?);
    }
    outcome(plan, tally, cpu)
}

fn system(source: io::Error) -> Error {
    Error::System { action: "wait for sockets", source }
}

/// The connections for each thread, open, and how many answers it is to count.
fn deal(plan: &Plan) -> Result<Vec<Hand>, Error> {
    let distribution = Distribution::new(plan.keys);
    let threads = plan.threads.clamp(1, plan.connections.max(1));
    let mut hands: Vec<Hand> = Vec::new();
    hands.resize_with(threads, Hand::default);
    for number in 0..plan.connections {
        let drawer = Drawer::new(distribution.clone(), u64::try_from(number).unwrap_or(0));
        let line = Line::open(plan, drawer);
        let connect = |source| Error::Connect { address: plan.address.clone(), source };
        let mut line = line.map_err(connect)?;
        line.next_due = plan.first_due(number);
        if let Some(hand) = hands.get_mut(number % threads) {
            hand.lines.push(line);
        }
    }
    if let Length::Count(all) = plan.length {
        let share = u64::try_from(threads).unwrap_or(1);
        for (index, hand) in hands.iter_mut().enumerate() {
            let more = u64::from(u64::try_from(index).is_ok_and(|index| index < all % share));
            hand.quota = Some(all / share + more);
        }
    }
    Ok(hands)
}

/// What the server and we had used, when measuring began and when it ended.
type Cpu = [Option<(Duration, Duration)>; 2];

/// Whoever waits for the threads, and tells how far they are.
struct Watch<'a> {
    plan: &'a Plan,
    server_pid: Option<u32>,
    stopwatch: Stopwatch,
    answered: &'a AtomicU64,
}

impl Watch<'_> {
    fn until_done(
        &self,
        results: &Receiver<io::Result<Tally>>,
        tell: &mut dyn FnMut(Progress),
    ) -> (Vec<io::Result<Tally>>, Cpu) {
        let (mut done, mut start) = (Vec::new(), None);
        loop {
            let elapsed = self.stopwatch.elapsed();
            let until_start = self.plan.warm_up.saturating_sub(elapsed);
            if until_start.is_zero() && start.is_none() {
                start = Some(self.used());
            }
            let wait = if start.is_none() { TELL_EVERY.min(until_start) } else { TELL_EVERY };
            match results.recv_timeout(wait) {
                Ok(result) => done.push(result),
                Err(RecvTimeoutError::Timeout) => {
                    let answered = self.answered.load(Ordering::Relaxed);
                    tell(Progress { elapsed: self.stopwatch.elapsed(), answered });
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let (end, start) = (self.used(), start.unwrap_or([None, None]));
        let [server, own] = [0, 1].map(|index: usize| Some(((*start.get(index)?)?, (*end.get(index)?)?)));
        (done, [server, own])
    }

    fn used(&self) -> [Option<Duration>; 2] {
        [self.server_pid.and_then(cpu::of), cpu::own()]
    }
}

fn outcome(plan: &Plan, tally: Tally, [server, own]: Cpu) -> Result<Outcome, Error> {
    if tally.lost == plan.connections {
        let what = tally.first_error.unwrap_or_else(|| "it does not say why".to_owned());
        return Err(Error::Lost { address: plan.address.clone(), what });
    }
    let used = |(start, end): (Duration, Duration)| end.saturating_sub(start);
    Ok(Outcome {
        elapsed: tally.elapsed,
        answered: tally.answered(),
        verdicts: tally.verdicts,
        errors: tally.errors,
        lost: tally.lost,
        unanswered: tally.unanswered,
        latencies: tally.latencies(),
        first_error: tally.first_error,
        server_cpu: server.map(used),
        own_cpu: own.map(used),
    })
}
