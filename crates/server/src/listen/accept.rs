//! The accept loop.
//!
//! One for each listening socket, on the worker that owns it. A connection that
//! the limits let in is handed to the worker that has the fewest, shakes hands
//! where its listener has TLS, and is served. The loop ends when the server
//! stops, after taking in the connections that the kernel has already accepted.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::poll_immediate;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;

use super::Listener;
use super::address_limit::{AddressLimit, AddressPermit};
use super::connection_limit::ConnectionLimit;
use super::lifetime::{Lifetime, LifetimePolicy};
use super::stream::Io;
use super::worker_pool::WorkerPool;
use crate::bounds::ACCEPT_PAUSE;
use crate::shutdown::stopped;
use crate::tls::Tls;
use tollgate_settings::LimitedListener;

/// A connection that is ready to be served.
pub(crate) struct ServerConnection {
    pub(crate) io: Io,
    /// The caller's address; none on a Unix socket.
    pub(crate) peer: Option<IpAddr>,
    pub(crate) lifetime: Lifetime,
}

/// Serves the connections of one listener.
pub(crate) trait Serve: Clone + Send + Sync + 'static {
    /// The TLS of the listener's TCP connections.
    fn tls(&self) -> Option<&Tls>;

    /// What its connections are counted as where those of an address are limited.
    fn listener(&self) -> LimitedListener;

    /// How long connections may stay.
    fn policy(&self) -> LifetimePolicy;

    /// Serves one connection to its end.
    fn serve(&self, connection: ServerConnection) -> impl Future<Output = ()> + Send;
}

/// Accepts connections on one worker.
#[derive(Debug, Clone)]
pub(crate) struct Acceptor {
    pub(crate) limit: Arc<ConnectionLimit>,
    /// How many connections an address may have; none if they are not limited.
    pub(crate) addresses: Option<Arc<AddressLimit>>,
    /// The workers that serve, and how many of them, from the first on; none if
    /// this worker serves what it accepts.
    pub(crate) pool: Option<(Arc<WorkerPool>, usize)>,
    /// The number of this worker.
    pub(crate) worker: usize,
    pub(crate) stop: watch::Receiver<bool>,
}

enum ListeningSocket {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

impl ListeningSocket {
    fn new(listener: Listener) -> io::Result<Self> {
        Ok(match listener {
            Listener::Tcp(listener) => Self::Tcp(tokio::net::TcpListener::from_std(listener)?),
            Listener::Unix(listener) => Self::Unix(tokio::net::UnixListener::from_std(listener)?),
        })
    }

    async fn accept(&self) -> io::Result<AcceptedSocket> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                AcceptedSocket::Tcp(stream, peer.ip())
            }
            Self::Unix(listener) => AcceptedSocket::Unix(listener.accept().await?.0),
        })
    }
}

impl Acceptor {
    /// Accepts and serves until the server stops.
    pub(crate) async fn run(self, listener: Listener, serve: impl Serve) -> io::Result<()> {
        let socket = ListeningSocket::new(listener)?;
        let mut stop = self.stop.clone();
        loop {
            tokio::select! {
                biased;
                () = stopped(&mut stop) => break,
                accepted = socket.accept() => match accepted {
                    Ok(accepted) => self.admit(accepted, &serve),
                    Err(error) if is_about_caller(&error) => {}
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept connections; trying again");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        // Callers that the kernel has accepted may have sent a call already.
        while let Some(Ok(accepted)) = poll_immediate(pin!(socket.accept())).await {
            self.admit(accepted, &serve);
        }
        Ok(())
    }

    fn admit(&self, accepted: AcceptedSocket, serve: &impl Serve) {
        let Some((accepted, address)) = self.admit_address(accepted, serve) else { return };
        // The caller sees its connection closed, and can try elsewhere.
        let Some(permit) = self.limit.acquire() else {
            tracing::debug!("too many connections: closed a new one");
            return;
        };
        let permit = permit.with_address(address);
        let slot = self.pool.as_ref().map(|(pool, among)| pool.assign(self.worker, *among));
        let other = slot.as_ref().and_then(|slot| slot.other_than(self.worker)).cloned();
        let (stop, serve) = (self.stop.clone(), serve.clone());
        let open = async move |accepted: AcceptedSocket| {
            let Some((io, peer)) = accepted.open(serve.tls()).await else { return };
            let lifetime = Lifetime::new(serve.policy(), permit, slot, stop);
            serve.serve(ServerConnection { io, peer, lifetime }).await;
        };
        match other {
            None => {
                tokio::spawn(async move { open(accepted).await });
            }
            Some(worker) => {
                let Ok(detached) = accepted.detach() else { return };
                worker.spawn(async move {
                    if let Ok(accepted) = detached.attach() {
                        open(accepted).await;
                    }
                });
            }
        }
    }
}

impl Acceptor {
    /// The same connection if its address may have one more; else it is refused.
    fn admit_address(
        &self,
        accepted: AcceptedSocket,
        serve: &impl Serve,
    ) -> Option<(AcceptedSocket, Option<AddressPermit>)> {
        let (stream, peer, addresses) = match (accepted, &self.addresses) {
            (AcceptedSocket::Tcp(stream, peer), Some(addresses)) => (stream, peer, addresses),
            (accepted, _) => return Some((accepted, None)),
        };
        match addresses.admit(peer, serve.listener()) {
            Ok(permit) => Some((AcceptedSocket::Tcp(stream, peer), permit)),
            Err(denial) => {
                tracing::debug!(?denial, "refused a connection");
                // Before the TLS handshake nobody could read a refusal in plain text.
                let words = if serve.tls().is_none() { denial.words(serve.listener()) } else { None };
                addresses.refuse(stream, words);
                None
            }
        }
    }
}

/// Whether an error is about one caller that went away, and not about us.
fn is_about_caller(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    )
}

/// A socket that was just accepted.
enum AcceptedSocket {
    Tcp(TcpStream, IpAddr),
    Unix(UnixStream),
}

/// The same on its way from one worker's runtime to another's.
enum DetachedSocket {
    Tcp(std::net::TcpStream, IpAddr),
    Unix(std::os::unix::net::UnixStream),
}

impl AcceptedSocket {
    /// The stream to serve and the caller's address; none if the handshake fails.
    async fn open(self, tls: Option<&Tls>) -> Option<(Io, Option<IpAddr>)> {
        Some(match (self, tls) {
            (Self::Tcp(stream, peer), None) => (Box::new(stream), Some(peer)),
            (Self::Tcp(stream, peer), Some(tls)) => (Box::new(tls.handshake(stream).await?), Some(peer)),
            // The file system says who may use a Unix socket.
            (Self::Unix(stream), _) => (Box::new(stream), None),
        })
    }

    fn detach(self) -> io::Result<DetachedSocket> {
        Ok(match self {
            Self::Tcp(stream, peer) => DetachedSocket::Tcp(stream.into_std()?, peer),
            Self::Unix(stream) => DetachedSocket::Unix(stream.into_std()?),
        })
    }
}

impl DetachedSocket {
    fn attach(self) -> io::Result<AcceptedSocket> {
        Ok(match self {
            Self::Tcp(stream, peer) => AcceptedSocket::Tcp(TcpStream::from_std(stream)?, peer),
            Self::Unix(stream) => AcceptedSocket::Unix(UnixStream::from_std(stream)?),
        })
    }
}
