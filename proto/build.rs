//! Generates the Rust of the contract from its `.proto` file.
//!
//! Knows: where the file is. Must not know: what is in it. Needs no `protoc`.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;

const FILE: &str = "flotilla/v1/worker.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={FILE}");
    let descriptors = protox::compile([FILE], ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("flotilla.v1.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
