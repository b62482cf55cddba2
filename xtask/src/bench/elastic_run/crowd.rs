//! Customers that send at a steady rate, whatever they are answered.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::upstream::now;

/// Connections of a customer: each sends one request after the other, and so few wait for an answer
/// that comes late that the rate is kept.
const CONNECTIONS: u32 = 16;

#[derive(Default)]
struct AnswerCounts {
    served: AtomicU64,
    denied: AtomicU64,
    is_over: AtomicBool,
}

/// A customer, who stops with this value.
pub(super) struct Customer {
    counts: Arc<AnswerCounts>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Customer {
    fn drop(&mut self) {
        self.counts.is_over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Customer {
    /// Sends so many requests a second to a path.
    pub(super) fn start(gateway: SocketAddr, path: &str, rate: u32) -> Self {
        let counts = Arc::<AnswerCounts>::default();
        let every = Duration::from_secs(1) * CONNECTIONS / rate;
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let thread = |number: u32| {
            let (counts, request) = (Arc::clone(&counts), request.clone());
            std::thread::spawn(move || {
                // So that they do not all send at once.
                std::thread::park_timeout(every * number / CONNECTIONS);
                drop(send(gateway, &request, every, &counts));
            })
        };
        let threads = (0..CONNECTIONS).map(thread).collect();
        Self { counts, threads }
    }

    /// Served, and denied.
    pub(super) fn counts(&self) -> [u64; 2] {
        [&self.counts.served, &self.counts.denied].map(|count| count.load(Ordering::Relaxed))
    }
}

fn send(gateway: SocketAddr, request: &str, every: Duration, counts: &AnswerCounts) -> Result<()> {
    let mut stream = TcpStream::connect(gateway)?;
    stream.set_nodelay(true)?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let mut next = now();
    while !counts.is_over.load(Ordering::Relaxed) {
        stream.write_all(request.as_bytes())?;
        match read_status(&mut answers)? {
            200 => counts.served.fetch_add(1, Ordering::Relaxed),
            _ => counts.denied.fetch_add(1, Ordering::Relaxed),
        };
        // What is late is sent at once, and what was missed long ago is not sent any more.
        next = (next + every).max(now().checked_sub(every).unwrap_or(next));
        std::thread::park_timeout(next.saturating_duration_since(now()));
    }
    Ok(())
}

/// Reads an answer; its status.
fn read_status(answers: &mut BufReader<TcpStream>) -> Result<u16> {
    let (mut status, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        answers.read_line(&mut line)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if status.is_none() {
            status = line.split(' ').nth(1).and_then(|text| text.parse().ok());
        }
        if let Some(text) = line.strip_prefix("content-length: ") {
            length = text.parse()?;
        }
    }
    answers.read_exact(&mut vec![0; length])?;
    status.context("an answer has a status")
}
