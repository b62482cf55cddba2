//! What the requests of a client's connection share, and the signals between them and it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;

use crate::ClientSocket;
use crate::fields::PeerFields;
use crate::forward::Lease;
use crate::strict::UpgradeSwitch;

/// What the requests of a connection share.
#[derive(Debug)]
pub(crate) struct ConnectionContext {
    pub(crate) socket: ClientSocket,
    pub(crate) peer: PeerFields,
    pub(crate) switch: UpgradeSwitch,
    tunnel: Mutex<Option<Tunnel>>,
}

/// The two ends of what becomes of a connection that speaks another protocol.
#[derive(Debug)]
pub(crate) struct Tunnel {
    pub(crate) client: OnUpgrade,
    pub(crate) upstream: OnUpgrade,
    /// The upstream is as busy with it as with a request.
    pub(crate) lease: Lease,
}

impl ConnectionContext {
    pub(crate) fn new(socket: ClientSocket) -> Self {
        let (peer, switch) = (PeerFields::new(socket.peer, socket.is_tls), UpgradeSwitch::default());
        Self { socket, peer, switch, tunnel: Mutex::default() }
    }

    /// What the connection becomes, if it becomes a tunnel.
    pub(crate) fn take_tunnel(&self) -> Option<Tunnel> {
        self.tunnel.lock().take()
    }

    pub(crate) fn open_tunnel(&self, tunnel: Tunnel) {
        *self.tunnel.lock() = Some(tunnel);
    }
}

impl Tunnel {
    /// Passes bytes on both ways until both ends are done.
    pub(crate) async fn run(self) -> io::Result<()> {
        let Self { client, upstream, lease: _lease } = self;
        let (client, upstream) = tokio::try_join!(client, upstream).map_err(io::Error::other)?;
        let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
        tokio::io::copy_bidirectional(&mut client, &mut upstream).await?;
        Ok(())
    }
}

/// Whether the server has asked a connection to end.
pub(crate) struct CloseSignal<'f, F> {
    future: Pin<&'f mut F>,
    is_over: bool,
}

impl<'f, F: Future<Output = ()>> CloseSignal<'f, F> {
    pub(crate) const fn new(future: Pin<&'f mut F>) -> Self {
        Self { future, is_over: false }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.is_over = self.is_over || self.future.as_mut().poll(cx).is_ready();
        if self.is_over { Poll::Ready(()) } else { Poll::Pending }
    }

    pub(crate) async fn wait(&mut self) {
        std::future::poll_fn(|cx| self.poll(cx)).await;
    }
}
