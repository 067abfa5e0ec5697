//! `coordinator/encoding/src/generated` matches `kubernetes/objects.proto`.
//!
//! It is checked in because building the compiler of `.proto` files takes longer than building the generated code. `FLOTILLA_RECORD=1`
//! writes the file.

#![allow(missing_docs)]

use std::{env, fs, path::Path};

const FILE: &str = "kubernetes/objects.proto";
const CODE: &str = "kubernetes.rs";

#[test]
fn the_generated_code_is_what_the_proto_file_comes_to() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let descriptors = protox::compile([FILE], [top]).expect("the .proto file compiles");
    let fresh = tempfile::tempdir().expect("a folder");
    let mut generator = prost_build::Config::new();
    // Objects in lists and envelopes are slices of the received bytes.
    generator.bytes(["."]).btree_map(["."]).out_dir(fresh.path());
    generator.compile_fds(descriptors).expect("the code is generated");
    let (is, kept) = (fresh.path().join(CODE), top.join("src/generated").join(CODE));
    let is = fs::read(is).expect("generated");
    if env::var("FLOTILLA_RECORD").is_ok_and(|value| value == "1") {
        fs::write(&kept, &is).expect("the code can be written");
    }
    assert!(
        fs::read(&kept).unwrap_or_default() == is,
        "coordinator/encoding/src/generated/{CODE} is not what {FILE} comes to; write it anew with `FLOTILLA_RECORD=1 cargo test \
         -p flotilla-encoding --test generated`"
    );
}
