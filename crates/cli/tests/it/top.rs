//! `tollgate top`, on a terminal of `script` and as text.
#![expect(
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy knows the tests here, but not the functions that they share"
)]

use std::io::{Read, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::history_server::{TOKEN, counted};

/// Far more than anything here takes, even on a machine that is busy.
const DEADLINE: Duration = Duration::from_secs(60);

/// What a program writes, as it comes.
fn written(mut from: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4_096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            drop(tell.send(String::from_utf8_lossy(&bytes[..count]).into_owned()));
        }
    });
    told
}

/// What comes from a terminal.
struct Screen {
    told: Receiver<String>,
    seen: String,
}

impl Screen {
    /// Waits for a text, and forgets it and what came before it.
    fn until(&mut self, text: &str) {
        // A frame is a fraction of this, and the live view sends some each second.
        for _ in 0..1_000 {
            if let Some((_, rest)) = self.seen.split_once(text) {
                self.seen = rest.to_owned();
                return;
            }
            let Ok(more) = self.told.recv_timeout(DEADLINE) else { break };
            self.seen.push_str(&more);
        }
        panic!("no {text:?} in {:?}", self.seen);
    }
}

fn top(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.arg("top").args(args).env_clear().env("TOLLGATE_ADMIN_TOKEN", TOKEN).current_dir(folder);
    command
}

#[test]
fn on_a_terminal_it_shows_what_goes_on_and_leaves_the_terminal_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, admin) = counted(folder.path());
    let program = env!("CARGO_BIN_EXE_tollgate");
    let run = format!("stty cols 120 rows 30; exec {program} top --server http://{admin} --every 1s");
    let mut child = Command::new("script")
        .args(["-qec", &run, "/dev/null"])
        .env("TOLLGATE_ADMIN_TOKEN", TOKEN)
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let told = written(child.stdout.take().unwrap());
    let mut screen = Screen { told, seen: String::new() };
    screen.until("\u{1b}[?1049h");
    // What is drawn on an empty place comes in one piece; what changes comes in bits.
    screen.until("/cart");
    screen.until("path=/cart");
    let mut keys = child.stdin.take().unwrap();
    keys.write_all(b"d").unwrap();
    screen.until("▼");
    keys.write_all(b"q").unwrap();
    screen.until("\u{1b}[?1049l");
    drop(keys);
    assert!(child.wait().unwrap().success());
}

#[test]
fn without_a_terminal_it_is_a_text_or_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, admin) = counted(folder.path());
    let url = format!("http://{admin}");
    let once = top(folder.path(), &["--server", &url, "--once"]).output().unwrap();
    let text = String::from_utf8(once.stdout).unwrap();
    assert!(once.status.success(), "{}", String::from_utf8_lossy(&once.stderr));
    let words = ["since its start: 6 requests, 1 denied", "in the last 5m: 6 requests", "/cart", "per_path"];
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
    for (args, code, words) in [
        (&["--server", &url][..], 64, "add --once"),
        (&["--server", "http://127.0.0.1:1", "--once"], 1, "cannot ask http://127.0.0.1:1"),
        (&["--every", "soon", "--once"], 64, "a span is a number with"),
    ] {
        let output = top(folder.path(), args).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {told}");
        assert!(told.contains(words), "{args:?}: {told}");
    }
}
