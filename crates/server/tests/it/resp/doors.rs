//! Who gets in: the password, and TLS.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::clients::redis_cli;
use super::support::{Caller, address, command, setup};
use crate::support::certs::{Authority, Certificate};
use crate::support::{Server, Setup, secure};

#[tokio::test]
async fn without_the_password_nothing_is_decided() {
    let server = setup().env("TOLLGATE_RESP_PASSWORD", "open sesame").start().await;
    let mut caller = Caller::new(&server).await;
    let no = "-NOAUTH Authentication required; send AUTH password\r\n";
    caller.expect(&command("CL.THROTTLE k 1 1 1"), no).await;
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled; the user is 'default'\r\n";
    caller.expect(&command("AUTH sesame"), wrong).await;
    caller.expect(b"*2\r\n$4\r\nAUTH\r\n$11\r\nopen sesame\r\n", "+OK\r\n").await;
    caller.expect(&command("CL.THROTTLE k 1 1 1"), "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:1\r\n").await;
}

#[tokio::test]
async fn who_guesses_is_cut_off() {
    let server = setup().env("TOLLGATE_RESP_PASSWORD", "sesame").start().await;
    let mut caller = Caller::new(&server).await;
    caller.send(&command("AUTH x").repeat(100)).await;
    assert_eq!(caller.last_words().await.matches("-WRONGPASS").count(), 8);
}

/// A server with a certificate by `authority`, which demands certificates of
/// callers by the same if `demands`.
async fn tls_server(authority: &Authority, demands: bool) -> Server {
    let setup = setup();
    let own = authority.sign("localhost");
    let file = |setup: &Setup, name: &str, text: &str| {
        std::fs::write(setup.path(name), text).unwrap();
        setup.path(name).to_str().unwrap().to_owned()
    };
    let (cert, key) = (file(&setup, "cert.pem", &own.cert), file(&setup, "key.pem", &own.key));
    let ca = file(&setup, "ca.pem", &authority.pem());
    let setup = setup.env("TOLLGATE_RESP_TLS_CERT", cert).env("TOLLGATE_RESP_TLS_KEY", key);
    let setup = if demands { setup.env("TOLLGATE_RESP_TLS_CLIENT_CA", ca) } else { setup };
    setup.start().await
}

/// What a caller that trusts `authority` and perhaps shows a certificate hears, if anything.
async fn ping_over_tls(
    server: &Server,
    authority: &Authority,
    shows: Option<Certificate>,
) -> Option<Vec<u8>> {
    let mut stream = secure::connect(address(server), authority, shows).await?;
    stream.write_all(b"PING\r\n").await.ok()?;
    let mut heard = vec![0; 7];
    stream.read_exact(&mut heard).await.ok()?;
    Some(heard)
}

#[tokio::test]
async fn tls_is_spoken_and_nothing_else() {
    let authority = Authority::new();
    let server = tls_server(&authority, false).await;
    assert_eq!(ping_over_tls(&server, &authority, None).await.as_deref(), Some(&b"+PONG\r\n"[..]));
    let mut plain = Caller::new(&server).await;
    plain.send(&command("PING")).await;
    let mut heard = Vec::new();
    // An alert of TLS, or nothing, and then the end.
    drop(plain.0.read_to_end(&mut heard).await);
    assert!(!heard.starts_with(b"+PONG"), "{heard:?}");
}

#[tokio::test]
async fn where_certificates_are_demanded_nobody_gets_in_without() {
    let authority = Authority::new();
    let server = tls_server(&authority, true).await;
    assert_eq!(ping_over_tls(&server, &authority, None).await, None);
    assert_eq!(ping_over_tls(&server, &authority, Some(Authority::new().sign("me"))).await, None);
    let heard = ping_over_tls(&server, &authority, Some(authority.sign("me"))).await;
    assert_eq!(heard.as_deref(), Some(&b"+PONG\r\n"[..]));
}

#[tokio::test]
async fn redis_cli_speaks_tls_and_shows_a_password() {
    let authority = Authority::new();
    let server = tls_server(&authority, false).await;
    let ca = server.path("ca.pem").to_str().unwrap().to_owned();
    let arguments = ["--tls", "--cacert", &ca, "--sni", "localhost", "PING"];
    assert_eq!(redis_cli(&server, &arguments).await, "PONG\n");
    let server = setup().env("TOLLGATE_RESP_PASSWORD", "sesame").start().await;
    assert_eq!(redis_cli(&server, &["--no-auth-warning", "-a", "sesame", "PING"]).await, "PONG\n");
}
