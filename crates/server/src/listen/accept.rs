//! The loop that accepts.
//!
//! One for each listening socket, on the worker that owns it. It ends when the
//! server is to end, after letting in whom the kernel has already greeted.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;

use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;

use super::gate::{Gate, Pass};
use super::life::stopped;
use super::pool::{Pool, Seat};
use super::{Listener, at_once};
use crate::bounds::ACCEPT_PAUSE;

/// An accepted connection of either kind.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// What belongs to an accepted connection.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) stream: Stream,
    pub(crate) pass: Pass,
    pub(crate) seat: Option<Seat>,
    pub(crate) stop: watch::Receiver<bool>,
}

/// Serves accepted connections of one protocol.
pub(crate) trait Serve: Clone + Send + Sync + 'static {
    /// Serves one connection to its end.
    fn serve(&self, arrival: Arrival) -> impl Future<Output = ()> + Send;
}

/// Where connections are accepted and served.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// Who gets in.
    pub(crate) gate: Arc<Gate>,
    /// Who serves them, so many of the workers from the first on; none if whoever accepts does.
    pub(crate) pool: Option<(Arc<Pool>, usize)>,
    /// The number of the worker that accepts.
    pub(crate) worker: usize,
    /// When to end.
    pub(crate) stop: watch::Receiver<bool>,
}

enum Socket {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

impl Socket {
    fn new(listener: Listener) -> io::Result<Self> {
        Ok(match listener {
            Listener::Tcp(listener) => Self::Tcp(tokio::net::TcpListener::from_std(listener)?),
            Listener::Unix(listener) => Self::Unix(tokio::net::UnixListener::from_std(listener)?),
        })
    }

    async fn accept(&self) -> io::Result<Stream> {
        Ok(match self {
            Self::Tcp(listener) => Stream::Tcp(listener.accept().await?.0),
            Self::Unix(listener) => Stream::Unix(listener.accept().await?.0),
        })
    }
}

/// Accepts and serves until the server is to end.
pub(crate) async fn accept_all(listener: Listener, site: Site, serve: impl Serve) -> io::Result<()> {
    let socket = Socket::new(listener)?;
    let mut stop = site.stop.clone();
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut stop) => break,
            accepted = socket.accept() => match accepted {
                Ok(stream) => admit(stream, &site, &serve),
                Err(error) if is_about_one(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections; will go on trying");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    // Those whom the kernel has greeted have perhaps sent a call already.
    while let Some(Ok(stream)) = at_once(pin!(socket.accept())).await {
        admit(stream, &site, &serve);
    }
    Ok(())
}

/// Whether an error is about one connection that went away and not about us.
fn is_about_one(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    )
}

fn admit(stream: Stream, site: &Site, serve: &impl Serve) {
    // Whoever does not get in sees the connection closed, and can try elsewhere.
    let Some(pass) = site.gate.enter() else {
        tracing::debug!("a connection was turned away: there are too many");
        return;
    };
    let seat = site.pool.as_ref().map(|(pool, among)| pool.seat(site.worker, *among));
    let (stop, serve) = (site.stop.clone(), serve.clone());
    let elsewhere = seat.as_ref().and_then(|seat| seat.other_than(site.worker)).cloned();
    match elsewhere {
        None => {
            tokio::spawn(async move { serve.serve(Arrival { stream, pass, seat, stop }).await });
        }
        Some(worker) => {
            let Ok(parcel) = Parcel::pack(stream) else { return };
            worker.spawn(async move {
                if let Ok(stream) = parcel.unpack() {
                    serve.serve(Arrival { stream, pass, seat, stop }).await;
                }
            });
        }
    }
}

/// A connection on its way from one worker to another.
enum Parcel {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl Parcel {
    fn pack(stream: Stream) -> io::Result<Self> {
        Ok(match stream {
            Stream::Tcp(stream) => Self::Tcp(stream.into_std()?),
            Stream::Unix(stream) => Self::Unix(stream.into_std()?),
        })
    }

    fn unpack(self) -> io::Result<Stream> {
        Ok(match self {
            Self::Tcp(stream) => Stream::Tcp(TcpStream::from_std(stream)?),
            Self::Unix(stream) => Stream::Unix(UnixStream::from_std(stream)?),
        })
    }
}
