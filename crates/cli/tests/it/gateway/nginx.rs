//! The real nginx with a folder of files.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tollgate_testkit::redis::{free_port, wait_until};

/// A running nginx, killed with this value.
pub(super) struct Nginx {
    child: Child,
    pub(super) address: SocketAddr,
    folder: TempDir,
}

impl Nginx {
    /// Serves the files of a folder of its own.
    pub(super) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let root = folder.path().display();
        let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary = kinds.map(|kind| format!("{kind}_temp_path {root}/{kind};")).join(" ");
        let configuration = format!(
            "worker_processes 1; events {{ worker_connections 4096; }}\n\
             http {{ access_log off; {temporary} keepalive_requests 1000000;\n\
             server {{ listen {address} backlog=4096; root {root}/files; }} }}\n"
        );
        std::fs::create_dir(folder.path().join("files")).unwrap();
        std::fs::write(folder.path().join("files/index.html"), "hello").unwrap();
        let path = folder.path().join("nginx.conf");
        std::fs::write(&path, configuration).unwrap();
        let child = Command::new("nginx")
            .arg("-p")
            .arg(folder.path())
            .arg("-c")
            .arg(&path)
            .args(["-e", "stderr", "-g", "daemon off; master_process off; pid nginx.pid;"])
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx is installed: cargo xtask setup");
        let nginx = Self { child, address, folder };
        wait_until("nginx listens", Duration::from_secs(20), || TcpStream::connect(address).is_ok());
        nginx
    }

    /// The folder of what it serves.
    pub(super) fn files(&self) -> &Path {
        self.folder.path()
    }

    /// Makes a file.
    pub(super) fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.files().join("files").join(name), bytes).unwrap();
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // It has no state that is worth a goodbye.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
