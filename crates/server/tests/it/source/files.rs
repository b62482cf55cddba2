//! Files and folders that change.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use tempfile::TempDir;
use tollgate_settings::{RuleOrigin, RuntimeLayout};

use super::{Running, rules, source};

fn of_paths(paths: &[PathBuf]) -> Running {
    Running::start(source(RuleOrigin::Paths(paths.to_vec())))
}

fn of_layout(root: &Path, watch_root: bool) -> Running {
    let layout = RuntimeLayout {
        root: root.to_path_buf(),
        subdirectory: "ratelimit".to_owned(),
        app_directory: "config".to_owned(),
        ignore_dot_files: true,
        watch_root,
    };
    Running::start(source(RuleOrigin::Runtime(layout)))
}

/// Puts a file in place at once, as careful editors do.
fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("tmp");
    fs::write(&beside, text).unwrap();
    fs::rename(&beside, path).unwrap();
}

#[tokio::test]
async fn a_folder_is_loaded_and_every_kind_of_change_is_seen() {
    let folder = TempDir::new().unwrap();
    let shop = folder.path().join("shop.yaml");
    fs::write(&shop, rules("shop", 1)).unwrap();
    fs::write(folder.path().join("notes.txt"), "not a rule file").unwrap();
    let mut running = of_paths(&[folder.path().to_path_buf()]);
    let first = running.loads(1).await;
    assert_eq!((first.domains, first.rules, first.files.len()), (1, 1, 1));
    assert_eq!(first.files[0], shop.display().to_string());
    assert!(first.loaded_at.is_some() && first.last_error.is_none());

    fs::write(&shop, rules("shop", 2)).unwrap();
    running.loads(2).await;
    assert_eq!(running.count(), 2, "written in place");

    replace(&shop, &rules("shop", 3));
    running.loads(3).await;
    assert_eq!(running.count(), 3, "replaced");

    fs::create_dir(folder.path().join("more")).unwrap();
    fs::write(folder.path().join("more/bank.yml"), rules("bank", 4)).unwrap();
    running.domains(&["bank", "shop"]).await;

    replace(&folder.path().join("more/bank.yml"), &rules("bench", 4));
    running.domains(&["bench", "shop"]).await;

    fs::remove_file(&shop).unwrap();
    running.domains(&["bench"]).await;
    running.stop().await;
}

#[tokio::test]
async fn several_paths_may_be_files_and_folders() {
    let folder = TempDir::new().unwrap();
    let (one, more) = (folder.path().join("one.rules"), folder.path().join("more"));
    fs::create_dir(&more).unwrap();
    fs::write(&one, rules("one", 1)).unwrap();
    fs::write(more.join("two.yaml"), rules("two", 1)).unwrap();
    let mut running = of_paths(&[one.clone(), more]);
    running.domains(&["one", "two"]).await;
    replace(&one, &rules("uno", 1));
    running.domains(&["two", "uno"]).await;
    running.stop().await;
}

#[tokio::test]
async fn a_bad_set_keeps_the_old_rules_until_it_is_good_again() {
    let folder = TempDir::new().unwrap();
    let shop = folder.path().join("shop.yaml");
    fs::write(&shop, rules("shop", 1)).unwrap();
    let mut running = of_paths(&[folder.path().to_path_buf()]);
    running.loads(1).await;

    replace(&shop, "domain: shop\ndescriptors:\n  - kye: user\n");
    replace(&folder.path().join("more.yaml"), "domian: more\n");
    let bad = running.until("two problems", |status| {
        status.last_error.as_ref().is_some_and(|error| error.problems.len() == 2)
    });
    let problems = bad.await.last_error.unwrap().problems;
    let shown = problems.join("\n");
    assert!(shown.contains("shop.yaml:3:5: error: unknown key 'kye'"), "{shown}");
    assert!(shown.contains("more.yaml:1:1: error: unknown key 'domian'"), "{shown}");
    assert_eq!(running.count(), 1, "the old rules stay");
    assert_eq!(running.status.borrow().domains, 1);

    fs::remove_file(folder.path().join("more.yaml")).unwrap();
    replace(&shop, &rules("shop", 2));
    let good = running.loads(2).await;
    assert_eq!((running.count(), good.last_error), (2, None));
    running.stop().await;
}

#[tokio::test]
async fn a_list_is_loaded_again_when_its_file_changes_wherever_it_lies() {
    let (folder, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let list = elsewhere.path().join("blocked.txt");
    let rules = format!("domain: shop\ndeny:\n  - {{ file: {} }}\n", list.display());
    fs::write(folder.path().join("shop.yaml"), rules).unwrap();
    let mut running = of_paths(&[folder.path().to_path_buf()]);
    let problems = running.failures(1).await.last_error.unwrap().problems;
    assert!(problems[0].contains("there is no list "), "{problems:?}");
    fs::write(&list, "192.0.2.1\n").unwrap();
    running.loads(1).await;
    assert_eq!(running.denied(&["192.0.2.1", "192.0.2.2"]), ["192.0.2.1"]);
    replace(&list, "192.0.2.2\n");
    running.loads(2).await;
    assert_eq!(running.denied(&["192.0.2.1", "192.0.2.2"]), ["192.0.2.2"]);
    replace(&list, "192.0.2.300/32\n");
    running.failures(2).await;
    assert_eq!(running.denied(&["192.0.2.1", "192.0.2.2"]), ["192.0.2.2"], "a bad list changes nothing");
    running.stop().await;
}

#[tokio::test]
async fn bad_rules_at_the_start_are_told_and_replaced_by_good_ones() {
    let folder = TempDir::new().unwrap();
    let missing = folder.path().join("rules.yaml");
    let mut running = of_paths(std::slice::from_ref(&missing));
    let status = running.failures(1).await;
    let problems = status.last_error.clone().unwrap().problems;
    assert!(problems[0].contains("there is no such file or folder"), "{problems:?}");
    assert!(status.is_decided() && !status.is_loaded());
    assert!(status.is_healthy(false) && !status.is_healthy(true));
    fs::write(&missing, rules("late", 1)).unwrap();
    running.domains(&["late"]).await;
    running.stop().await;
}

#[tokio::test]
async fn a_folder_of_rules_that_goes_away_keeps_the_old_rules() {
    let folder = TempDir::new().unwrap();
    let inner = folder.path().join("rules");
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("shop.yaml"), rules("shop", 1)).unwrap();
    let mut running = of_paths(std::slice::from_ref(&inner));
    running.loads(1).await;
    fs::remove_dir_all(&inner).unwrap();
    running.failures(1).await;
    assert_eq!(running.count(), 1);
    // A folder of the same name is another one, and is watched all the same.
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("shop.yaml"), rules("shop", 2)).unwrap();
    running.loads(2).await;
    replace(&inner.join("shop.yaml"), &rules("shop", 3));
    running.loads(3).await;
    assert_eq!(running.count(), 3);
    running.stop().await;
}

#[tokio::test]
async fn a_flood_of_changes_ends_with_the_last_one_and_few_loads() {
    let folder = TempDir::new().unwrap();
    let shop = folder.path().join("shop.yaml");
    fs::write(&shop, rules("shop", 1)).unwrap();
    let mut running = of_paths(&[folder.path().to_path_buf()]);
    running.loads(1).await;
    let writer = tokio::task::spawn_blocking(move || {
        for count in 2..=2_000 {
            replace(&shop, &rules("shop", count));
        }
    });
    writer.await.unwrap();
    let limiter = std::sync::Arc::clone(&running.limiter);
    let is_last = |_: &_| limiter.rules().rules().first().is_some_and(|rule| rule.limit.count() == 2_000);
    running.until("the last of the flood", is_last).await;
    let outcomes = running.outcomes.load(Ordering::SeqCst);
    assert!(outcomes < 100, "{outcomes} loads for 2,000 changes");
    assert_eq!(running.status.borrow().failures, 0);
    running.stop().await;
}

#[tokio::test]
async fn a_swapped_root_is_seen_as_a_whole() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("current");
    for (version, count) in [("v1", 1), ("v2", 2)] {
        let config = folder.path().join(version).join("ratelimit/config");
        fs::create_dir_all(&config).unwrap();
        fs::write(config.join("shop"), rules("shop", count)).unwrap();
        // Beside the app directory, and so none of ours.
        fs::write(folder.path().join(version).join("ratelimit/other.yaml"), "not: rules\n").unwrap();
    }
    symlink("v1", &root).unwrap();
    let mut running = of_layout(&root, true);
    let first = running.loads(1).await;
    assert_eq!(first.files, ["config.shop"]);
    assert_eq!(running.count(), 1);
    let beside = folder.path().join("next");
    symlink("v2", &beside).unwrap();
    fs::rename(&beside, &root).unwrap();
    running.loads(2).await;
    assert_eq!(running.count(), 2);
    // The folder behind the new link is watched, too.
    replace(&folder.path().join("v2/ratelimit/config/shop"), &rules("shop", 3));
    running.loads(3).await;
    assert_eq!(running.count(), 3);
    running.stop().await;
}

/// Scenario F of the reference: a domain comes, and goes.
#[tokio::test]
async fn a_domain_comes_and_goes_in_the_layout_of_the_reference() {
    let folder = TempDir::new().unwrap();
    let config = folder.path().join("ratelimit/config");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("basic.yaml"), rules("basic", 50)).unwrap();
    let mut running = of_layout(folder.path(), false);
    assert_eq!(running.loads(1).await.files, ["basic.yaml"]);
    fs::write(config.join("reload.yaml"), rules("reload", 50)).unwrap();
    running.domains(&["basic", "reload"]).await;
    fs::remove_file(config.join("reload.yaml")).unwrap();
    running.domains(&["basic"]).await;
    // No files are an empty configuration, and no mistake.
    fs::remove_file(config.join("basic.yaml")).unwrap();
    running.domains(&[]).await;
    assert_eq!(running.status.borrow().failures, 0);
    running.stop().await;
}

#[tokio::test]
async fn the_layout_of_the_reference_takes_any_file_and_names_it_with_dots() {
    let folder = TempDir::new().unwrap();
    let config = folder.path().join("ratelimit/config");
    fs::create_dir_all(config.join("sub")).unwrap();
    fs::write(config.join("good"), rules("good", 1)).unwrap();
    fs::write(config.join("sub/stray.txt"), "stray\n").unwrap();
    fs::write(config.join(".hidden"), "hidden\n").unwrap();
    let mut running = of_layout(folder.path(), false);
    let status = running.failures(1).await;
    let problems = status.last_error.unwrap().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].starts_with("sub.stray.txt:1:1: error: "), "{problems:?}");
    fs::remove_file(config.join("sub/stray.txt")).unwrap();
    running.domains(&["good"]).await;
    running.stop().await;
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_left_out_with_a_warning() {
    let folder = TempDir::new().unwrap();
    let config = folder.path().join("ratelimit/config");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("good.yaml"), rules("good", 1)).unwrap();
    symlink("nowhere.yaml", config.join("dangling.yaml")).unwrap();
    let mut running = of_layout(folder.path(), false);
    let status = running.loads(1).await;
    assert_eq!(status.files, ["good.yaml"]);
    assert_eq!(status.warnings.len(), 1);
    assert!(status.warnings[0].starts_with("dangling.yaml: left out, because it cannot be read"));
    fs::write(config.join("nowhere.yaml"), rules("found", 1)).unwrap();
    running.failures(1).await;
    let error = running.status.borrow().last_error.clone().unwrap();
    assert!(error.problems[0].contains("domain 'found' is defined twice"), "{error:?}");
    running.stop().await;
}

#[tokio::test]
async fn a_missing_root_is_told_and_found_later() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("data");
    let mut running = of_layout(&root, false);
    let problems = running.failures(1).await.last_error.unwrap().problems;
    assert!(problems[0].contains("the folder cannot be read"), "{problems:?}");
    fs::create_dir_all(root.join("ratelimit/config")).unwrap();
    fs::write(root.join("ratelimit/config/a.yaml"), rules("late", 1)).unwrap();
    running.domains(&["late"]).await;
    running.stop().await;
}

#[tokio::test]
async fn with_no_rules_at_all_the_example_is_served_until_there_are_some() {
    let folder = TempDir::new().unwrap();
    let mut running = Running::start(source(RuleOrigin::Default).in_folder(folder.path().to_path_buf()));
    let status = running.loads(1).await;
    assert_eq!((status.origin.as_str(), status.domains), ("built-in example", 1));
    assert_eq!(status.warnings, [""; 0]);
    running.domains(&["example"]).await;
    // Made as a whole beside, so that it is never seen empty.
    fs::create_dir(folder.path().join("next")).unwrap();
    fs::write(folder.path().join("next/shop.yaml"), rules("shop", 1)).unwrap();
    fs::rename(folder.path().join("next"), folder.path().join("rules")).unwrap();
    running.domains(&["shop"]).await;
    assert_eq!(running.status.borrow().origin, "rules");
    running.stop().await;
}

#[tokio::test]
async fn asked_to_reload_it_loads_what_has_not_changed() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("shop.yaml"), rules("shop", 1)).unwrap();
    let mut running = of_paths(&[folder.path().to_path_buf()]);
    running.loads(1).await;
    running.reload.notify_one();
    running.loads(2).await;
    running.stop().await;
}

/// Opening a FIFO that nobody writes to would end reloading.
#[tokio::test]
async fn a_fifo_in_a_runtime_folder_is_left_out_and_said() {
    let root = TempDir::new().unwrap();
    let config = root.path().join("ratelimit/config");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("shop.yaml"), rules("shop", 1)).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(config.join("pipe.yaml")).status().unwrap().success());
    let mut running = of_layout(root.path(), false);
    let status = running.loads(1).await;
    assert_eq!(status.warnings, ["pipe.yaml: left out, because it is not an ordinary file"]);
}
