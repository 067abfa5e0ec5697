//! Lets the linker of a release fold functions with the same code, which makes the binary a tenth smaller.

use std::{env, path::Path, process::Command};

/// The target with rustc's own LLD as the default linker.
const TARGET: &str = "x86_64-unknown-linux-gnu";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER");
    if is("TARGET", TARGET) && is("PROFILE", "release") && is_default_linker() {
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
    }
}

fn is(variable: &str, value: &str) -> bool {
    env::var(variable).is_ok_and(|found| found == value)
}

/// Other linkers reject the option: those that a user configured, and those of Linux distributions that package rustc without LLD.
fn is_default_linker() -> bool {
    let Ok(output) = Command::new(env::var_os("RUSTC").unwrap_or_default()).args(["--print", "sysroot"]).output()
    else {
        return false;
    };
    let sysroot = String::from_utf8_lossy(&output.stdout).into_owned();
    let lld = Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).join("bin/gcc-ld/ld.lld");
    env::var_os("RUSTC_LINKER").is_none() && is("CARGO_ENCODED_RUSTFLAGS", "") && lld.exists()
}
