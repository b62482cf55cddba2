//! The worker threads, which answer callers.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::error::Error;
use crate::gateway::ServeGateway;
use crate::grpc::ServeGrpc;
use crate::http::ServeHttp;
use crate::listen::accept::Acceptor;
use crate::listen::connection_limit::ConnectionLimit;
use crate::listen::{Listener, for_resp};
use crate::resp::ServeResp;
use crate::shutdown::stopped;

/// One thread that answers callers, with its sockets.
pub(super) struct Worker {
    pub(super) runtime: Runtime,
    pub(super) acceptor: Acceptor,
    pub(super) grpc: (Listener, ServeGrpc),
    pub(super) http: (Listener, ServeHttp),
    /// Not on every worker.
    pub(super) resp: Option<(Listener, ServeResp)>,
    pub(super) gateway: Option<(Listener, ServeGateway)>,
    /// How many connections the gateway may have, apart from all others.
    pub(super) gateway_limit: Arc<ConnectionLimit>,
}

impl Worker {
    /// Starts the thread. It accepts until its acceptor is told to stop, and
    /// serves connections until `done`.
    pub(super) fn start(self, done: watch::Receiver<bool>) -> Result<JoinHandle<io::Result<()>>, Error> {
        let name = format!("tollgate-worker-{}", self.acceptor.worker);
        let spawned = std::thread::Builder::new().name(name).spawn(move || self.work(done));
        spawned.map_err(|source| Error::System { what: "start a thread", source })
    }

    fn work(self, mut done: watch::Receiver<bool>) -> io::Result<()> {
        let Self { runtime, acceptor, grpc, http, resp, gateway, gateway_limit } = self;
        let pool = acceptor.pool.clone().map(|(pool, among)| (pool, for_resp(among)));
        let resp_acceptor = Acceptor { pool, ..acceptor.clone() };
        let gateway_acceptor = Acceptor { limit: gateway_limit, ..acceptor.clone() };
        runtime.block_on(async move {
            let (grpc, http, resp, gateway) = (
                tokio::spawn(acceptor.clone().run(grpc.0, grpc.1)),
                tokio::spawn(acceptor.run(http.0, http.1)),
                resp.map(|(listener, serve)| tokio::spawn(resp_acceptor.run(listener, serve))),
                gateway.map(|(listener, serve)| tokio::spawn(gateway_acceptor.run(listener, serve))),
            );
            for listening in [grpc, http].into_iter().chain(resp).chain(gateway) {
                listening.await.map_err(io::Error::other)??;
            }
            stopped(&mut done).await;
            Ok(())
        })
    }
}
