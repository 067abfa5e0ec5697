//! No code. Its dependencies make cargo compile shared crates once for tests and programs instead of twice; the manifest explains why.
//!
//! After `cargo test --workspace --all-features --no-run`, cargo builds all programs in 7 s on two cores, because it only links them.
