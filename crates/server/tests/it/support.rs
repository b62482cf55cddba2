//! A real server in this process, and callers for it.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy knows the tests here, but not the functions that they share"
)]

pub(crate) mod certs;
pub(crate) mod golden;
pub(crate) mod http;
pub(crate) mod secure;
pub(crate) mod wire;

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use tempfile::TempDir;
use tollgate_server::{Addresses, BoundTo, Control, Error, Listeners};
use tollgate_settings::{ConfigFile, Flags, Settings, rows};
use tonic::transport::{Channel, Endpoint};

/// Far more than anything here takes, even on a machine that is busy.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
/// How often something outside is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A client of the service.
pub(crate) type Client = RateLimitServiceClient<Channel>;

/// A server with rules of its own, ended with this value.
pub(crate) struct Server {
    pub(crate) addresses: Addresses,
    folder: TempDir,
    control: Control,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

/// A server that is yet to start.
pub(crate) struct Setup {
    folder: TempDir,
    environment: HashMap<String, String>,
    file: Option<ConfigFile>,
    data: Option<PathBuf>,
    waits: bool,
}

impl Setup {
    /// With these rule files, by name.
    pub(crate) fn new(rules: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("rules")).unwrap();
        for (name, text) in rules {
            std::fs::write(folder.path().join("rules").join(name), text).unwrap();
        }
        Self { folder, environment: HashMap::new(), file: None, data: None, waits: true }
    }

    /// The same with a variable of the environment.
    pub(crate) fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.insert(name.to_owned(), value.into());
        self
    }

    /// The same with a `tollgate.yaml`.
    pub(crate) fn file(mut self, text: impl Into<String>) -> Self {
        self.file = Some(ConfigFile::parse("tollgate.yaml", &text.into()).unwrap());
        self
    }

    /// The same with a `tollgate.yaml` that can change.
    pub(crate) fn file_on_disk(mut self, path: &Path) -> Self {
        self.file = ConfigFile::find(Some(path)).unwrap();
        self
    }

    /// The same, not waiting for rules.
    pub(crate) fn without_waiting(mut self) -> Self {
        self.waits = false;
        self
    }

    /// The same, keeping history elsewhere than in a folder of its own.
    pub(crate) fn data(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data = Some(folder.into());
        self
    }

    /// A folder that lives as long as the server.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts it, and waits until rules are in force.
    pub(crate) async fn start(self) -> Server {
        let Self { folder, environment, file, data, waits } = self;
        const ANY: &str = "127.0.0.1:0";
        let text = |path: PathBuf| path.display().to_string();
        let mut flags = Flags::default()
            .with(&rows::RULES.row, text(folder.path().join("rules")))
            .with(&rows::HTTP_ADDRESS.row, ANY)
            .with(&rows::ADMIN_ADDRESS.row, ANY)
            .with(&rows::DATA.row, text(data.unwrap_or_else(|| folder.path().join("data"))));
        if !environment.contains_key(rows::GRPC_UDS.row.variable) {
            flags = flags.with(&rows::GRPC_ADDRESS.row, ANY);
        }
        let (settings, _) = Settings::resolve(&flags, &environment, file.as_ref()).unwrap();
        let listeners = Listeners::bind(&settings, 2).unwrap();
        let addresses = listeners.addresses().clone();
        let control = Control::new();
        let own = control.clone();
        let thread = std::thread::spawn(move || tollgate_server::run(&settings, listeners, &own));
        let server = Server { addresses, folder, control, thread: Some(thread) };
        if waits {
            server.until_verbose("\"loaded\":true").await;
        }
        server
    }
}

impl Server {
    /// A server with one rule file and nothing else.
    pub(crate) async fn with(rules: &str) -> Self {
        Setup::new(&[("rules.yaml", rules)]).start().await
    }

    /// Where gRPC listens, if on a port.
    pub(crate) fn grpc_address(&self) -> SocketAddr {
        match &self.addresses.grpc {
            BoundTo::Tcp(address) => *address,
            BoundTo::Unix(path) => panic!("gRPC listens on {}", path.display()),
        }
    }

    /// A client on a connection of its own.
    pub(crate) async fn client(&self) -> Client {
        RateLimitServiceClient::new(self.channel().await)
    }

    /// A connection.
    pub(crate) async fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.grpc_address())).unwrap().connect().await.unwrap()
    }

    /// Waits until the verbose health check says something.
    pub(crate) async fn until_verbose(&self, text: &str) {
        eventually(text, || async {
            let (_, body) = http::get(self.addresses.http, "/healthcheck?verbose").await;
            body.contains(text)
        })
        .await;
    }

    /// A counter by its dotted name; 0 if there is none.
    pub(crate) async fn counter(&self, name: &str) -> u64 {
        let (status, body) = http::get(self.addresses.admin, "/stats").await;
        assert_eq!(status, 200);
        let value = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.map_or(0, |value| value.parse().unwrap())
    }

    /// Where the rule files are.
    pub(crate) fn rules_folder(&self) -> PathBuf {
        self.folder.path().join("rules")
    }

    /// A file of the server's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What a signal would say.
    pub(crate) const fn control(&self) -> &Control {
        &self.control
    }

    /// Ends the server, and waits for it.
    pub(crate) fn stop(mut self) -> Result<(), Error> {
        self.control.stop();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Server {
    /// Whoever wants to know how it ended calls [`Server::stop`].
    fn drop(&mut self) {
        self.control.stop();
    }
}

/// Looks until something is so, and fails if it never is.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut is: impl FnMut() -> F) {
    let looking = async {
        while !is().await {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(DEADLINE, looking).await.unwrap_or_else(|_| panic!("never came true: {what}"));
}

/// Replaces a file in one step, as careful writers do.
pub(crate) fn replace_file(path: &Path, text: impl AsRef<[u8]>) {
    let next = path.with_extension("next");
    std::fs::write(&next, text).unwrap();
    std::fs::rename(next, path).unwrap();
}
