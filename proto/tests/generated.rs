//! `proto/src/generated` matches `flotilla/v1/worker.proto`.
//!
//! It is checked in because building the compiler of `.proto` files takes longer than building this crate. `FLOTILLA_RECORD=1` writes the
//! files.

#![allow(missing_docs)]

use std::{env, fs, path::Path};

use prost::Message as _;

const FILE: &str = "flotilla/v1/worker.proto";

#[test]
fn the_generated_code_is_what_the_proto_file_comes_to() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let descriptors = protox::compile([FILE], [top]).expect("the .proto file compiles");
    let fresh = tempfile::tempdir().expect("a folder");
    fs::write(fresh.path().join("flotilla.v1.bin"), descriptors.encode_to_vec()).expect("written");
    let generator = tonic_prost_build::configure().codec_path("crate::codec::BoundedCodec").out_dir(fresh.path());
    generator.compile_fds(descriptors).expect("the code is generated");
    for name in ["flotilla.v1.rs", "flotilla.v1.bin"] {
        let (is, kept) = (fresh.path().join(name), top.join("src/generated").join(name));
        let is = fs::read(is).expect("generated");
        if env::var("FLOTILLA_RECORD").is_ok_and(|value| value == "1") {
            fs::write(&kept, &is).expect("the code can be written");
        }
        assert!(
            fs::read(&kept).unwrap_or_default() == is,
            "proto/src/generated/{name} is not what {FILE} comes to; write it anew with `FLOTILLA_RECORD=1 cargo test -p \
             flotilla-proto --test generated`"
        );
    }
}
