//! The tasks of the streams of one HTTP/2 connection.
//!
//! hyper has them run by [`StreamTasks`]: each ends when its client does not take the answer
//! (`answer_watch`), which resets the stream, and it is known since when there is none.

use std::sync::Arc;
use std::time::Duration;

use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::answer_watch::watched;
use crate::bounds::WRITE_WAIT_MAX;

/// The tasks of the streams of one connection.
#[derive(Debug, Clone)]
pub(super) struct StreamTasks(Arc<Mutex<TaskCount>>);

#[derive(Debug)]
struct TaskCount {
    open: usize,
    /// When the last one ended, or the connection began.
    idle_since: Instant,
}

impl Default for StreamTasks {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(TaskCount { open: 0, idle_since: Instant::now() })))
    }
}

impl StreamTasks {
    /// Waits until there has been none for so long, from now on at the earliest.
    pub(super) async fn idle(&self, time: Duration) {
        let start = Instant::now();
        let since = || {
            let count = self.0.lock();
            if count.open > 0 { Instant::now() } else { count.idle_since.max(start) }
        };
        let mut until = since() + time;
        while Instant::now() < until {
            sleep_until(until).await;
            until = since() + time;
        }
    }
}

/// Counts a task until it is dropped.
struct OpenTask(StreamTasks);

impl Drop for OpenTask {
    fn drop(&mut self) {
        let mut count = self.0.0.lock();
        count.open -= 1;
        count.idle_since = Instant::now();
    }
}

impl<F> Executor<F> for StreamTasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        self.0.lock().open += 1;
        let open = OpenTask(self.clone());
        tokio::spawn(async move {
            if watched(stream, Some(WRITE_WAIT_MAX)).await.is_none() {
                tracing::debug!("a client did not take its answer in time, and the stream is reset");
            }
            drop(open);
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const IDLE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_since_its_last_stream() {
        let (tasks, start) = (StreamTasks::default(), Instant::now());
        tasks.idle(IDLE).await;
        assert_eq!(start.elapsed().as_secs(), 60);
        // One that takes longer than that, and two at a time.
        tasks.execute(sleep(3 * IDLE));
        tasks.execute(sleep(IDLE / 2));
        tasks.idle(IDLE).await;
        assert_eq!(start.elapsed().as_secs(), 60 + 180 + 60);
    }
}
