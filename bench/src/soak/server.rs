//! The server of a soak: its start, its metrics, its memory.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr, Command};

use super::{KEYS_MAX, LOG_BYTES_MAX};

/// A rule of every kind, in windows that end and windows that do not.
const RULES: &str = include_str!("rules.yaml");
/// Starting and stopping take a moment each.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server; killed with this value.
pub(super) struct SoakServer {
    child: Child,
    pub(super) grpc: SocketAddr,
    admin: SocketAddr,
}

impl SoakServer {
    /// Starts the `tollgate` that lies beside this program, with a history or without.
    pub(super) async fn start(has_history: bool) -> Result<Self> {
        let own = std::env::current_exe().context("where am I?")?;
        let folder = own.parent().context("a program lies in a folder")?;
        let program = folder.join("tollgate");
        ensure!(program.exists(), "there is no {}; `cargo build` makes it", program.display());
        let config = write_files(&folder.join("soak-files"), has_history)?;
        let any = "127.0.0.1:0";
        let files = config.parent().context("a file lies in a folder")?.to_owned();
        let mut child = Command::new(program)
            // Its history is one of the files.
            .current_dir(files)
            .args(["serve", "--http", any, "--grpc", any, "--admin", any, "--config"])
            .arg(config)
            .env_clear()
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start tollgate")?;
        let log = child.stderr.take().context("its log is piped")?;
        let (grpc, admin) = tokio::time::timeout(PATIENCE, addresses(BufReader::new(log).lines()))
            .await
            .context("it does not say where it listens")??;
        Ok(Self { child, grpc, admin })
    }

    /// The keys and the bytes of its store.
    pub(super) async fn store(&self) -> Result<(u64, u64)> {
        let page = get(self.admin, "/metrics").await?;
        let value = |name: &str| {
            let line = page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
            line.with_context(|| format!("/metrics does not tell {name}"))
        };
        Ok((value("tollgate_store_keys ")?, value("tollgate_store_bytes ")?))
    }

    /// Its resident memory.
    pub(super) fn rss_kb(&self) -> Result<u64> {
        let pid = self.child.id().context("the server has ended")?;
        let path = format!("/proc/{pid}/status");
        let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        number.with_context(|| format!("no VmRSS in {path}"))
    }

    /// Stops it as an operator does; it must end well.
    pub(super) async fn stop(&mut self) -> Result<()> {
        let pid = self.child.id().context("the server has ended")?.to_string();
        Command::new("kill").arg(pid).status().await.context("cannot send SIGTERM")?;
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await.context("it does not end")??;
        ensure!(ended.success(), "the server ended with {ended}");
        Ok(())
    }
}

/// Writes rules and settings; the path of the settings.
fn write_files(folder: &Path, has_history: bool) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let (rules, config) = (folder.join("rules.yaml"), folder.join("tollgate.yaml"));
    fs::write(&rules, RULES).context("cannot write the rules")?;
    let text = format!(
        "rules: ['{}']\nmemory: {{ keys: {KEYS_MAX}, log_bytes: {LOG_BYTES_MAX}, snapshots: false }}\n\
         history: {{ enabled: {has_history} }}\n",
        rules.display()
    );
    fs::write(&config, text).context("cannot write the settings")?;
    Ok(config)
}

/// Where it says that gRPC and the admin pages are, once rules are in force; the rest of its log is
/// read and dropped.
async fn addresses(mut log: Lines<BufReader<ChildStderr>>) -> Result<(SocketAddr, SocketAddr)> {
    let (mut grpc, mut admin) = (None, None);
    let mut said = Vec::new();
    while let Some(line) = log.next_line().await? {
        let after = |mark: &str| line.split_once(mark).map(|(_, after)| address(after));
        if line.contains("gRPC") {
            grpc = grpc.or(after("listens on ").flatten());
        }
        admin = admin.or(after("are at http://").flatten());
        let is_ready = line.contains("rules loaded");
        said.push(line);
        if let (Some(grpc), Some(admin), true) = (grpc, admin, is_ready) {
            tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
            return Ok((grpc, admin));
        }
    }
    bail!("the server ended:\n{}", said.join("\n"))
}

/// The address that a text begins with.
fn address(text: &str) -> Option<SocketAddr> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || ".:".contains(c))).unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}

/// A page by HTTP/1.1.
async fn get(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await.with_context(|| format!("cannot reach {address}"))?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await?;
    Ok(page)
}
