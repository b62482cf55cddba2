//! Real clients, without special settings: redis-cli, redis-rs, redis-py, ioredis, node-redis,
//! go-redis.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy knows the tests here, but not the functions that they share"
)]

use std::path::{Path, PathBuf};

use redis::AsyncConnectionConfig;
use tokio::process::Command;

use super::support::{address, setup};
use crate::support::Server;

/// Where `cargo xtask setup` puts redis-py, from the root.
const PYTHON: &str = "target/redis-py/bin/python";

/// Where it puts ioredis and node-redis.
const NODE_CLIENTS: &str = "target/node-clients";

/// Where it makes a Go module that may use go-redis.
const GO_CLIENT: &str = "target/go-client";

/// A folder of those.
fn folder(from_root: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(from_root)
}

/// What a program prints; it must end well.
async fn printed(program: &Path, arguments: &[&str], input: &str) -> String {
    let mut command = Command::new(program);
    command.args(arguments);
    printed_by(command, input).await
}

async fn printed_by(mut command: Command, input: &str) -> String {
    use tokio::io::AsyncWriteExt as _;
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}; run: cargo xtask setup"));
    child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {error}");
    assert_eq!(error, "");
    String::from_utf8(output.stdout).unwrap()
}

/// What redis-cli prints.
pub(crate) async fn redis_cli(server: &Server, arguments: &[&str]) -> String {
    let port = address(server).port().to_string();
    let all = [&["-p", &port][..], arguments].concat();
    printed(Path::new("redis-cli"), &all, "").await
}

#[tokio::test]
async fn redis_cli_asks_for_all_three() {
    let server = setup().start().await;
    let told = redis_cli(&server, &["CL.THROTTLE", "user123", "15", "30", "60"]).await;
    assert_eq!(told, "0\n16\n15\n-1\n2\n");
    assert_eq!(redis_cli(&server, &["THROTTLE", "u", "10", "10", "3600"]).await, "1\n10\n9\n360\n0\n");
    let check = ["TOLLGATE.CHECK", "shop", "user_id", "42"];
    assert_eq!(redis_cli(&server, &check).await, "allow\n2\n1\n-1\n86400000\nper_user\n");
    let map = redis_cli(&server, &[&["-3", "--json"][..], &check].concat()).await;
    let map: serde_json::Value = serde_json::from_str(&map).unwrap();
    assert_eq!((&map["verdict"], &map["remaining"]), (&"allow".into(), &0.into()));
    assert_eq!((&map["retry_after_ms"], &map["rule"]), (&serde_json::Value::Null, &"per_user".into()));
}

#[tokio::test]
async fn redis_cli_pipes_a_thousand_commands() {
    let server = setup().start().await;
    let port = address(&server).port().to_string();
    let commands = "CL.THROTTLE k 1000 1 60\n".repeat(1_000);
    let told = printed(Path::new("redis-cli"), &["-p", &port, "--pipe"], &commands).await;
    // Piping ends with an ECHO whose answer it waits for.
    assert!(told.ends_with("errors: 0, replies: 1000\n"), "{told}");
}

#[tokio::test]
async fn redis_rs_asks_over_resp2_and_resp3() {
    let server = setup().env("TOLLGATE_RESP_PASSWORD", "sesame").start().await;
    for version in ["", "?protocol=resp3"] {
        let client = redis::Client::open(format!("redis://:sesame@{}/{version}", address(&server))).unwrap();
        let config = AsyncConnectionConfig::new();
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        let mut throttle = redis::cmd("CL.THROTTLE");
        throttle.arg(format!("user{version}")).arg(15).arg(30).arg(60);
        let answer: (i64, i64, i64, i64, i64) = throttle.query_async(&mut connection).await.unwrap();
        assert_eq!(answer, (0, 16, 15, -1, 2));
        let mut pipeline = redis::pipe();
        for _ in 0..100 {
            pipeline.cmd("THROTTLE").arg(format!("p{version}")).arg(50).arg(1).arg(86_400);
        }
        let answers: Vec<(i64, i64, i64, i64, i64)> = pipeline.query_async(&mut connection).await.unwrap();
        assert_eq!(answers.iter().filter(|answer| answer.0 == 1).count(), 50);
        let refused: redis::RedisResult<()> = redis::cmd("GET").arg("x").query_async(&mut connection).await;
        assert!(refused.unwrap_err().to_string().contains("unknown command 'GET'"));
    }
}

/// What redis-py says of itself is not asked about: only that it works.
const SCRIPT: &str = r#"
import redis, sys
for protocol in (2, 3):
    r = redis.Redis(port=int(sys.argv[1]), protocol=protocol, decode_responses=True, client_name="me")
    assert r.ping()
    assert r.execute_command("CL.THROTTLE", f"user{protocol}", 15, 30, 60) == [0, 16, 15, -1, 2]
    assert r.client_getname() == "me", r.client_getname()
    assert r.info()["loading"] == 0
    assert r.command_count() == 13
    check = r.execute_command("TOLLGATE.CHECK", "shop", "user_id", f"py{protocol}")
    verdict = check[0] if protocol == 2 else check["verdict"]
    assert verdict == "allow", check
    with r.pipeline(transaction=False) as pipe:
        for _ in range(100):
            pipe.execute_command("THROTTLE", f"p{protocol}", 50, 1, 86400)
        answers = pipe.execute()
    assert sum(answer[0] for answer in answers) == 50, answers
    try:
        r.get("x")
        raise SystemExit("GET was answered")
    except redis.ResponseError as error:
        assert "unknown command 'GET'" in str(error)
    r.close()
print("fine")
"#;

#[tokio::test]
async fn redis_py_asks_over_resp2_and_resp3() {
    let server = setup().start().await;
    let python = folder(PYTHON);
    let port = address(&server).port().to_string();
    assert_eq!(printed(&python, &["-", &port], SCRIPT).await, "fine\n");
}

/// The same by the two clients of Node.js.
const NODE_SCRIPT: &str = r#"
const assert = require("assert");
const [folder, port] = process.argv.slice(2);
const { Redis } = require(`${folder}/node_modules/ioredis`);
const { createClient } = require(`${folder}/node_modules/redis`);

async function ioredis() {
  const r = new Redis({ port, connectionName: "me", lazyConnect: true, retryStrategy: null });
  await r.connect();
  assert.strictEqual(await r.ping(), "PONG");
  assert.strictEqual(await r.client("GETNAME"), "me");
  assert.deepStrictEqual(await r.call("CL.THROTTLE", "io", 15, 30, 60), [0, 16, 15, -1, 2]);
  assert.strictEqual((await r.call("TOLLGATE.CHECK", "shop", "user_id", "io"))[0], "allow");
  const pipe = r.pipeline();
  for (let i = 0; i < 100; i++) pipe.call("THROTTLE", "io-p", 50, 1, 86400);
  const answers = await pipe.exec();
  assert.strictEqual(answers.filter(([error, answer]) => !error && answer[0] === 1).length, 50);
  await assert.rejects(r.get("x"), /unknown command 'GET'/i);
  await r.quit();
}

async function nodeRedis(RESP) {
  const r = createClient({ socket: { port, host: "127.0.0.1", reconnectStrategy: false }, RESP });
  r.on("error", (error) => { throw error; });
  await r.connect();
  assert.strictEqual(await r.ping(), "PONG");
  const send = (...words) => r.sendCommand(words.map(String));
  assert.deepStrictEqual(await send("CL.THROTTLE", `node${RESP}`, 15, 30, 60), [0, 16, 15, -1, 2]);
  const check = await send("TOLLGATE.CHECK", "shop", "user_id", `node${RESP}`);
  assert.strictEqual(RESP === 2 ? check[0] : check.verdict, "allow");
  const many = Array.from({ length: 100 }, () => send("THROTTLE", `node-p${RESP}`, 50, 1, 86400));
  assert.strictEqual((await Promise.all(many)).filter((answer) => answer[0] === 1).length, 50);
  await assert.rejects(r.get("x"), /unknown command 'GET'/i);
  r.destroy();
}

ioredis().then(() => nodeRedis(2)).then(() => nodeRedis(3)).then(
  () => console.log("fine"),
  (error) => { console.error(error); process.exit(1); },
);
"#;

#[tokio::test]
async fn ioredis_and_node_redis_ask_over_resp2_and_resp3() {
    let server = setup().start().await;
    let folder = folder(NODE_CLIENTS);
    let folder = folder.to_str().unwrap();
    let port = address(&server).port().to_string();
    assert_eq!(printed(Path::new("node"), &["-", folder, &port], NODE_SCRIPT).await, "fine\n");
}

/// The same by go-redis.
const GO_SCRIPT: &str = r#"package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
)

func must(is bool, about ...any) {
	if !is {
		fmt.Fprintln(os.Stderr, about...)
		os.Exit(1)
	}
}

func ask(protocol int) {
	ctx := context.Background()
	r := redis.NewClient(&redis.Options{Addr: os.Args[1], Protocol: protocol, ClientName: "me"})
	defer r.Close()
	must(r.Ping(ctx).Err() == nil, "PING", r.Ping(ctx).Err())
	must(r.ClientGetName(ctx).Val() == "me", "CLIENT GETNAME", r.ClientGetName(ctx))
	told, err := r.Do(ctx, "CL.THROTTLE", fmt.Sprint("go", protocol), 15, 30, 60).Slice()
	must(err == nil && fmt.Sprint(told) == "[0 16 15 -1 2]", "CL.THROTTLE", told, err)
	check, err := r.Do(ctx, "TOLLGATE.CHECK", "shop", "user_id", fmt.Sprint("go", protocol)).Result()
	must(err == nil && strings.Contains(fmt.Sprint(check), "allow"), "TOLLGATE.CHECK", check, err)
	_, isMap := check.(map[any]any)
	must(isMap == (protocol == 3), "a map in RESP3 alone", check)
	answers, err := r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := 0; i < 100; i++ {
			pipe.Do(ctx, "THROTTLE", fmt.Sprint("go-p", protocol), 50, 1, 86400)
		}
		return nil
	})
	allowed := 0
	for _, answer := range answers {
		if fmt.Sprint(answer.(*redis.Cmd).Val().([]any)[0]) == "1" {
			allowed++
		}
	}
	must(err == nil && allowed == 50, "a pipeline", allowed, err)
	err = r.Get(ctx, "x").Err()
	must(err != nil && strings.Contains(err.Error(), "unknown command 'get'"), "GET", err)
}

func main() {
	ask(2)
	ask(3)
	fmt.Println("fine")
}
"#;

#[tokio::test]
async fn go_redis_asks_over_resp2_and_resp3() {
    let server = setup().start().await;
    let folder = folder(GO_CLIENT);
    std::fs::write(folder.join("main.go"), GO_SCRIPT)
        .unwrap_or_else(|error| panic!("{}: {error}; run: cargo xtask setup", folder.display()));
    let mut go = Command::new("go");
    go.args(["run", ".", &address(&server).to_string()]).current_dir(&folder);
    assert_eq!(printed_by(go, "").await, "fine\n");
}
