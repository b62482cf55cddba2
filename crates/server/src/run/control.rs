//! How a running server is told to stop or to reload.

use std::io;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, watch};

use crate::error::Error;

/// How a running server is told to stop or to reload; clones tell the same one.
#[derive(Debug, Clone)]
pub struct Control {
    stop: Arc<watch::Sender<bool>>,
    reload: Arc<Notify>,
    reload_settings: Arc<Notify>,
}

impl Default for Control {
    fn default() -> Self {
        Self::new()
    }
}

impl Control {
    /// A control that has said nothing yet.
    pub fn new() -> Self {
        Self {
            stop: Arc::new(watch::Sender::new(false)),
            reload: Arc::new(Notify::new()),
            reload_settings: Arc::new(Notify::new()),
        }
    }

    /// Says stop: no new callers, and calls in flight finish.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Says reload: rules and `tollgate.yaml` are read again.
    pub fn reload(&self) {
        self.reload.notify_one();
        self.reload_settings.notify_one();
    }

    /// Whether it has said stop.
    pub fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    pub(super) fn stop_receiver(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    pub(super) fn reload_notice(&self) -> Arc<Notify> {
        Arc::clone(&self.reload)
    }

    pub(super) fn settings_notice(&self) -> Arc<Notify> {
        Arc::clone(&self.reload_settings)
    }

    /// A control that the signals of this process speak through: SIGTERM and
    /// SIGINT say stop, SIGHUP says reload. A second SIGINT ends at once.
    ///
    /// # Errors
    /// If the system does not let signals be handled.
    pub fn by_signals() -> Result<Self, Error> {
        let control = Self::new();
        let heard = control.clone();
        let failed = |source| Error::System { what: "handle signals", source };
        let runtime = super::runtime("tollgate-signals")?;
        let signals = {
            let _inside = runtime.enter();
            Signals::new().map_err(failed)?
        };
        std::thread::Builder::new()
            .name("tollgate-signals".to_owned())
            .spawn(move || runtime.block_on(signals.speak_through(heard)))
            .map_err(failed)?;
        Ok(control)
    }
}

/// A file may not become as large (`SIGXFSZ`); the same number on every system that is supported.
const FILE_TOO_LARGE: i32 = 25;

struct Signals {
    term: tokio::signal::unix::Signal,
    int: tokio::signal::unix::Signal,
    hup: tokio::signal::unix::Signal,
    /// Taken and not listened to: unless it is taken it ends the process, and whoever writes the
    /// file hears of it anyway.
    _too_large: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            hup: signal(SignalKind::hangup())?,
            _too_large: signal(SignalKind::from_raw(FILE_TOO_LARGE))?,
        })
    }

    async fn speak_through(mut self, control: Control) {
        loop {
            tokio::select! {
                _ = self.term.recv() => control.stop(),
                _ = self.int.recv() => {
                    if *control.stop_receiver().borrow() {
                        tracing::warn!("interrupted again: ending at once");
                        std::process::exit(1);
                    }
                    control.stop();
                }
                _ = self.hup.recv() => {
                    tracing::info!("reading rules and settings again");
                    control.reload();
                }
            }
        }
    }
}
