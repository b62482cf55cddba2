//! An API that notes every request that arrives, and in which life of the process before it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What arrived.
#[derive(Default)]
struct Arrivals {
    life: u32,
    /// By idempotency key, in which lives.
    deferred: BTreeMap<String, Vec<u32>>,
    bodies: Vec<String>,
}

/// An API that notes every request.
pub(super) struct RecordingUpstream {
    address: SocketAddr,
    arrivals: Arc<Mutex<Arrivals>>,
}

impl RecordingUpstream {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let arrivals: Arc<Mutex<Arrivals>> = Arc::default();
        let own = Arc::clone(&arrivals);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let own = Arc::clone(&own);
                // What a process has sent may be read when it is dead already.
                let life = own.lock().unwrap().life;
                std::thread::spawn(move || serve(stream, life, &own));
            }
        });
        Self { address, arrivals }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What arrives over connections that are made from now on is of this life.
    pub(super) fn begin_life(&self, life: u32) {
        self.arrivals.lock().unwrap().life = life;
    }

    /// In which lives each deferred request arrived.
    pub(super) fn deferred(&self) -> BTreeMap<String, Vec<u32>> {
        self.arrivals.lock().unwrap().deferred.clone()
    }

    /// How many arrived, again or not.
    pub(super) fn deferred_count(&self) -> usize {
        self.arrivals.lock().unwrap().deferred.values().map(Vec::len).sum()
    }

    /// The bodies of all that arrived, in their order.
    pub(super) fn bodies(&self) -> Vec<String> {
        self.arrivals.lock().unwrap().bodies.clone()
    }
}

fn serve(stream: TcpStream, life: u32, arrivals: &Mutex<Arrivals>) {
    let mut answers = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some((key, body)) = request(&mut reader) {
        {
            let mut arrivals = arrivals.lock().unwrap();
            if let Some(key) = key {
                arrivals.deferred.entry(key).or_default().push(life);
            }
            arrivals.bodies.push(body);
        }
        if answers.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").is_err() {
            return;
        }
    }
}

/// The idempotency key and the body of the next request; none at the end.
fn request(reader: &mut BufReader<TcpStream>) -> Option<(Option<String>, String)> {
    let (mut key, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        match line.split_once(": ") {
            Some(("idempotency-key", value)) => key = Some(value.to_owned()),
            Some(("content-length", value)) => length = value.parse().unwrap(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((key, String::from_utf8(body).unwrap()))
}
