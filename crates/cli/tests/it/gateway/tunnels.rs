//! Python's websockets on both sides of it.

use std::path::Path;
use std::process::Command;

/// Starts a server of its own, and talks to it through the gateway at the address that it is given: it prints
/// the port of the server first, and then reads the gateway's.
const SCRIPT: &str = r#"
import asyncio, os, random, sys
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

async def echo(socket):
    if socket.request.path == "/bye":
        await socket.send("last words")
        await socket.close(4001, "server is done")
        return
    async for message in socket:
        await socket.send(message)

async def main():
    async with serve(echo, "127.0.0.1", 0, max_size=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        gateway = sys.stdin.readline().strip()
        async with connect(f"ws://{gateway}/echo", max_size=None) as socket:
            for size in [0, 1, 125, 126, 65535, 65536, 1_000_000] + [random.randrange(50_000) for _ in range(50)]:
                for message in (os.urandom(size), "é" * size):
                    await socket.send(message)
                    assert await socket.recv() == message, size
            # Several on the way at once, both ways.
            messages = [os.urandom(random.randrange(10_000)) for _ in range(200)]
            async def send():
                for message in messages:
                    await socket.send(message)
            sending = asyncio.create_task(send())
            for message in messages:
                assert await socket.recv() == message
            await sending
            await (await socket.ping())
        assert socket.close_code == 1000, socket.close_code
        async with connect(f"ws://{gateway}/bye") as socket:
            assert await socket.recv() == "last words"
            try:
                await socket.recv()
            except ConnectionClosed as closed:
                assert (closed.rcvd.code, closed.rcvd.reason) == (4001, "server is done")
            else:
                raise AssertionError("it goes on")
        print("all came back", flush=True)

asyncio.run(main())
"#;

#[test]
fn websockets_pass_both_ways_and_either_side_closes() {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::Stdio;
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/websockets/bin/python");
    let mut child = Command::new(python)
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("websockets is installed: cargo xtask setup");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let port: u16 = lines.next().unwrap().unwrap().parse().unwrap();
    let gateway = super::GatewayProcess::start(([127, 0, 0, 1], port).into());
    writeln!(child.stdin.take().unwrap(), "{}", gateway.address).unwrap();
    let last = lines.next().map(Result::unwrap);
    assert!(child.wait().unwrap().success());
    assert_eq!(last.as_deref(), Some("all came back"));
}
