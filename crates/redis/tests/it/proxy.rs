//! A small proxy that delays, swallows and cuts what passes through it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// What the proxy does with what passes through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mood {
    Pass,
    /// Answers come three timeouts late.
    Delay,
    /// Answers come too late every second time.
    Stutter,
    /// Nothing comes through, and nobody is told.
    Swallow,
    /// The connection ends in the middle of an answer.
    Cut,
}

const MOODS: [Mood; 5] = [Mood::Pass, Mood::Delay, Mood::Stutter, Mood::Swallow, Mood::Cut];
const LATE: Duration = Duration::from_millis(300);

#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    mood: Arc<AtomicU8>,
}

impl Proxy {
    pub(crate) async fn before(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let proxy = Self { port: listener.local_addr().unwrap().port(), mood: Arc::default() };
        let mood = proxy.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { continue };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(mood.clone().asks(from_client, to_server));
                tokio::spawn(mood.clone().answers(from_server, to_client));
            }
        });
        proxy
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn set(&self, mood: Mood) {
        let number = MOODS.iter().position(|other| *other == mood).unwrap();
        self.mood.store(u8::try_from(number).unwrap(), Ordering::SeqCst);
    }

    fn mood(&self) -> Mood {
        MOODS[usize::from(self.mood.load(Ordering::SeqCst))]
    }

    async fn asks(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut bytes = vec![0; 65536];
        while let Ok(length @ 1..) = from.read(&mut bytes).await {
            if self.mood() != Mood::Swallow && to.write_all(&bytes[..length]).await.is_err() {
                return;
            }
        }
    }

    async fn answers(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut bytes = vec![0; 65536];
        let mut count = 0_u32;
        while let Ok(length @ 1..) = from.read(&mut bytes).await {
            count += 1;
            match self.mood() {
                Mood::Pass => {}
                Mood::Delay => tokio::time::sleep(LATE).await,
                Mood::Stutter if count.is_multiple_of(2) => tokio::time::sleep(LATE).await,
                Mood::Stutter => {}
                Mood::Swallow => continue,
                Mood::Cut => {
                    let _half = to.write_all(&bytes[..length / 2]).await;
                    return;
                }
            }
            if to.write_all(&bytes[..length]).await.is_err() {
                return;
            }
        }
    }
}
