//! Gathers the requests of one moment into rounds.
//!
//! Each thread has its own [`Gather`] for each server. The first request of a
//! round starts a task that sends it. A task that is started runs after those
//! that are ready already, so that all requests that were read from sockets
//! together are in the round by then; nobody waits for a timer.
//!
//! Invariant: a round that is open has a task that will send it. When a runtime
//! ends with the task, the round ends too, and its requests know.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::codec::Seen;
use crate::dial;
use crate::error::Trouble;
use crate::node::{Ask, Node};
use crate::question::Question;
use crate::round::Round;
use crate::script::Script;

/// What a request is told of its part of a round.
pub(crate) type Told = Result<Seen, Trouble>;

/// The open rounds of a thread at a server, one for each script.
#[derive(Debug, Default)]
pub(crate) struct Gather(Mutex<Vec<Open>>);

/// A round and who waits for it.
#[derive(Debug)]
struct Open {
    round: Round,
    waiting: Vec<oneshot::Sender<Told>>,
    /// Of whoever must be answered first.
    deadline: Instant,
}

/// What is left to do for a round that a request has joined.
enum Next {
    Wait,
    StartTask,
    SendNow(Open),
}

impl Gather {
    fn join(&self, question: Question, tell: oneshot::Sender<Told>, deadline: Instant) -> Next {
        let mut rounds = self.0.lock();
        let Some(place) = rounds.iter().position(|open| open.round.script == question.script) else {
            let round = Round::new(question, None);
            rounds.push(Open { round, waiting: vec![tell], deadline });
            return Next::StartTask;
        };
        let Some(open) = rounds.get_mut(place) else { return Next::Wait };
        open.round.add(question);
        open.waiting.push(tell);
        open.deadline = open.deadline.min(deadline);
        if open.round.is_full() { Next::SendNow(rounds.swap_remove(place)) } else { Next::Wait }
    }

    fn take(&self, script: Script) -> Option<Open> {
        let mut rounds = self.0.lock();
        let place = rounds.iter().position(|open| open.round.script == script)?;
        Some(rounds.swap_remove(place))
    }
}

/// Asks a server, together with whoever asks at the same moment. What it says
/// comes later, or never if the runtime ends.
pub(crate) fn ask(
    node: &Arc<Node>,
    gather: &Arc<Gather>,
    question: Question,
    deadline: Instant,
) -> oneshot::Receiver<Told> {
    let (tell, told) = oneshot::channel();
    let script = question.script;
    match gather.join(question, tell, deadline) {
        Next::Wait => {}
        Next::StartTask => {
            let (node, mut task) = (Arc::clone(node), Task(Some((Arc::clone(gather), script))));
            tokio::spawn(async move {
                if let Some(open) = task.take() {
                    open.send(&node).await;
                }
            });
        }
        Next::SendNow(open) => {
            let node = Arc::clone(node);
            tokio::spawn(async move { open.send(&node).await });
        }
    }
    told
}

impl Open {
    async fn send(self, node: &Arc<Node>) {
        let Self { round, waiting, deadline } = self;
        let answer = node.call(&Ask::Script(&round), deadline).await.map_err(dial::trouble);
        let told = answer.and_then(|answer| round.read(answer).ok_or(Trouble::Other));
        match told {
            // Whoever is gone needs no answer.
            Ok(seen) => waiting.into_iter().zip(seen).for_each(|(tell, seen)| drop(tell.send(Ok(seen)))),
            Err(trouble) => waiting.into_iter().for_each(|tell| drop(tell.send(Err(trouble)))),
        }
    }
}

/// The task of a round; if it ends without having run, so does the round.
struct Task(Option<(Arc<Gather>, Script)>);

impl Task {
    fn take(&mut self) -> Option<Open> {
        let (gather, script) = self.0.take()?;
        gather.take(script)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        drop(self.take());
    }
}
