//! curl before it, nginx and hyper behind it: what arrives is what was sent.

use super::hyper_upstream::HyperUpstream;
use super::nginx::Nginx;
use super::{GatewayProcess, output, pattern};

const PROTOCOLS: [&str; 2] = ["--http1.1", "--http2-prior-knowledge"];

/// Around the sizes at which buffers, windows and chunks end, and some at random.
fn sizes() -> Vec<usize> {
    let seed = std::process::id();
    let random = (1..=6).map(|n: u32| {
        usize::try_from(seed.wrapping_mul(2_654_435_761).rotate_left(n * 5) % 300_000).unwrap()
    });
    [0, 1, 8_191, 16_384, 65_535, 65_536, 65_537, 131_073, 1_048_577].into_iter().chain(random).collect()
}

#[test]
fn files_of_nginx_arrive_byte_for_byte() {
    let nginx = Nginx::start();
    let gateway = GatewayProcess::start(nginx.address);
    for size in sizes() {
        nginx.put(&size.to_string(), &pattern(size, size));
    }
    for protocol in PROTOCOLS {
        for size in sizes() {
            let got = output("curl", &[protocol, "-sS", "--fail", &gateway.url(&format!("/{size}"))]);
            assert!(got == pattern(size, size), "{protocol} {size}");
        }
    }
}

#[test]
fn what_is_sent_comes_back_byte_for_byte_with_a_length_and_without() {
    let upstream = HyperUpstream::start();
    let gateway = GatewayProcess::start(upstream.address);
    let folder = tempfile::tempdir().unwrap();
    let (sent, got) = (folder.path().join("sent"), folder.path().join("got"));
    let (sent, got) = (sent.to_str().unwrap(), got.to_str().unwrap());
    let (whole, url) = (format!("@{sent}"), gateway.url("/echo"));
    for size in sizes() {
        std::fs::write(sent, pattern(size, size)).unwrap();
        for protocol in PROTOCOLS {
            let curl = |body: &[&str]| {
                // Nobody waits for a 100 here.
                output(
                    "curl",
                    &[&[protocol, "-sS", "--fail", "-H", "Expect:", "-o", got, &url], body].concat(),
                );
                assert!(std::fs::read(got).unwrap() == pattern(size, size), "{protocol} {size} {body:?}");
            };
            curl(&["--data-binary", &whole]);
            // curl sends no last chunk where there is no first one.
            if size > 0 {
                curl(&["-X", "POST", "-H", "Transfer-Encoding: chunked", "-T", sent]);
            }
        }
    }
}
