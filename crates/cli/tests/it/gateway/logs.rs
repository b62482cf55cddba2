//! What the process says: its first lines, and the access log, which is rotated by a rename and a SIGHUP.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tollgate_testkit::redis::wait_until;

use super::hyper_upstream::HyperUpstream;
use super::{RULES, output};
use crate::serve::{ANY, Serving};

const DEADLINE: Duration = Duration::from_secs(30);

#[test]
fn without_a_mapping_the_first_lines_tell_the_descriptors_and_a_rule_that_works() {
    let upstream = HyperUpstream::start();
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules");
    std::fs::create_dir(&rules).unwrap();
    let url = format!("http://{}", upstream.address);
    let mut serving = Serving::start(folder.path(), &["--gateway", "127.0.0.1:0", "--upstream", &url]);
    let gateway = serving.until("the gateway (HTTP/1.1, HTTP/2) listens on ");
    // The very next lines.
    let told = serving.until("requests are ");
    assert!(
        told.starts_with("(remote_address), (method, path) and (path, remote_address) in the domain gateway"),
        "{told}"
    );
    let told = serving.until("a rule file to copy, ");
    let (meaning, rule) = told.split_once(": ").unwrap();
    assert_eq!(meaning, "10 requests a second from each address");
    // As it stands there.
    std::fs::write(rules.join("copied.yaml"), rule).unwrap();
    let gateway: SocketAddr = gateway.split(' ').next().unwrap().parse().unwrap();
    wait_until("the copied rule denies", DEADLINE, || {
        (0..50).any(|_| ask(gateway, "/").starts_with("HTTP/1.1 429"))
    });
}

/// The answer to a GET on a connection of its own.
fn ask(gateway: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(gateway).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nUser-Agent: t/1\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    drop(stream.read_to_string(&mut answer));
    answer
}

/// An upstream that lets every request change the protocol, and closes the tunnel.
fn tunnelling_upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut stream = stream;
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
                    head.extend(byte);
                }
                let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
                let answer = match head.contains("upgrade: echo") {
                    true => {
                        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nbye"
                    }
                    false => "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
                };
                drop(stream.write_all(answer.as_bytes()));
            });
        }
    });
    address
}

/// A gateway with an access log.
struct LoggedGateway {
    child: Child,
    gateway: SocketAddr,
}

impl LoggedGateway {
    fn start(folder: &Path, path: &str, format: &str) -> Self {
        std::fs::create_dir_all(folder.join("rules")).unwrap();
        std::fs::write(folder.join("rules/gateway.yaml"), RULES).unwrap();
        let upstream = format!("http://{}", tunnelling_upstream());
        let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
            .arg("serve")
            .args(ANY)
            .args(["--gateway", "127.0.0.1:0", "--upstream", &upstream, "--access-log", path])
            .env_clear()
            .env("TOLLGATE_ACCESS_LOG_FORMAT", format)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let text = "the gateway (HTTP/1.1, HTTP/2) listens on ";
        let line = log.find(|line| line.contains(text)).unwrap();
        let gateway = line.split_once(text).unwrap().1.split(' ').next().unwrap().parse().unwrap();
        assert!(log.any(|line| line.contains("try: ")), "it starts");
        // What it says later must not fill the pipe.
        std::thread::spawn(move || log.for_each(drop));
        Self { child, gateway }
    }

    /// A request over HTTP/1.1, one over HTTP/2, and a tunnel.
    fn ask_all(&self) {
        assert!(ask(self.gateway, "/one").starts_with("HTTP/1.1 200"));
        let url = format!("http://{}/two", self.gateway);
        assert_eq!(output("curl", &["-sS", "--http2-prior-knowledge", "-A", "t/1", &url]), b"ok");
        let mut tunnel = TcpStream::connect(self.gateway).unwrap();
        tunnel
            .write_all(b"GET /three HTTP/1.1\r\nHost: a\r\nUser-Agent: t/1\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
            .unwrap();
        let mut said = String::new();
        drop(tunnel.read_to_string(&mut said));
        assert!(said.starts_with("HTTP/1.1 101") && said.ends_with("bye"), "{said}");
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }
}

impl Drop for LoggedGateway {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What lines of both formats tell of the requests: path, protocol and status.
fn told(line: &str, format: &str) -> (String, String, u64) {
    if format == "combined" {
        let (_, rest) = line.split_once("] \"GET ").unwrap_or_else(|| panic!("{line}"));
        let (request, rest) = rest.split_once("\" ").unwrap();
        let (path, protocol) = request.split_once(' ').unwrap();
        assert!(line.starts_with("127.0.0.1 - - [") && line.ends_with("\"t/1\""), "{line}");
        return (path.into(), protocol.into(), rest.split(' ').next().unwrap().parse().unwrap());
    }
    let line: Value = serde_json::from_str(line).unwrap();
    let text = |name: &str| line[name].as_str().unwrap_or_else(|| panic!("no {name} in {line}")).to_owned();
    assert_eq!(text("verdict"), "allow", "{line}");
    (text("target"), text("version"), line["status"].as_u64().unwrap())
}

/// The lines are those of the three requests, in some order: each is written when its request is over.
fn assert_all(lines: &[String], format: &str) {
    let mut seen: Vec<_> = lines.iter().map(|line| told(line, format)).collect();
    seen.sort();
    let expected = [("/one", "HTTP/1.1", 200), ("/three", "HTTP/1.1", 101), ("/two", "HTTP/2.0", 200)];
    let expected = expected.map(|(path, protocol, status)| (path.to_owned(), protocol.to_owned(), status));
    assert_eq!(seen, expected, "{format}: {lines:?}");
}

fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn the_access_log_on_stdout_tells_of_http1_http2_and_tunnels_in_both_formats() {
    for format in ["combined", "json"] {
        let folder = tempfile::tempdir().unwrap();
        let mut gateway = LoggedGateway::start(folder.path(), "stdout", format);
        let stdout = BufReader::new(gateway.child.stdout.take().unwrap());
        gateway.ask_all();
        let lines: Vec<String> = stdout.lines().take(3).map(Result::unwrap).collect();
        assert_all(&lines, format);
    }
}

#[test]
fn an_access_log_that_is_renamed_begins_anew_at_a_sighup() {
    for format in ["combined", "json"] {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
        let gateway = LoggedGateway::start(folder.path(), path.to_str().unwrap(), format);
        gateway.ask_all();
        wait_until("three lines are written", DEADLINE, || lines(&path).len() == 3);
        std::fs::rename(&path, &old).unwrap();
        gateway.signal("HUP");
        gateway.ask_all();
        wait_until("three further lines are written", DEADLINE, || lines(&path).len() == 3);
        for file in [&old, &path] {
            assert_all(&lines(file), format);
        }
    }
}
