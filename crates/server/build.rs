//! Compiles the descriptions of Envoy's rate limit service and of our own calls that reflection serves.
//!
//! protox is a compiler in Rust, so that no `protoc` has to be installed.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler
        .include_imports(true)
        .open_files(["envoy/service/ratelimit/v3/rls.proto", "tollgate/v1/limiter.proto"])?;
    let out = std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    std::fs::write(Path::new(&out).join("rls.binpb"), compiler.encode_file_descriptor_set())?;
    println!("cargo:rerun-if-changed=proto");
    Ok(())
}
