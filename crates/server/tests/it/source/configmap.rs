//! A ConfigMap as Kubernetes mounts it: files are links through `..data`, a
//! link that is swapped when the ConfigMap changes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;
use tollgate_settings::{RuleOrigin, RuntimeLayout};

use super::{Running, rules, source};

/// Does what the kubelet does: a new folder, the link beside, a rename, and
/// then the old folder goes.
fn mount(volume: &Path, version: u32, files: &[(&str, String)]) {
    let own = format!("..2026_11_15_{version}");
    fs::create_dir(volume.join(&own)).unwrap();
    for (name, text) in files {
        fs::write(volume.join(&own).join(name), text).unwrap();
    }
    let old = fs::read_link(volume.join("..data")).ok();
    symlink(&own, volume.join("..data_tmp")).unwrap();
    fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
    for (name, _) in files {
        if volume.join(name).symlink_metadata().is_err() {
            symlink(Path::new("..data").join(name), volume.join(name)).unwrap();
        }
    }
    let is_gone = |name: &str| files.iter().all(|(other, _)| *other != name);
    for entry in fs::read_dir(volume).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if !name.starts_with("..") && is_gone(&name) {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    if let Some(old) = old {
        fs::remove_dir_all(volume.join(old)).unwrap();
    }
}

async fn follows_a_configmap(volume: &Path, mut running: Running) {
    running.domains(&["shop"]).await;
    assert_eq!(running.count(), 1);
    mount(volume, 2, &[("shop.yaml", rules("shop", 2))]);
    running.until("the second version", |status| status.loads >= 2).await;
    assert_eq!(running.count(), 2);
    mount(volume, 3, &[("shop.yaml", rules("shop", 3)), ("bank.yaml", rules("bank", 3))]);
    running.domains(&["bank", "shop"]).await;
    mount(volume, 4, &[("bank.yaml", rules("bank", 4))]);
    running.domains(&["bank"]).await;
    running.stop().await;
}

#[tokio::test]
async fn a_configmap_named_by_its_folder_is_followed() {
    let folder = TempDir::new().unwrap();
    mount(folder.path(), 1, &[("shop.yaml", rules("shop", 1))]);
    let running = Running::start(source(RuleOrigin::Paths(vec![folder.path().to_path_buf()])));
    follows_a_configmap(folder.path(), running).await;
}

#[tokio::test]
async fn a_configmap_named_by_one_of_its_files_is_followed() {
    let folder = TempDir::new().unwrap();
    mount(folder.path(), 1, &[("shop.yaml", rules("shop", 1))]);
    let mut running = Running::start(source(RuleOrigin::Paths(vec![folder.path().join("shop.yaml")])));
    running.loads(1).await;
    mount(folder.path(), 2, &[("shop.yaml", rules("shop", 2))]);
    running.loads(2).await;
    assert_eq!(running.count(), 2);
    running.stop().await;
}

/// With and without `RUNTIME_IGNOREDOTFILES`, which the reference needs, and
/// with and without `RUNTIME_WATCH_ROOT`.
#[tokio::test]
async fn a_configmap_in_the_layout_of_istio_is_followed() {
    for (ignore_dot_files, watch_root) in [(true, false), (false, false), (true, true), (false, true)] {
        let folder = TempDir::new().unwrap();
        let volume = folder.path().join("ratelimit/config");
        fs::create_dir_all(&volume).unwrap();
        mount(&volume, 1, &[("shop.yaml", rules("shop", 1))]);
        let running = Running::start(source(RuleOrigin::Runtime(RuntimeLayout {
            root: folder.path().to_path_buf(),
            subdirectory: "ratelimit".to_owned(),
            app_directory: "config".to_owned(),
            ignore_dot_files,
            watch_root,
        })));
        follows_a_configmap(&volume, running).await;
    }
}
