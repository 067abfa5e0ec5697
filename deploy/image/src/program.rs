//! The programs in the image: statically linked, so that nothing else has to be in it.
//!
//! Knows: which programs, for which machines, and what building them needs. Must not know: what becomes of them.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

/// What the image holds.
const PROGRAMS: [(&str, &str); 3] = [
    ("flotilla-cli", "flotilla"),
    ("flotilla-coordinator", "flotilla-coordinator"),
    ("flotilla-worker", "flotilla-worker"),
];

/// A kind of machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Architecture {
    Amd64,
    Arm64,
}

impl Architecture {
    /// What registries call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// What Rust calls it, with musl for its C library.
    pub(crate) const fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-musl",
            Self::Arm64 => "aarch64-unknown-linux-musl",
        }
    }

    /// The C compilers that would do, the first that is there is taken: ring is partly C.
    const fn compilers(self) -> &'static [&'static str] {
        match self {
            Self::Amd64 => &["x86_64-linux-musl-gcc", "musl-gcc"],
            Self::Arm64 => &["aarch64-linux-musl-gcc", "aarch64-linux-gnu-gcc"],
        }
    }
}

/// A program of the image.
#[derive(Debug)]
pub(crate) struct Program {
    /// Its name; it lies at the top of the image.
    pub(crate) name: &'static str,
    /// The executable.
    pub(crate) bytes: Vec<u8>,
}

/// Builds all programs.
///
/// # Errors
/// Where a compiler is missing, or fails.
pub(crate) fn build(architecture: Architecture) -> Result<Vec<Program>> {
    let target = architecture.target();
    let compiler = architecture.compilers().iter().find(|name| is_there(name)).with_context(|| {
        format!(
            "no C compiler for {target}: none of {} is on the PATH (Debian and Ubuntu: apt install musl-tools for amd64, \
             gcc-aarch64-linux-gnu for arm64)",
            architecture.compilers().join(", ")
        )
    })?;
    let variable = target.replace('-', "_");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--target", target, "--bins"]);
    for (package, _) in PROGRAMS {
        cargo.args(["--package", package]);
    }
    let status = cargo
        .env(format!("CC_{variable}"), compiler)
        // rust-lld is part of the toolchain; with it, building for another machine needs no other linker.
        .env(format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase()), "rust-lld")
        .current_dir(root())
        .status()
        .context("cargo cannot be started")?;
    if !status.success() {
        bail!("building for {target} failed ({status}); `rustup target add {target}` installs its standard library");
    }
    PROGRAMS.iter().map(|(_, name)| read(&root().join("target").join(target).join("release"), name)).collect()
}

fn read(folder: &Path, name: &'static str) -> Result<Program> {
    let file = folder.join(name);
    let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    Ok(Program { name, bytes })
}

fn is_there(program: &str) -> bool {
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

/// The top of the checkout.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}
