//! A real Tollgate server in this process.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;
use tollgate_client::{Client, ClientSettings};
use tollgate_core::{Descriptor, Entry, Request};
use tollgate_server::{BoundTo, Control, Error, Listeners};
use tollgate_settings::{Flags, Settings, rows};

/// Far more than anything here takes, even on a machine that is busy.
const DEADLINE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Any free port.
pub(crate) const ANY: &str = "127.0.0.1:0";

/// A server with rules of its own, ended with this value.
pub(crate) struct TestServer {
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    folder: TempDir,
    control: Control,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

/// A server that is yet to start.
pub(crate) struct ServerSetup {
    pub(crate) folder: TempDir,
    pub(crate) environment: HashMap<String, String>,
    pub(crate) http: String,
    pub(crate) grpc: String,
    pub(crate) store: String,
}

impl ServerSetup {
    pub(crate) fn new(rules: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("rules")).unwrap();
        std::fs::write(folder.path().join("rules/rules.yaml"), rules).unwrap();
        Self {
            folder,
            environment: HashMap::new(),
            http: ANY.into(),
            grpc: ANY.into(),
            store: "memory".into(),
        }
    }

    pub(crate) fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.insert(name.to_owned(), value.into());
        self
    }

    /// Starts it, and waits until a check is answered.
    pub(crate) async fn start(self) -> TestServer {
        let Self { folder, environment, http, grpc, store } = self;
        let text = |path: PathBuf| path.display().to_string();
        let flags = Flags::default()
            .with(&rows::RULES.row, text(folder.path().join("rules")))
            .with(&rows::HTTP_ADDRESS.row, http)
            .with(&rows::GRPC_ADDRESS.row, grpc)
            .with(&rows::STORE.row, store)
            .with(&rows::ADMIN_ADDRESS.row, ANY)
            .with(&rows::DATA.row, text(folder.path().join("data")));
        let (settings, _) = Settings::resolve(&flags, &environment, None).unwrap();
        let listeners = Listeners::bind(&settings, 2).unwrap();
        let addresses = listeners.addresses().clone();
        let BoundTo::Tcp(grpc) = addresses.grpc else { panic!("gRPC listens on a port") };
        let control = Control::new();
        let own = control.clone();
        let thread = std::thread::spawn(move || tollgate_server::run(&settings, listeners, &own));
        TestServer { http: addresses.http, grpc, folder, control, thread: Some(thread) }
    }
}

impl TestServer {
    pub(crate) async fn with(rules: &str) -> Self {
        let server = ServerSetup::new(rules).start().await;
        server.until_decides().await;
        server
    }

    pub(crate) fn http_client(&self) -> Client {
        Client::http(&format!("http://{}", self.http)).unwrap().with_settings(patient()).unwrap()
    }

    pub(crate) fn grpc_client(&self) -> Client {
        Client::grpc(&format!("http://{}", self.grpc)).unwrap().with_settings(patient()).unwrap()
    }

    /// Waits until rules are in force.
    pub(crate) async fn until_decides(&self) {
        let client = self.http_client();
        eventually("a check is answered", async || {
            ask("no such domain", "a", 0, async |request| client.check(request).await.is_ok()).await
        })
        .await;
    }

    /// Replaces the rules in one step, and tells the server.
    pub(crate) fn reload(&self, rules: &str) {
        let next = self.folder.path().join("rules.next");
        std::fs::write(&next, rules).unwrap();
        std::fs::rename(next, self.folder.path().join("rules/rules.yaml")).unwrap();
        self.control.reload();
    }

    /// Ends it, and waits for it.
    pub(crate) fn stop(mut self) {
        self.control.stop();
        self.thread.take().unwrap().join().unwrap().unwrap();
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.control.stop();
    }
}

/// A machine that is busy must not look like a server that is away.
pub(crate) fn patient() -> ClientSettings {
    ClientSettings { timeout: DEADLINE, connect_timeout: DEADLINE, ..ClientSettings::default() }
}

/// Looks until something is so, and fails if it never is.
pub(crate) async fn eventually(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !is().await {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(DEADLINE, looking).await.unwrap_or_else(|_| panic!("never came true: {what}"));
}

/// Makes a request about one user, and asks with it.
pub(crate) async fn ask<R>(
    domain: &str,
    user: &str,
    cost: u64,
    then: impl AsyncFnOnce(&Request<'_>) -> R,
) -> R {
    let entries = [Entry::from(("user", user))];
    let descriptors = [Descriptor::new(&entries)];
    then(&Request::new(domain, &descriptors).with_cost(cost)).await
}
