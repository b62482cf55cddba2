//! The connections of each worker thread.
//!
//! A worker uses only its own, so that nothing is locked and no connection moves between threads.
//! Those of HTTP/1.1 are here while they have no request. They are kept for less time than
//! upstreams keep them (`keep_alive`), and the one used last is used first, so that few of them are open in quiet
//! times. Those of HTTP/2 are here from the start, and shared up to what the upstream allows.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::sender::{Http1Connection, Http2Connection, Http2Stream, UpstreamSender};
use super::server::LoadGuard;
use crate::bounds::{POOL_IDLE_MAX, POOL_IDLE_TIME, SHARED_IDLE_TIME, SHARED_MAX};

/// A connection without a request.
struct IdleConnection {
    sender: Http1Connection,
    /// From then on the upstream may be about to close it.
    until: Instant,
}

/// One that the short way has.
struct IdleStream {
    stream: TcpStream,
    until: Instant,
}

/// A connection that requests share.
struct SharedConnection {
    connection: Http2Connection,
    last_used: Instant,
}

/// The connections to one upstream.
#[derive(Default)]
struct ServerPool {
    /// The one that was given back last at the end.
    idle: Vec<IdleConnection>,
    streams: Vec<IdleStream>,
    shared: Vec<SharedConnection>,
    /// Whoever opens a connection to share holds it.
    opening: Arc<Mutex<()>>,
}

#[derive(Default)]
struct UpstreamPool {
    servers: HashMap<u64, ServerPool>,
    is_swept: bool,
}

thread_local! {
    static POOL: RefCell<UpstreamPool> = RefCell::default();
}

/// A connection of HTTP/1.1 to this upstream that was used before.
pub(super) fn take(server: u64) -> Option<UpstreamSender> {
    POOL.with_borrow_mut(|pool| {
        let idle = &mut pool.servers.get_mut(&server)?.idle;
        let now = Instant::now();
        idle.retain(|connection| !connection.sender.is_closed() && now < connection.until);
        // One whose last answer is not quite over is left for later.
        let ready = idle.iter().rposition(|connection| connection.sender.is_ready())?;
        Some(UpstreamSender::Http1(idle.remove(ready).sender))
    })
}

/// Whether nobody has closed it or said anything on it. It costs no system call unless there is
/// something to read.
fn is_open(stream: &TcpStream) -> bool {
    let mut byte = [0];
    stream.try_read(&mut byte).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// A connection of the short way that was used before; whoever wants it knows the time.
pub(super) fn take_stream_of(server: u64, now: Instant) -> Option<TcpStream> {
    POOL.with_borrow_mut(|pool| {
        let streams = &mut pool.servers.get_mut(&server)?.streams;
        while let Some(IdleStream { stream, until }) = streams.pop() {
            if now < until && is_open(&stream) {
                return Some(stream);
            }
        }
        None
    })
}

/// Lets another request have it, until then.
pub(super) fn keep_stream(server: u64, stream: TcpStream, until: Instant) {
    change(server, |pool| {
        if pool.idle.len() + pool.streams.len() < POOL_IDLE_MAX {
            pool.streams.push(IdleStream { stream, until });
        }
    });
}

/// A stream of a connection of HTTP/2 that is open.
pub(super) fn take_stream(server: u64) -> Option<Http2Stream> {
    POOL.with_borrow_mut(|pool| {
        let shared = &mut pool.servers.get_mut(&server)?.shared;
        shared.retain(|shared| !shared.connection.is_closed());
        let chosen = match shared.iter().position(|shared| shared.connection.has_room()) {
            Some(with_room) => shared.get_mut(with_room)?,
            // There are as many as there may be: the request waits for a stream of one of them.
            None if shared.len() >= SHARED_MAX => {
                shared.iter_mut().min_by_key(|shared| shared.connection.open_streams())?
            }
            None => return None,
        };
        chosen.last_used = Instant::now();
        Some(chosen.connection.stream())
    })
}

/// Lets other requests use a connection, too.
pub(super) fn share(server: u64, connection: Http2Connection) {
    let shared = SharedConnection { connection, last_used: Instant::now() };
    change(server, |pool| pool.shared.push(shared));
}

/// Held by whoever opens a connection to share, so that others wait for it.
pub(super) fn opening(server: u64) -> Arc<Mutex<()>> {
    POOL.with_borrow_mut(|pool| Arc::clone(&pool.servers.entry(server).or_default().opening))
}

/// A connection that a request has for itself, or its part of one.
#[derive(Debug)]
pub(crate) struct Lease {
    load: LoadGuard,
    sender: UpstreamSender,
    /// How long the upstream lets it wait for another request.
    idle: Duration,
}

impl Lease {
    pub(super) const fn new(load: LoadGuard, sender: UpstreamSender, idle: Duration) -> Self {
        Self { load, sender, idle }
    }

    /// Lets another request have the connection; without this one of HTTP/1.1 is closed.
    pub(crate) fn give_back(self) {
        let Self { load, sender, idle } = self;
        let UpstreamSender::Http1(sender) = sender else { return };
        if sender.is_closed() || idle.is_zero() {
            return;
        }
        change(load.server().id(), |pool| {
            if pool.idle.len() + pool.streams.len() < POOL_IDLE_MAX {
                pool.idle.push(IdleConnection { sender, until: Instant::now() + idle });
            }
        });
    }
}

/// Changes what there is of an upstream, and sees to it that it is swept.
fn change(server: u64, change: impl FnOnce(&mut ServerPool)) {
    let starts_sweep = POOL.with_borrow_mut(|pool| {
        change(pool.servers.entry(server).or_default());
        !std::mem::replace(&mut pool.is_swept, true)
    });
    if starts_sweep {
        tokio::spawn(sweep());
    }
}

impl ServerPool {
    /// Closes what nobody wanted for a while; whether something is left.
    fn sweep(&mut self) -> bool {
        let now = Instant::now();
        self.idle.retain(|idle| !idle.sender.is_closed() && now < idle.until);
        self.streams.retain(|idle| now < idle.until && is_open(&idle.stream));
        self.shared.retain_mut(|shared| {
            if shared.connection.open_streams() > 0 {
                shared.last_used = Instant::now();
            }
            !shared.connection.is_closed() && shared.last_used.elapsed() < SHARED_IDLE_TIME
        });
        let has_idle = !self.idle.is_empty() || !self.streams.is_empty();
        has_idle || !self.shared.is_empty() || Arc::strong_count(&self.opening) > 1
    }
}

/// Closes connections that nobody wanted for a while, until there are none.
async fn sweep() {
    let _running = Sweeping;
    loop {
        tokio::time::sleep(POOL_IDLE_TIME / 2).await;
        let is_empty = POOL.with_borrow_mut(|pool| {
            pool.servers.retain(|_, server| server.sweep());
            pool.servers.is_empty()
        });
        if is_empty {
            return;
        }
    }
}

/// The sweep of this thread; another one can start when it has ended, with its runtime at the latest.
struct Sweeping;

impl Drop for Sweeping {
    fn drop(&mut self) {
        // At the end of a thread the pool may be gone before its runtime.
        drop(POOL.try_with(|pool| pool.try_borrow_mut().map(|mut pool| pool.is_swept = false)));
    }
}
