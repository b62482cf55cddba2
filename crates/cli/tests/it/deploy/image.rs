//! The Dockerfile.

use std::collections::HashMap;
use std::path::Path;

use tollgate_settings::{Flags, GrpcAddress, Settings};

use super::file;

/// The arguments of every instruction of that name.
fn instructions(text: &str, name: &str) -> Vec<String> {
    let own = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    own.map(str::to_owned).collect()
}

#[test]
fn the_image_has_the_binary_under_both_names_and_shows_the_ports_of_callers() {
    let text = file("Dockerfile");
    let binary = Path::new(env!("CARGO_BIN_EXE_tollgate")).file_name().unwrap().to_str().unwrap();
    let build = instructions(&text, "RUN").concat();
    assert!(build.contains(&format!("-p {}", env!("CARGO_PKG_NAME"))), "{build}");
    assert!(build.contains("--locked"), "the image is what was tested: {build}");
    assert!(build.contains(&format!("cp target/release/{binary} /out/bin/")), "{build}");
    assert!(build.contains(&format!("ln -s {binary} /out/bin/ratelimit")), "{build}");
    assert_eq!(instructions(&text, "COPY").last().map(String::as_str), Some("--from=build /out/bin/ /bin/"));
    assert_eq!(instructions(&text, "ENTRYPOINT"), [format!("[\"/bin/{binary}\"]")]);
    assert_eq!(instructions(&text, "CMD"), ["[\"serve\"]"]);

    let (settings, _) = Settings::resolve(&Flags::default(), &HashMap::new(), None).unwrap();
    let GrpcAddress::Tcp(grpc) = settings.grpc.address else { panic!("gRPC listens on a port") };
    assert_eq!(instructions(&text, "EXPOSE"), [format!("{} {}", settings.http.port, grpc.port)]);
}

#[test]
fn the_image_is_built_by_a_compiler_that_is_new_enough_and_named() {
    let text = file("Dockerfile");
    let image = instructions(&text, "FROM").remove(0);
    let version = |text: &str| -> Vec<u32> { text.split('.').map(|part| part.parse().unwrap()).collect() };
    let compiler = image.strip_prefix("rust:").and_then(|rest| rest.split('-').next()).unwrap();
    assert!(version(compiler) >= version(env!("CARGO_PKG_RUST_VERSION")), "{image}");
}
