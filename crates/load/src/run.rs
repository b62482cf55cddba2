//! Carries out a plan.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;
use std::{io, thread};

use crate::connection::LoadConnection;
use crate::error::Error;
use crate::keys::{KeyDistribution, KeySource};
use crate::measurements::{Latencies, Measurements, VerdictCounts};
use crate::plan::{Plan, RunLength};
use crate::probe;
use crate::time::{self, Stopwatch};
use crate::worker::{LoadWorker, WorkerShare};

/// The time between two progress reports.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// How far a run is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Time since its start, the warm-up included.
    pub elapsed: Duration,
    /// Responses since its start.
    pub answered: u64,
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct LoadReport {
    /// The time measured.
    pub elapsed: Duration,
    /// Responses in that time, errors included.
    pub answered: u64,
    /// What they said.
    pub verdicts: VerdictCounts,
    /// How many were errors, or never came.
    pub errors: u64,
    /// The first error.
    pub first_error: Option<String>,
    /// Connections that were closed before the end.
    pub lost: usize,
    /// In an open loop, requests that were due and had no response at the end.
    pub unanswered: u64,
    /// How long they took.
    pub latencies: Latencies,
    /// CPU time of the server meanwhile; none if it is unknown.
    pub server_cpu: Option<Duration>,
    /// CPU time of this process meanwhile.
    pub own_cpu: Option<Duration>,
}

impl LoadReport {
    /// Whether nothing that was asked met a limit, so that nothing was measured
    /// but the way there and back.
    pub const fn is_unlimited(&self) -> bool {
        self.verdicts.unlimited > 0 && self.verdicts.unlimited == self.answered
    }

    /// Responses per second.
    pub fn per_second(&self) -> u64 {
        let nanos = self.elapsed.as_nanos().max(1);
        u64::try_from(u128::from(self.answered) * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
    }

    /// CPU time of the server for each response, in nanoseconds.
    pub fn server_cpu_ns(&self) -> Option<u64> {
        self.for_each_response(self.server_cpu)
    }

    /// CPU time of this process for each response, in nanoseconds.
    pub fn own_cpu_ns(&self) -> Option<u64> {
        self.for_each_response(self.own_cpu)
    }

    fn for_each_response(&self, used: Option<Duration>) -> Option<u64> {
        let nanos = used?.as_nanos().checked_div(u128::from(self.answered))?;
        u64::try_from(nanos).ok()
    }
}

/// Carries out a plan; `report` is called ten times a second.
///
/// # Errors
/// If the server does not answer in that protocol, or all connections are lost.
pub fn run(
    plan: &Plan,
    server_pid: Option<u32>,
    report: &mut dyn FnMut(Progress),
) -> Result<LoadReport, Error> {
    probe::run(plan)?;
    let answered = AtomicU64::new(0);
    let shares = shares(plan)?;
    let stopwatch = Stopwatch::start();
    let mut workers = Vec::new();
    for share in shares {
        workers.push(LoadWorker::new(plan, share, stopwatch, &answered).map_err(system)?);
    }
    let (results, cpu) = thread::scope(|scope| {
        let (done, results) = mpsc::channel();
        for worker in workers {
            let done = done.clone();
            // The receiver lives until the last of them is done.
            scope.spawn(move || drop(done.send(worker.run())));
        }
        drop(done);
        let watch = Watcher { plan, server_pid, stopwatch, answered: &answered };
        watch.until_done(&results, report)
    });
    let mut sum = Measurements::new();
    for result in results {
        sum.merge(result.map_err(system)?);
    }
    report_of(plan, sum, cpu)
}

fn system(source: io::Error) -> Error {
    Error::System { action: "wait for sockets", source }
}

/// Opens the connections and deals them out to the threads.
fn shares(plan: &Plan) -> Result<Vec<WorkerShare>, Error> {
    let distribution = KeyDistribution::new(plan.keys);
    let threads = plan.threads.clamp(1, plan.connections.max(1));
    let mut shares: Vec<WorkerShare> = Vec::new();
    shares.resize_with(threads, WorkerShare::default);
    for number in 0..plan.connections {
        let seed = u64::from(plan.keys.seed) << 32 | u64::try_from(number).unwrap_or(0);
        let keys = KeySource::new(distribution.clone(), seed);
        let connection = LoadConnection::open(plan, keys);
        let connect = |source| Error::Connect { address: plan.address.clone(), source };
        let mut connection = connection.map_err(connect)?;
        connection.next_due = plan.first_due(number);
        if let Some(share) = shares.get_mut(number % threads) {
            share.connections.push(connection);
        }
    }
    if let RunLength::Count(all) = plan.length {
        let parts = u64::try_from(threads).unwrap_or(1);
        for (index, share) in shares.iter_mut().enumerate() {
            let more = u64::from(u64::try_from(index).is_ok_and(|index| index < all % parts));
            share.quota = Some(all / parts + more);
        }
    }
    Ok(shares)
}

/// CPU time of the server and of this process when measuring began and when it ended.
type CpuSpans = [Option<(Duration, Duration)>; 2];

/// Waits for the threads and reports progress.
struct Watcher<'a> {
    plan: &'a Plan,
    server_pid: Option<u32>,
    stopwatch: Stopwatch,
    answered: &'a AtomicU64,
}

impl Watcher<'_> {
    fn until_done(
        &self,
        results: &Receiver<io::Result<Measurements>>,
        report: &mut dyn FnMut(Progress),
    ) -> (Vec<io::Result<Measurements>>, CpuSpans) {
        let (mut done, mut start) = (Vec::new(), None);
        loop {
            let elapsed = self.stopwatch.elapsed();
            let until_start = self.plan.warm_up.saturating_sub(elapsed);
            if until_start.is_zero() && start.is_none() {
                start = Some(self.used());
            }
            let wait = if start.is_none() { REPORT_EVERY.min(until_start) } else { REPORT_EVERY };
            match results.recv_timeout(wait) {
                Ok(result) => done.push(result),
                Err(RecvTimeoutError::Timeout) => {
                    let answered = self.answered.load(Ordering::Relaxed);
                    report(Progress { elapsed: self.stopwatch.elapsed(), answered });
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let (end, start) = (self.used(), start.unwrap_or([None, None]));
        let [server, own] = [0, 1].map(|index: usize| Some(((*start.get(index)?)?, (*end.get(index)?)?)));
        (done, [server, own])
    }

    fn used(&self) -> [Option<Duration>; 2] {
        [self.server_pid.and_then(time::cpu_of), time::own_cpu()]
    }
}

fn report_of(plan: &Plan, sum: Measurements, [server, own]: CpuSpans) -> Result<LoadReport, Error> {
    if sum.lost == plan.connections {
        let what = sum.first_error.unwrap_or_else(|| "it does not say why".to_owned());
        return Err(Error::Lost { address: plan.address.clone(), what });
    }
    let used = |(start, end): (Duration, Duration)| end.saturating_sub(start);
    Ok(LoadReport {
        elapsed: sum.elapsed,
        answered: sum.answered(),
        verdicts: sum.verdicts,
        errors: sum.errors,
        lost: sum.lost,
        unanswered: sum.unanswered,
        latencies: sum.latencies(),
        first_error: sum.first_error,
        server_cpu: server.map(used),
        own_cpu: own.map(used),
    })
}
