//! What becomes of history when something breaks: it goes on, or says why not.

use std::os::unix::fs::PermissionsExt as _;

use super::{RULES, asked, v1};
use crate::support::http::get;
use crate::support::{Setup, eventually};

const BODY: &str = r#"{"domain":"shop","descriptors":[{"path":"/a"}]}"#;

#[tokio::test]
async fn a_stop_writes_what_was_counted_and_the_next_server_goes_on_from_there() {
    let folder = tempfile::tempdir().unwrap();
    let start = async || Setup::new(&[("rules.yaml", RULES)]).data(folder.path()).start().await;
    for expected in [2, 4] {
        let server = start().await;
        v1(&server, "/v1/check", BODY, 2).await;
        server.stop().unwrap();
        let server = start().await;
        let summary = asked(&server, "/v1/history/summary").await;
        assert_eq!(summary["total"], expected, "nothing was asked before the stop");
        server.stop().unwrap();
    }
}

#[tokio::test]
async fn a_folder_in_use_costs_history_alone_and_is_taken_once_it_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let first = Setup::new(&[("rules.yaml", RULES)]).data(folder.path()).start().await;
    let second = Setup::new(&[("rules.yaml", RULES)]).data(folder.path()).start().await;
    assert_eq!(v1(&second, "/v1/check", BODY, 3).await, [200, 200, 200]);
    let status = asked(&second, "/v1/history/status").await;
    assert_eq!(status["open"], false);
    let error = status["error"].as_str().unwrap();
    assert!(error.contains("is in use by process") && error.contains("--data DIR"), "{error}");
    let (code, body) = get(second.addresses.admin, "/v1/history/summary").await;
    assert!(code == 503 && body.contains("is in use by process"), "{code} {body}");
    let (_, page) = get(second.addresses.admin, "/metrics").await;
    assert!(page.contains("tollgate_history_open 0\n"), "{page}");
    first.stop().unwrap();
    eventually("the second server has the folder", || async {
        asked(&second, "/v1/history/status").await["open"] == true
    })
    .await;
    assert_eq!(asked(&second, "/v1/history/summary").await["total"], 3, "nothing was lost meanwhile");
}

#[tokio::test]
async fn a_file_that_is_no_history_is_said_to_be_none_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("history.redb");
    std::fs::write(&file, "not a history".repeat(1_000)).unwrap();
    let server = Setup::new(&[("rules.yaml", RULES)]).data(folder.path()).start().await;
    assert_eq!(v1(&server, "/v1/check", BODY, 1).await, [200]);
    let status = asked(&server, "/v1/history/status").await;
    assert_eq!(status["open"], false);
    let error = status["error"].as_str().unwrap();
    assert!(error.contains("move it away"), "{error}");
    assert!(std::fs::read(&file).unwrap().starts_with(b"not a history"));
    std::fs::remove_file(&file).unwrap();
    eventually("a new history is begun", || async {
        asked(&server, "/v1/history/status").await["open"] == true
    })
    .await;
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("a file");
    std::fs::write(&data, "in the way").unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o444)).unwrap();
    let server = Setup::new(&[("rules.yaml", RULES)]).data(&data).start().await;
    let status = asked(&server, "/v1/history/status").await;
    let error = status["error"].as_str().unwrap();
    assert!(error.contains("cannot make the folder") && error.contains("a file"), "{error}");
}

#[tokio::test]
async fn history_can_be_turned_off() {
    let server = Setup::new(&[("rules.yaml", RULES)]).env("TOLLGATE_HISTORY", "false").start().await;
    assert_eq!(v1(&server, "/v1/check", BODY, 1).await, [200]);
    for path in ["summary", "series", "top", "labels", "status"] {
        let (code, body) = get(server.addresses.admin, &format!("/v1/history/{path}")).await;
        assert_eq!(code, 503, "{path}");
        assert!(body.contains("history is turned off") && body.contains("TOLLGATE_HISTORY=true"), "{body}");
    }
    assert!(!server.path("data").join("history.redb").exists());
}
