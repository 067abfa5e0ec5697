//! Builds the statically linked programs of the image.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

const PROGRAMS: [(&str, &str); 3] = [
    ("flotilla", "flotilla"),
    ("flotilla-coordinator", "flotilla-coordinator"),
    ("flotilla-worker", "flotilla-worker"),
];

/// A target architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Architecture {
    /// x86-64.
    Amd64,
    /// 64-bit Arm.
    Arm64,
}

impl Architecture {
    /// The host architecture.
    #[must_use]
    pub const fn host() -> Self {
        if cfg!(target_arch = "aarch64") { Self::Arm64 } else { Self::Amd64 }
    }

    /// The OCI name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// The Rust target, with musl.
    #[must_use]
    pub const fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-musl",
            Self::Arm64 => "aarch64-unknown-linux-musl",
        }
    }

    /// Candidate C compilers in order of preference: ring and mimalloc contain C code.
    fn compilers(self) -> Vec<&'static str> {
        let mut names = match self {
            Self::Amd64 => vec!["x86_64-linux-musl-gcc", "musl-gcc"],
            Self::Arm64 => vec!["aarch64-linux-musl-gcc", "aarch64-linux-gnu-gcc"],
        };
        if cfg!(target_os = "linux") && env::consts::ARCH == self.machine() {
            names.push("cc");
        }
        names
    }

    /// The name in Rust's standard library.
    const fn machine(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }
}

/// Keeps the headers of another C library from using functions that musl does not have: checked variants, and those of C23.
const C_FLAGS: &str = "-U_FORTIFY_SOURCE -std=gnu11";

/// A program of the image.
#[derive(Debug)]
pub struct Program {
    /// File name at the top level of the image.
    pub name: String,
    /// The executable.
    pub bytes: Vec<u8>,
}

/// Features that only images have: the commands for a cluster, and WebAssembly plugins.
const FEATURES: &str = "flotilla/cluster,flotilla/wasm,flotilla-coordinator/wasm,flotilla-worker/wasm";

/// Builds all programs and returns their folder.
///
/// # Errors
/// A compiler is missing or fails.
pub fn build(architecture: Architecture, profile: &str) -> Result<PathBuf> {
    let packages = PROGRAMS.iter().flat_map(|(package, _)| ["--package", package]);
    compile(architecture, profile, ["--features", FEATURES].into_iter().chain(packages))
}

/// Builds the simulation, which shares most dependencies with the programs, and returns its file.
///
/// # Errors
/// A compiler is missing or fails.
pub fn build_simulation(architecture: Architecture, profile: &str) -> Result<PathBuf> {
    Ok(compile(architecture, profile, ["--package", "flotilla-simulation"])?.join("flotilla-simulation"))
}

fn compile<'a>(
    architecture: Architecture,
    profile: &str,
    selected: impl IntoIterator<Item = &'a str>,
) -> Result<PathBuf> {
    let target = architecture.target();
    let compilers = architecture.compilers();
    let compiler = compilers.iter().find(|name| is_there(name)).with_context(|| {
        format!(
            "no C compiler for {target}: none of {} is on the PATH (Debian and Ubuntu: apt install gcc, or \
             gcc-aarch64-linux-gnu for arm64)",
            compilers.join(", ")
        )
    })?;
    let variable = target.replace('-', "_");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--profile", profile, "--target", target, "--bins"]).args(selected);
    // In every profile: debug information would be most of the image.
    cargo.args(["--config", &format!("profile.{profile}.debug=false")]);
    // Symbols would be a third of the image. The profile's `strip` does not apply to packages with their own profile settings.
    cargo.args(["--config", &format!("target.{target}.rustflags=[\"-Cstrip=symbols\"]")]);
    let status = cargo
        .env(format!("CC_{variable}"), compiler)
        .env(format!("CFLAGS_{variable}"), C_FLAGS)
        // rust-lld is part of the toolchain, so cross-compilation needs no other linker.
        .env(format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase()), "rust-lld")
        .current_dir(root())
        .status()
        .context("cargo cannot be started")?;
    if !status.success() {
        bail!("building for {target} failed ({status}); `rustup target add {target}` installs its standard library");
    }
    // Only the folder of the profile `dev` has another name.
    let top = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(root().join(top).join(target).join(if profile == "dev" { "debug" } else { profile }))
}

/// Reads all built programs of the image from this folder.
///
/// # Errors
/// One cannot be read.
pub fn read_all(folder: &Path) -> Result<Vec<Program>> {
    PROGRAMS.iter().map(|(_, name)| read(&folder.join(name))).collect()
}

/// Reads a built program. It keeps its file name in the image.
///
/// # Errors
/// It cannot be read.
pub fn read(file: &Path) -> Result<Program> {
    let name = file.file_name().with_context(|| format!("{} is no file", file.display()))?;
    let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    Ok(Program { name: name.to_string_lossy().into_owned(), bytes })
}

fn is_there(program: &str) -> bool {
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

/// The top of the checkout.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}
