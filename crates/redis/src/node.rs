//! One server: its connections, one for each thread, and whether to ask it.
//!
//! A worker of the service is a thread with a runtime of its own. Each gets its
//! own connection, dialled when it first asks, so that no answer crosses from
//! one thread to another. All requests of a thread share that connection.
//!
//! Invariants: [`Node::call`] ends by its deadline, also while it dials; while
//! the breaker is open it does not wait at all; nothing is ever sent twice, for
//! the server may have done what it did not live to answer.
//!
//! Deliberately not here: slots, scripts' meaning, and what to do without it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use redis::{Cmd, Pipeline, Value};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};

use crate::breaker::{self, Breaker};
use crate::dial::{DIAL_TIMEOUT, Dialer, Link, Target};
use crate::error::{Refusal, Trouble};
use crate::gather::{self, Gather, Told};
use crate::question::Question;
use crate::round::Round;
use crate::stats::Stats;

/// How long the key of a probe lives; it says nothing.
const PROBE_LIFE_MS: u32 = 1000;

/// What is asked of a server.
#[derive(Clone, Copy)]
pub(crate) enum Ask<'a> {
    /// Runs the script of a round.
    Script(&'a Round),
    /// Runs these commands, and answers with an array.
    Commands(&'a Pipeline),
    /// The same at a server that the slot is just moving to.
    ScriptOnce(&'a Round),
    /// The same at a server that the slot is just moving to.
    CommandsOnce(&'a Pipeline),
}

impl Ask<'_> {
    /// How many requests wait for it.
    fn requests(&self) -> usize {
        match self {
            Self::Script(round) | Self::ScriptOnce(round) => round.requests(),
            Self::Commands(_) | Self::CommandsOnce(_) => 1,
        }
    }

    /// The same, at a server that the slot is just moving to.
    pub(crate) const fn once(&self) -> Self {
        match *self {
            Self::Script(round) | Self::ScriptOnce(round) => Self::ScriptOnce(round),
            Self::Commands(commands) | Self::CommandsOnce(commands) => Self::CommandsOnce(commands),
        }
    }
}

/// One server.
#[derive(Debug)]
pub(crate) struct Node {
    target: Target,
    dialer: Dialer,
    probe_key: String,
    breaker: Breaker,
    /// Counts how often the server was given up; older connections are not used.
    epoch: AtomicU64,
    stats: Arc<Stats>,
}

/// The connection of one thread, and what is about to go down it.
#[derive(Debug, Default)]
struct Lane {
    stage: Mutex<Option<Stage>>,
    gather: Arc<Gather>,
}

#[derive(Debug)]
enum Stage {
    Ready { link: Arc<Link>, epoch: u64 },
    Dialling(watch::Receiver<Option<Dialled>>),
}

type Dialled = Result<Arc<Link>, Trouble>;

thread_local! {
    static LANES: RefCell<Vec<(Weak<Node>, Arc<Lane>)>> = const { RefCell::new(Vec::new()) };
}

impl Node {
    pub(crate) fn new(target: Target, dialer: Dialer, probe_key: String, stats: Arc<Stats>) -> Arc<Self> {
        let (breaker, epoch) = (Breaker::default(), AtomicU64::new(0));
        Arc::new(Self { target, dialer, probe_key, breaker, epoch, stats })
    }

    pub(crate) fn is_open(&self) -> bool {
        self.breaker.is_open()
    }

    /// Asks the server, together with the others of this thread and moment.
    pub(crate) fn ask(self: &Arc<Self>, question: Question, deadline: Instant) -> oneshot::Receiver<Told> {
        gather::ask(self, &self.lane().gather, question, deadline)
    }

    /// Asks the server, once.
    pub(crate) async fn call(self: &Arc<Self>, ask: &Ask<'_>, deadline: Instant) -> Result<Value, Refusal> {
        if self.breaker.is_open() {
            self.keep_probing();
            self.stats.note_trouble(Trouble::Open);
            return Err(Trouble::Open.into());
        }
        let begin = Instant::now();
        let asked = async {
            let link = self.link().await?;
            self.send(&link, ask).await
        };
        let outcome = timeout_at(deadline, asked).await.unwrap_or(Err(Trouble::Timeout.into()));
        match &outcome {
            Ok(_) => self.stats.note_round_trip(begin.elapsed()),
            Err(Refusal::Trouble(trouble)) => self.stats.note_trouble(*trouble),
            Err(_) => {}
        }
        self.judge(&outcome, ask.requests());
        outcome
    }

    async fn send(&self, link: &Link, ask: &Ask<'_>) -> Result<Value, Refusal> {
        let Ask::Script(round) = ask else { return Box::pin(self.send_rare(link, ask)).await };
        match link.send(&round.by_name(link.sha(round.script))).await {
            Err(Refusal::NoScript) => {
                self.stats.script_loads.add(1);
                Box::pin(link.send(&round.by_text())).await
            }
            other => other,
        }
    }

    async fn send_rare(&self, link: &Link, ask: &Ask<'_>) -> Result<Value, Refusal> {
        match ask {
            Ask::Commands(commands) => link.send_all(commands).await.map(Value::Array),
            Ask::Script(round) => link.send(&round.by_text()).await,
            Ask::ScriptOnce(round) => {
                let mut commands = Pipeline::new();
                commands.cmd("ASKING").add_command(round.by_text());
                let mut answers = link.send_all(&commands).await?;
                answers.pop().ok_or_else(|| Trouble::Other.into())
            }
            Ask::CommandsOnce(plain) => {
                let mut commands = Pipeline::new();
                for command in plain.cmd_iter() {
                    commands.cmd("ASKING").add_command(command.clone());
                }
                let answers = link.send_all(&commands).await?;
                Ok(Value::Array(answers.into_iter().skip(1).step_by(2).collect()))
            }
        }
    }

    /// What an outcome, which so many requests share, says about the server.
    fn judge(self: &Arc<Self>, outcome: &Result<Value, Refusal>, requests: usize) {
        match outcome {
            Err(Refusal::Trouble(Trouble::Timeout)) => {
                if self.breaker.failed(u32::try_from(requests).unwrap_or(u32::MAX)) {
                    self.opened(Trouble::Timeout);
                }
            }
            // The next request dials, and if that fails the server is given up.
            Err(Refusal::Trouble(Trouble::Lost)) => {}
            Err(Refusal::Trouble(trouble)) if trouble.is_lasting() => self.give_up(*trouble),
            Ok(_) | Err(_) => self.breaker.succeeded(),
        }
    }

    fn give_up(self: &Arc<Self>, trouble: Trouble) {
        if self.breaker.open() {
            self.opened(trouble);
        }
    }

    fn opened(self: &Arc<Self>, trouble: Trouble) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
        self.stats.opened.add(1);
        let server = self.target.to_string();
        tracing::warn!(server, reason = trouble.name(), "the store is given up until it answers again");
        self.keep_probing();
    }

    /// Asks now and then whether the server is back, behind the requests' backs.
    fn keep_probing(self: &Arc<Self>) {
        if !self.breaker.claim_probe() {
            return;
        }
        let prober = Prober(Arc::downgrade(self));
        tokio::spawn(async move {
            let mut probe = 0;
            loop {
                tokio::time::sleep(breaker::pause(probe)).await;
                let Some(node) = prober.0.upgrade() else { return };
                if node.probe().await {
                    return;
                }
                probe = probe.saturating_add(1);
            }
        });
    }

    /// Whether the server takes a write, on a connection of its own.
    async fn probe(self: &Arc<Self>) -> bool {
        let epoch = self.epoch.load(Ordering::Acquire);
        let link = match self.dialer.dial(&self.target).await {
            Ok(link) => link,
            Err(trouble) => {
                self.stats.note_trouble(trouble);
                return false;
            }
        };
        match timeout(DIAL_TIMEOUT, link.send(&probe(&self.probe_key))).await {
            // In a cluster the key is most likely elsewhere, which only a
            // server that is well says.
            Ok(Ok(_) | Err(Refusal::Moved { .. })) => {}
            Ok(Err(_)) | Err(_) => return false,
        }
        self.stats.connections.add(1);
        *self.lane().stage.lock() = Some(Stage::Ready { link: Arc::new(link), epoch });
        if self.breaker.close() {
            self.stats.closed.add(1);
            tracing::info!(server = self.target.to_string(), "the store is back");
        }
        true
    }

    /// The connection of this thread, dialled if need be.
    async fn link(self: &Arc<Self>) -> Dialled {
        let mut dialling = match self.stage() {
            Stage::Ready { link, .. } => return Ok(link),
            Stage::Dialling(dialling) => dialling,
        };
        let dialled = dialling.wait_for(Option::is_some).await.ok().and_then(|dialled| dialled.clone());
        dialled.unwrap_or(Err(Trouble::Lost))
    }

    fn stage(self: &Arc<Self>) -> Stage {
        let lane = self.lane();
        let mut stage = lane.stage.lock();
        match &*stage {
            Some(Stage::Ready { link, epoch })
                if !link.is_dead() && *epoch == self.epoch.load(Ordering::Acquire) =>
            {
                Stage::Ready { link: Arc::clone(link), epoch: *epoch }
            }
            // A runtime that ended took its dialling with it.
            Some(Stage::Dialling(dialling)) if dialling.has_changed().is_ok() => {
                Stage::Dialling(dialling.clone())
            }
            _ => {
                let dialling = self.dial(Arc::clone(&lane));
                *stage = Some(Stage::Dialling(dialling.clone()));
                Stage::Dialling(dialling)
            }
        }
    }

    fn dial(self: &Arc<Self>, lane: Arc<Lane>) -> watch::Receiver<Option<Dialled>> {
        let (tell, dialling) = watch::channel(None);
        let node = Arc::clone(self);
        tokio::spawn(async move {
            let epoch = node.epoch.load(Ordering::Acquire);
            let dialled = node.dialer.dial(&node.target).await.map(Arc::new);
            *lane.stage.lock() = match &dialled {
                Ok(link) => {
                    node.stats.connections.add(1);
                    Some(Stage::Ready { link: Arc::clone(link), epoch })
                }
                Err(trouble) => {
                    node.give_up(*trouble);
                    None
                }
            };
            tell.send_replace(Some(dialled));
        });
        dialling
    }

    fn lane(self: &Arc<Self>) -> Arc<Lane> {
        LANES.with_borrow_mut(|lanes| {
            let mine = lanes.iter().find(|(node, _)| node.as_ptr() == Arc::as_ptr(self));
            if let Some((_, lane)) = mine {
                return Arc::clone(lane);
            }
            lanes.retain(|(node, _)| node.strong_count() > 0);
            let lane = Arc::new(Lane::default());
            lanes.push((Arc::downgrade(self), Arc::clone(&lane)));
            lane
        })
    }
}

/// A write that harms nobody.
pub(crate) fn probe(key: &str) -> Cmd {
    let mut write = redis::cmd("SET");
    write.arg(key).arg(1).arg("PX").arg(PROBE_LIFE_MS);
    write
}

/// Servers that leave a cluster are not given up any more.
impl Drop for Node {
    fn drop(&mut self) {
        if self.breaker.is_open() {
            self.stats.closed.add(1);
        }
    }
}

/// Whoever probes; gives the place up wherever it ends.
struct Prober(Weak<Node>);

impl Drop for Prober {
    fn drop(&mut self) {
        if let Some(node) = self.0.upgrade() {
            node.breaker.release_probe();
        }
    }
}
