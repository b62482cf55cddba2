//! Asks timers and signals once, and again only when they have something to say.
//!
//! A connection waits for bytes, and beside them for a timer and for the server's wish to stop, which
//! nearly never come. To poll those for every request took as long as deciding it. They are polled with
//! a waker of their own instead, which notes that it was one of them; as long as it has not, there is no
//! need to ask them again.
//!
//! Used by the gateway's short way and by the server for the lifetime of every connection.
//!
//! Invariants: a note is taken back before they are asked, so that nothing they say from then on is
//! missed, even if bytes came at the same instant. Another task that polls asks anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

/// Whether those that were asked have anything to say.
#[derive(Debug, Default)]
pub struct WakeNote(Option<Arc<Note>>);

#[derive(Debug)]
struct Note {
    task: Waker,
    is_set: AtomicBool,
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_set.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

impl WakeNote {
    /// Whether they were asked for this task, and have said nothing since.
    pub fn is_quiet(&self, cx: &Context<'_>) -> bool {
        let is_quiet =
            |note: &Arc<Note>| !note.is_set.load(Ordering::Acquire) && note.task.will_wake(cx.waker());
        self.0.as_ref().is_some_and(is_quiet)
    }

    /// The waker to ask them with, now.
    pub fn waker(&mut self, cx: &Context<'_>) -> Waker {
        let known = self.0.take().filter(|note| note.task.will_wake(cx.waker()));
        let new = || Arc::new(Note { task: cx.waker().clone(), is_set: AtomicBool::new(false) });
        let note = self.0.insert(known.unwrap_or_else(new));
        note.is_set.store(false, Ordering::Release);
        Waker::from(Arc::clone(note))
    }

    /// They must be asked again, because one was answered or replaced.
    pub fn forget(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn whoever_is_woken_asks_and_nobody_else() {
        let (wakes, other) = (Arc::new(Wakes::default()), Waker::from(Arc::new(Wakes::default())));
        let task = Waker::from(Arc::clone(&wakes));
        let (cx, other) = (Context::from_waker(&task), Context::from_waker(&other));
        let mut note = WakeNote::default();
        assert!(!note.is_quiet(&cx), "nobody was asked");
        let waker = note.waker(&cx);
        assert!(note.is_quiet(&cx) && !note.is_quiet(&other), "asked for one task");
        waker.wake_by_ref();
        assert!(!note.is_quiet(&cx), "somebody has something to say");
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
        let again = note.waker(&cx);
        assert!(note.is_quiet(&cx), "asked again");
        waker.wake();
        assert!(!note.is_quiet(&cx), "an earlier question counts as well");
        drop(again);
        note.forget();
        assert!(!note.is_quiet(&cx));
    }
}
