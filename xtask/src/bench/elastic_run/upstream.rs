//! An API that serves so many requests at a time and takes the same time for each.
//!
//! Further requests wait for a slot, as they do for a thread or a database connection of a real one.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;

/// Requests at a time.
pub(super) const SLOTS: usize = 4;
/// How long each of them takes.
pub(super) const SERVICE_TIME: Duration = Duration::from_millis(20);

#[derive(Default)]
struct UpstreamSlots {
    busy: Mutex<usize>,
    freed: Condvar,
    latencies: Mutex<Vec<u64>>,
}

/// An API with a fixed capacity.
pub(super) struct SlowUpstream {
    address: SocketAddr,
    slots: Arc<UpstreamSlots>,
}

/// How long requests took, in microseconds.
pub(super) struct LatencyList(Vec<u64>);

impl LatencyList {
    /// So many percent took no longer.
    pub(super) fn percentile(&self, percent: usize) -> u64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let index = sorted.len().saturating_sub(1) * percent / 100;
        sorted.get(index).copied().unwrap_or(0)
    }
}

impl SlowUpstream {
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, slots) = (listener.local_addr()?, Arc::<UpstreamSlots>::default());
        let own = Arc::clone(&slots);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let own = Arc::clone(&own);
                std::thread::spawn(move || drop(serve(stream, &own)));
            }
        });
        Ok(Self { address, slots })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// How long requests took since the last time.
    pub(super) fn take(&self) -> LatencyList {
        LatencyList(std::mem::take(&mut *self.slots.latencies.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn serve(mut stream: TcpStream, slots: &UpstreamSlots) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    loop {
        // A request is its head: nobody here sends a body.
        for line in lines.by_ref() {
            if line?.is_empty() {
                break;
            }
        }
        let arrived = now();
        slots.serve();
        let took = u64::try_from(arrived.elapsed().as_micros())?;
        slots.latencies.lock().unwrap_or_else(PoisonError::into_inner).push(took);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")?;
    }
}

impl UpstreamSlots {
    fn serve(&self) {
        let busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let mut busy =
            self.freed.wait_while(busy, |busy| *busy >= SLOTS).unwrap_or_else(PoisonError::into_inner);
        *busy += 1;
        drop(busy);
        std::thread::park_timeout(SERVICE_TIME);
        *self.busy.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.freed.notify_one();
    }
}

#[expect(clippy::disallowed_methods, reason = "it is measured, and nothing is decided by it")]
pub(super) fn now() -> Instant {
    Instant::now()
}
