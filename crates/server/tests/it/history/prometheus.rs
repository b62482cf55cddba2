//! Tools of Prometheus read a history: its own `promtool`, and requests as Grafana sends them.

use std::process::Command;

use serde_json::{Value, json};

use super::{RULES, asked, see, v1};
use crate::support::Server;
use crate::support::http::{get, request};

/// A server that has counted a little in this minute.
async fn counted() -> Server {
    let server = Server::with(RULES).await;
    for (path, times) in [("/cart", 3), ("/list", 1)] {
        let body = format!(r#"{{"domain":"shop","descriptors":[{{"path":"{path}"}}]}}"#);
        v1(&server, "/v1/check", &body, times).await;
    }
    v1(&server, "/v1/check", r#"{"domain":"shop","descriptors":[{"user_id":"u"}]}"#, 3).await;
    see(&server, 7).await;
    server
}

/// What `promtool query …` prints.
async fn promtool(server: &Server, args: &[&str]) -> String {
    let url = format!("http://{}/prometheus", server.addresses.admin);
    let (kind, rest) = args.split_first().unwrap();
    let mut command = Command::new("promtool");
    command.args(["query", kind]);
    // `series` takes its selectors as flags, which come before the address.
    let (flags, values): (Vec<&str>, Vec<&str>) = rest.iter().partition(|arg| arg.starts_with("--"));
    command.args(flags).arg(url).args(values);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    let output = output.expect("promtool is there; run: cargo xtask setup");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn promtool_reads_what_was_counted() {
    let server = counted().await;
    let counter = promtool(&server, &["instant", "tollgate_requests_total{route=\"/cart\"}"]).await;
    let labels = "tollgate_requests_total{outcome=\"allowed\", route=\"/cart\"} => 3 @[";
    assert!(counter.starts_with(labels), "{counter}");
    let denied = promtool(&server, &["instant", "sum(tollgate_decisions_total{outcome=\"denied\"})"]).await;
    assert!(denied.starts_with("{} => 1 @["), "{denied}");
    let all = promtool(&server, &["instant", "sum(tollgate_requests_total)"]).await;
    assert!(all.starts_with("{} => 7 @["), "{all}");
    let top = promtool(&server, &["instant", "topk(1, sum by (route) (tollgate_requests_total))"]).await;
    assert!(top.starts_with("{route=\"(other)\"} => 3 @[") || top.contains("/cart"), "{top}");
    let range = promtool(&server, &["range", "--step=60s", "sum(tollgate_requests_total)"]).await;
    assert!(range.contains("{} =>\n7 @["), "{range}");
    let series = promtool(&server, &["series", "--match=tollgate_decisions_total{rule=\"per_path\"}"]).await;
    assert!(series.contains("rule=\"per_path\""), "{series}");
    let names = promtool(&server, &["labels", "route"]).await;
    assert_eq!(names, "/cart\n/list\n");
}

/// The answer to a form, as Grafana sends it.
async fn form(server: &Server, path: &str, body: &str) -> (u16, Value) {
    let head = format!(
        "POST /prometheus/api/v1/{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let (status, answer) = request(server.addresses.admin, &(head + body)).await;
    (status, serde_json::from_str(&answer).unwrap())
}

#[tokio::test]
async fn what_grafana_asks_when_a_data_source_is_added_is_answered() {
    let server = counted().await;
    let (status, answer) = form(&server, "query", "query=1%2B1&time=1800000000.5").await;
    assert_eq!((status, &answer["status"]), (200, &json!("success")));
    assert_eq!(answer["data"], json!({"resultType": "scalar", "result": [1_800_000_000.5, "2"]}));
    let build = asked(&server, "/prometheus/api/v1/status/buildinfo").await;
    assert_eq!(build["data"]["application"], "Tollgate");
    let metadata = asked(&server, "/prometheus/api/v1/metadata").await;
    assert_eq!(metadata["data"]["tollgate_requests_total"][0]["type"], "counter");
    let one = asked(&server, "/prometheus/api/v1/metadata?metric=tollgate_decisions_total").await;
    assert_eq!(one["data"].as_object().unwrap().len(), 1);
    let matched =
        "/prometheus/api/v1/label/rule/values?match[]=tollgate_key_decisions_total{key=%22user_id=u%22}";
    assert_eq!(asked(&server, matched).await["data"], json!(["per_user"]));
    let (status, about) = get(server.addresses.admin, "/prometheus").await;
    assert!(status == 200 && about.contains("Prometheus data source"), "{about}");
    let names = asked(&server, "/prometheus/api/v1/label/__name__/values").await;
    assert_eq!(names["data"].as_array().unwrap().len(), 3);
    let labels = asked(&server, "/prometheus/api/v1/labels").await;
    assert_eq!(labels["data"], json!(["__name__", "domain", "key", "outcome", "route", "rule"]));
    let counted = asked(&server, "/v1/history/series?by=route&from=now-1h").await;
    let points = counted["series"][0]["points"].as_array().unwrap();
    let end = points.last().unwrap()[0].as_u64().unwrap() + 60;
    let body = format!(
        "query=sum by (outcome) (increase(tollgate_requests_total[5m]))&start={}&end={end}&step=60",
        end - 60
    );
    let (status, answer) = form(&server, "query_range", &body.replace(' ', "+")).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["data"]["resultType"], "matrix");
    let result = answer["data"]["result"].as_array().unwrap();
    let last = |outcome: &str| {
        let one = result.iter().find(|one| one["metric"]["outcome"] == outcome).unwrap();
        one["values"].as_array().unwrap().last().unwrap().clone()
    };
    assert_eq!((last("allowed"), last("denied")), (json!([end_of(end), "6"]), json!([end_of(end), "1"])));
}

/// A time as answers have it.
fn end_of(second: u64) -> f64 {
    f64::from(u32::try_from(second).unwrap())
}

#[tokio::test]
async fn mistakes_are_told_as_prometheus_tells_them() {
    let server = Server::with(RULES).await;
    let cases = [
        ("query", "", 400, "bad_data", "there is no query"),
        ("query", "query=sum(", 400, "bad_data", "at character 5: "),
        ("query", "query=1&time=noon", 400, "bad_data", "time is no time"),
        (
            "query",
            "query=deriv(x[5m])",
            422,
            "execution",
            "the function deriv is not supported; there are rate,",
        ),
        ("query_range", "query=1&start=1&end=2", 400, "bad_data", "step is no length"),
        ("query_range", "query=1&start=2&end=1&step=1", 400, "bad_data", "the end is before the start"),
        ("query_range", "query=1&start=0&end=100000&step=1", 400, "bad_data", "more than 11000 points"),
        ("series", "", 400, "bad_data", "there is no match[]"),
    ];
    for (path, body, code, kind, words) in cases {
        let (status, answer) = form(&server, path, body).await;
        assert_eq!((status, &answer["errorType"]), (code, &json!(kind)), "{body}: {answer}");
        assert!(answer["error"].as_str().unwrap().contains(words), "{body}: {answer}");
    }
    let off =
        crate::support::Setup::new(&[("rules.yaml", RULES)]).env("TOLLGATE_HISTORY", "false").start().await;
    assert_eq!(get(off.addresses.admin, "/prometheus/api/v1/query?query=sum(a)").await.0, 503);
}
