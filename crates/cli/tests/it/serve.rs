//! `tollgate serve` as a process: its first lines, signals and exit codes.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy knows the tests here, but not the functions that they share"
)]

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use tonic::transport::{Channel, Endpoint};

/// Far more than anything here takes, even on a machine that is busy.
const DEADLINE: Duration = Duration::from_secs(60);

/// Ports that nobody else has.
pub(crate) const ANY: [&str; 6] =
    ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0"];

/// A server that is killed with this value.
pub(crate) struct Serving {
    child: Child,
    log: Receiver<String>,
    seen: String,
}

impl Serving {
    pub(crate) fn start(folder: &Path, args: &[&str]) -> Self {
        Self::run(
            Command::new(env!("CARGO_BIN_EXE_tollgate")).arg("serve").args(ANY).args(args).env_clear(),
            folder,
        )
    }

    /// The program that `command` names, in `folder`.
    pub(crate) fn run(command: &mut Command, folder: &Path) -> Self {
        let mut child = command.current_dir(folder).stderr(Stdio::piped()).spawn().unwrap();
        let (tell, log) = channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(tell.send(line))));
        Self { child, log, seen: String::new() }
    }

    /// The rest of the next line that has `text`.
    pub(crate) fn until(&mut self, text: &str) -> String {
        loop {
            let Ok(line) = self.log.recv_timeout(DEADLINE) else { panic!("no '{text}' in\n{}", self.seen) };
            writeln!(self.seen, "{line}").unwrap();
            if let Some((_, rest)) = line.split_once(text) {
                return rest.trim().to_owned();
            }
        }
    }

    /// The id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn address(&mut self, text: &str) -> SocketAddr {
        // In JSON a quote ends the message.
        self.until(text).split(['/', '"']).next().unwrap().parse().unwrap()
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It has ended already, or ends now.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The whole answer to a GET.
pub(crate) fn get(address: SocketAddr, path: &str) -> String {
    answer(address, &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"))
}

/// The answer to a GET once it has `text`: the log may be a moment ahead of what a page says.
pub(crate) fn get_until(address: SocketAddr, path: &str, text: &str) -> String {
    // Every answer takes a round trip, so this is far longer than a server takes.
    let mut answers = (0..10_000).map(|_| get(address, path));
    answers.find(|answer| answer.contains(text)).unwrap_or_else(|| panic!("never '{text}' at {path}"))
}

/// The whole answer to a POST.
pub(crate) fn post(address: SocketAddr, path: &str, body: &str) -> String {
    let length = body.len();
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}");
    answer(address, &format!("{head}\r\n\r\n{body}"))
}

fn answer(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn with_nothing_said_an_example_is_served_and_what_to_try_works() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Serving::start(folder.path(), &[]);
    let http_address = server.address("HTTP (/json, /healthcheck, /v1) listens on ");
    server.until("the built-in example is served");
    let tried = server.until("try: curl -i ");
    let (url, body) = tried.split_once(" -d ").unwrap();
    assert_eq!(url, format!("http://{http_address}/v1/check"));
    let answer = post(http_address, "/v1/check", body.trim_matches('\''));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("\"binding\":0"), "it meets a rule: {answer}");
    server.signal("INT");
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn by_the_name_of_the_reference_it_serves_without_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("ratelimit/config");
    std::fs::create_dir_all(&rules).unwrap();
    std::fs::write(rules.join("rules.yaml"), "domain: d\n").unwrap();
    let link = folder.path().join("ratelimit/ratelimit");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tollgate"), &link).unwrap();
    let istio = |command: &mut Command| {
        let root = folder.path().to_str().unwrap().to_owned();
        command.env_clear().envs([
            ("RUNTIME_ROOT", root.as_str()),
            ("RUNTIME_SUBDIRECTORY", "ratelimit"),
            ("RUNTIME_WATCH_ROOT", "false"),
            ("HOST", "127.0.0.1"),
            ("PORT", "0"),
            ("GRPC_HOST", "127.0.0.1"),
            ("GRPC_PORT", "0"),
            ("DEBUG_PORT", "0"),
        ]);
    };
    for args in [&[][..], &["--rules", "ratelimit/config"], &ANY] {
        let mut command = Command::new(&link);
        istio(&mut command);
        let mut server = Serving::run(command.args(args), folder.path());
        server.until("rules loaded");
        server.signal("TERM");
        assert_eq!(server.exit_code(), Some(0), "{args:?}");
    }
    let check =
        Command::new(&link).args(["check", "ratelimit/config"]).current_dir(folder.path()).output().unwrap();
    assert!(check.status.success(), "its own commands stay: {check:?}");
    let version = Command::new(&link).arg("--version").output().unwrap();
    assert!(version.stdout.starts_with(b"tollgate "), "{version:?}");
}

#[test]
fn a_source_that_cannot_be_reached_is_told_in_the_log_and_by_the_health_check() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.arg("serve").args(ANY).env_clear();
    // Nobody listens on port 1.
    command.envs([("CONFIG_TYPE", "GRPC_XDS_SOTW"), ("CONFIG_GRPC_XDS_SERVER_URL", "127.0.0.1:1")]);
    let mut server = Serving::run(&mut command, folder.path());
    let address = server.address("HTTP (/json, /healthcheck, /v1) listens on ");
    server.until("no stream to the xDS server, and there are no rules yet");
    let told = "\"source_error\":\"no stream to the server: ";
    let answer = get_until(address, "/healthcheck?verbose", told);
    assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
}

#[test]
fn a_hangup_reads_the_rules_again() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rules.yaml"), "domain: d\n").unwrap();
    let mut server = Serving::start(folder.path(), &["--rules", "rules.yaml"]);
    server.until("rules loaded");
    server.signal("HUP");
    server.until("reading rules and settings again");
    server.until("rules loaded");
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn what_the_user_can_put_right_ends_with_64() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (args, told) in [
        (["--resp", &address], "cannot listen for RESP"),
        (["--config", "missing.yaml"], "missing.yaml"),
        (["--store", "nonsense"], "store"),
    ] {
        let mut server = Serving::start(folder.path(), &args);
        server.until(told);
        assert_eq!(server.exit_code(), Some(64), "{args:?}");
    }
}

const RULES: &str = "
domain: d
descriptors:
  - key: a
    rate_limit: { unit: year, requests_per_unit: 4000000000 }
";

/// Calls until a call fails, and notes what was left after each.
async fn call_on(channel: Channel, left: Arc<Mutex<Vec<u32>>>, answered: Arc<AtomicUsize>) {
    let mut client = RateLimitServiceClient::new(channel);
    let entries = vec![Entry { key: "a".into(), value: "same".into() }];
    let descriptor = RateLimitDescriptor { entries, ..RateLimitDescriptor::default() };
    let asked = RateLimitRequest { domain: "d".into(), descriptors: vec![descriptor], hits_addend: 1 };
    while let Ok(answer) = client.should_rate_limit(asked.clone()).await {
        left.lock()
            .unwrap()
            .extend(answer.into_inner().statuses.first().map(|status| status.limit_remaining));
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_stop_under_load_loses_no_call_that_was_accepted() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rules.yaml"), RULES).unwrap();
    let mut server = Serving::start(folder.path(), &["--rules", "rules.yaml"]);
    let grpc = server.address("reflection) listens on ");
    server.until("rules loaded");
    let (left, answered) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut callers = Vec::new();
        for _ in 0..4 {
            let channel = Endpoint::from_shared(format!("http://{grpc}")).unwrap().connect().await.unwrap();
            for _ in 0..16 {
                let caller = call_on(channel.clone(), Arc::clone(&left), Arc::clone(&answered));
                callers.push(tokio::spawn(caller));
            }
        }
        while answered.load(Ordering::Relaxed) < 2_000 {
            tokio::task::yield_now().await;
        }
        server.signal("TERM");
        for caller in callers {
            tokio::time::timeout(DEADLINE, caller).await.expect("callers see the end").unwrap();
        }
    });
    assert_eq!(server.exit_code(), Some(0));
    // Every call that was counted has been answered: nothing is missing in between.
    let mut left = left.lock().unwrap().clone();
    left.sort_unstable_by(|a, b| b.cmp(a));
    let count = u32::try_from(left.len()).unwrap();
    let expected: Vec<u32> = (1..=count).map(|taken| 4_000_000_000 - taken).collect();
    assert_eq!(left, expected);
}
