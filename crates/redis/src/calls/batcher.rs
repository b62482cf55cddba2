//! Collects requests that arrive together into batch calls.
//!
//! Each thread has open batches of its own for each server, in a cluster too,
//! whatever the slots of their keys. The first request
//! of a batch spawns a task that sends it. A spawned task runs after those that
//! are ready already, so by then all requests that were read from sockets
//! together have joined. Nobody waits for a timer.
//!
//! Invariant: an open batch has a task that will send it. If a runtime ends
//! before the task runs, the batch is dropped, and its requests are told.

use std::cell::RefCell;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::batch_call::{BatchCall, KeyPassing};
use super::script::Script;
use super::script_args::ScriptArgs;
use super::script_reply::ScriptReply;
use super::server::{PerThread, ServerCall, StoreServer, of_this_thread};
use crate::error::{ServerError, StoreFailure};

/// What a request is told of its part of a batch; none if nothing was done, because
/// its keys are elsewhere or the server takes none that are undeclared.
type BatchedReply = Result<Option<ScriptReply>, StoreFailure>;

thread_local! {
    static OPEN: PerThread<OpenBatches> = const { RefCell::new(Vec::new()) };
}

/// The open batches of a thread at a server, one for each script.
#[derive(Debug, Default)]
struct OpenBatches(Mutex<Vec<OpenBatch>>);

/// A batch call and the requests that wait for it.
#[derive(Debug)]
struct OpenBatch {
    call: BatchCall,
    waiting: Vec<oneshot::Sender<BatchedReply>>,
    /// The earliest of all requests.
    deadline: Instant,
}

/// What joining a batch leads to.
enum Joined {
    /// Somebody else sends it.
    Existing,
    /// It is new, and needs a task.
    New,
    /// It is full, and is sent now.
    Full(OpenBatch),
}

/// Has a server decide a request, in one call with those that arrive together
/// with it. All requests for a server pass their keys the same way. The future is
/// small: it holds no arguments.
pub(super) fn call(
    server: &Arc<StoreServer>,
    args: ScriptArgs,
    passing: KeyPassing,
    deadline: Instant,
) -> impl Future<Output = BatchedReply> + use<> {
    let reply = join(server, args, passing, deadline);
    // It never comes if the runtime ends.
    async move { reply.await.unwrap_or(Err(StoreFailure::Lost)) }
}

fn join(
    server: &Arc<StoreServer>,
    args: ScriptArgs,
    passing: KeyPassing,
    deadline: Instant,
) -> oneshot::Receiver<BatchedReply> {
    let (sender, receiver) = oneshot::channel();
    let (script, batches) = (args.script, of_this_thread(&OPEN, server));
    match batches.join(args, passing, sender, deadline) {
        Joined::Existing => {}
        Joined::New => {
            let (server, mut task) = (Arc::clone(server), SendTask(Some((batches, script))));
            tokio::spawn(async move {
                if let Some(batch) = task.take() {
                    batch.send(&server).await;
                }
            });
        }
        Joined::Full(batch) => {
            let server = Arc::clone(server);
            tokio::spawn(async move { batch.send(&server).await });
        }
    }
    receiver
}

impl OpenBatches {
    fn join(
        &self,
        args: ScriptArgs,
        passing: KeyPassing,
        sender: oneshot::Sender<BatchedReply>,
        deadline: Instant,
    ) -> Joined {
        let mut batches = self.0.lock();
        let Some(index) = batches.iter().position(|batch| batch.call.script == args.script) else {
            let call = BatchCall::new(args, passing, None);
            batches.push(OpenBatch { call, waiting: vec![sender], deadline });
            return Joined::New;
        };
        let Some(batch) = batches.get_mut(index) else { return Joined::Existing };
        batch.call.add(args);
        batch.waiting.push(sender);
        batch.deadline = batch.deadline.min(deadline);
        if batch.call.is_full() { Joined::Full(batches.swap_remove(index)) } else { Joined::Existing }
    }

    fn take(&self, script: Script) -> Option<OpenBatch> {
        let mut batches = self.0.lock();
        let index = batches.iter().position(|batch| batch.call.script == script)?;
        Some(batches.swap_remove(index))
    }
}

impl OpenBatch {
    async fn send(self, server: &Arc<StoreServer>) {
        let Self { call, waiting, deadline } = self;
        let reply = match server.call(&ServerCall::Script(&call), deadline).await {
            Ok(reply) => call.read(reply).ok_or(StoreFailure::Other),
            Err(ServerError::Failure(report)) if call.is_undeclared() && report.is_refusal() => {
                Ok(Vec::new())
            }
            Err(error) => Err(server.not_followed(error)),
        };
        let mut replies = reply.map(Vec::into_iter);
        for sender in waiting {
            let replies = replies.as_mut().map_err(|failure| *failure);
            let reply = replies.map(|replies| replies.next().filter(|reply| !reply.is_elsewhere()));
            // A request that is gone needs no reply.
            drop(sender.send(reply));
        }
    }
}

/// The task of an open batch. If it is dropped before it runs, so is the batch.
struct SendTask(Option<(Arc<OpenBatches>, Script)>);

impl SendTask {
    fn take(&mut self) -> Option<OpenBatch> {
        let (batches, script) = self.0.take()?;
        batches.take(script)
    }
}

impl Drop for SendTask {
    fn drop(&mut self) {
        drop(self.take());
    }
}
