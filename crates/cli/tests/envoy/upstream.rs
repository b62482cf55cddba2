//! What is being protected: a server that says `hello` to everyone, and streams
//! an answer of 700 tokens as language models do at `/v1/chat/completions`.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Starts one; it lives as long as the tests.
pub(crate) fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// What a model sends, piece by piece; the last piece has what it came to, in two halves.
const PIECES: [&str; 4] = [
    "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":600,\"total_",
    "tokens\":700}}\n\n",
    "data: [DONE]\n\n",
];

/// Answers until the caller goes.
fn serve(stream: TcpStream) {
    let Ok(mut out) = stream.try_clone() else { return };
    let mut lines = BufReader::new(stream).lines();
    let mut is_chat = false;
    while let Some(Ok(line)) = lines.next() {
        is_chat |= line.contains(" /v1/chat/completions ");
        if line.is_empty() && answer(&mut out, std::mem::take(&mut is_chat)).is_err() {
            return;
        }
    }
}

fn answer(out: &mut TcpStream, is_chat: bool) -> io::Result<()> {
    if !is_chat {
        return out.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
    }
    out.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    )?;
    for piece in PIECES {
        write!(out, "{:x}\r\n{piece}\r\n", piece.len())?;
        out.flush()?;
    }
    out.write_all(b"0\r\n\r\n")
}
