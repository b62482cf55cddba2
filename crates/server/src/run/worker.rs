//! The threads that answer callers.

use std::io;
use std::thread::JoinHandle;

use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::error::Error;
use crate::grpc::ServeGrpc;
use crate::http::ServeHttp;
use crate::listen::accept::{Site, accept_all};
use crate::listen::life::stopped;
use crate::listen::{Listener, for_resp};
use crate::resp::ServeResp;

/// One thread that answers callers, with its sockets.
pub(super) struct Worker {
    pub(super) runtime: Runtime,
    pub(super) site: Site,
    pub(super) grpc: (Listener, ServeGrpc),
    pub(super) http: (Listener, ServeHttp),
    /// Not on every worker.
    pub(super) resp: Option<(Listener, ServeResp)>,
}

impl Worker {
    /// Starts the thread; it accepts until its site says stop, and serves
    /// connections until `done`.
    pub(super) fn start(self, done: watch::Receiver<bool>) -> Result<JoinHandle<io::Result<()>>, Error> {
        let name = format!("tollgate-worker-{}", self.site.worker);
        let spawned = std::thread::Builder::new().name(name).spawn(move || self.work(done));
        spawned.map_err(|source| Error::System { what: "start a thread", source })
    }

    fn work(self, mut done: watch::Receiver<bool>) -> io::Result<()> {
        let Self { runtime, site, grpc, http, resp } = self;
        let pool = site.pool.clone().map(|(pool, among)| (pool, for_resp(among)));
        let resp_site = Site { pool, ..site.clone() };
        runtime.block_on(async move {
            let (grpc, http, resp) = (
                tokio::spawn(accept_all(grpc.0, site.clone(), grpc.1)),
                tokio::spawn(accept_all(http.0, site, http.1)),
                resp.map(|(listener, serve)| tokio::spawn(accept_all(listener, resp_site, serve))),
            );
            for listening in [grpc, http].into_iter().chain(resp) {
                listening.await.map_err(io::Error::other)??;
            }
            stopped(&mut done).await;
            Ok(())
        })
    }
}
