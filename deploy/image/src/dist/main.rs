//! Creates the files of a release: archives, checksums, bills of materials, the krew manifest and the release notes.

mod archive;
mod contents;
mod krew;
mod notes;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use flotilla_image::{
    materials,
    program::{self, Architecture, Program},
};
use sha2::{Digest as _, Sha256};

use crate::contents::Contents;

const VERSION: &str = env!("CARGO_PKG_VERSION");

const EXAMPLES: &str = "\
Examples:
  # For this machine
  cargo xtask dist

  # For both architectures; arm64 needs aarch64-linux-gnu-gcc, or a compiler for musl
  cargo xtask dist -- --arch amd64,arm64

  # With the programs of another build
  cargo build --release --workspace --all-features --bins
  cargo xtask dist -- --programs target/release

  # See what a release holds, and check it as its users do
  tar tzf target/release-files/flotilla-*-linux-amd64.tar.gz
  (cd target/release-files && sha256sum -c SHA256SUMS)

Files:
  flotilla-VERSION-linux-ARCH.tar.gz    programs, the plugin of kubectl, completions, manual pages, licence
  flotilla-VERSION-linux-ARCH.cdx.json  every crate in the programs, as CycloneDX
  flotilla.yaml                         the manifest for krew, by which kubectl installs its plugin
  NOTES.md                              what CHANGELOG.md says of this version
  SHA256SUMS                            checksums of all others";

/// Create the files of a release without publishing them.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask dist --", bin_name = "cargo xtask dist --", after_help = EXAMPLES)]
struct Args {
    /// Target architectures: amd64, arm64, or both separated by a comma
    #[arg(long, value_name = "ARCH", value_delimiter = ',', default_value = Architecture::host().name())]
    arch: Vec<Architecture>,
    /// Output folder; its previous content is replaced
    #[arg(long, short, value_name = "FOLDER", default_value = "target/release-files")]
    output: PathBuf,
    /// Cargo profile of the programs; dev builds faster, but the programs are slow
    #[arg(long, value_name = "PROFILE", default_value = "dist")]
    profile: String,
    /// Pack the programs of this folder unchanged instead of building static ones; they must run on this machine
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["arch", "profile"])]
    programs: Option<PathBuf>,
    /// URL under which the files will be published, for the krew manifest
    #[arg(long, value_name = "URL", default_value = concat!("https://github.com/flotilla-scheduler/flotilla/releases/download/v", env!("CARGO_PKG_VERSION")))]
    url: String,
}

impl Args {
    /// The folder with the programs for `architecture`. Without `--programs` it builds them.
    fn programs(&self, architecture: Architecture) -> Result<PathBuf> {
        self.programs.clone().map_or_else(|| program::build(architecture, &self.profile), Ok)
    }

    /// The output folder must not contain `--programs`, because its content is deleted.
    fn check(&self) -> Result<()> {
        let (Some(programs), Ok(output)) = (&self.programs, self.output.canonicalize()) else { return Ok(()) };
        let is_inside = programs.canonicalize().is_ok_and(|programs| programs.starts_with(output));
        ensure!(
            !is_inside,
            "the content of {} is replaced, and --programs {} is in it; choose another --output",
            self.output.display(),
            programs.display()
        );
        Ok(())
    }
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dist: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let changelog = fs::read_to_string(program::root().join("CHANGELOG.md")).context("reading CHANGELOG.md")?;
    let notes = notes::of(&changelog, VERSION)?;
    args.check()?;
    // The program generates its completions and manual pages, so a host build is needed.
    let host = args.programs(Architecture::host())?;
    let documents = contents::documents(&host.join("flotilla"))?;
    let read = |&architecture| Ok((architecture, program::read_all(&args.programs(architecture)?)?));
    let all: Vec<(Architecture, Vec<Program>)> = args.arch.iter().map(read).collect::<Result<_>>()?;
    let mut files = Files { folder: empty(&args.output)?, sums: Vec::new() };
    let mut platforms = Vec::new();
    for (architecture, programs) in all {
        eprintln!("dist: packing for {}", architecture.name());
        let materials = materials::of(architecture)?;
        let stem = format!("flotilla-{VERSION}-linux-{}", architecture.name());
        let contents = Contents { programs: &programs, documents: &documents, materials: &materials };
        let name = format!("{stem}.tar.gz");
        let sha256 = files.write(&name, &archive::of(&stem, &contents)?)?;
        platforms.push(krew::Platform {
            architecture,
            uri: format!("{}/{name}", args.url),
            sha256,
            folder: stem.clone(),
        });
        files.write(&format!("{stem}.cdx.json"), &materials)?;
    }
    files.write("flotilla.yaml", krew::manifest(VERSION, &platforms)?.as_bytes())?;
    files.write("NOTES.md", notes.as_bytes())?;
    let sums = files.sums();
    files.write("SHA256SUMS", sums.as_bytes())?;
    eprintln!("dist: {} holds the files of version {VERSION}", args.output.display());
    Ok(())
}

fn empty(folder: &Path) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder.to_path_buf())
}

#[derive(Debug)]
struct Files {
    folder: PathBuf,
    sums: Vec<(String, String)>,
}

impl Files {
    /// Writes a file and returns its SHA-256 in hexadecimal.
    fn write(&mut self, name: &str, bytes: &[u8]) -> Result<String> {
        let path = self.folder.join(name);
        fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
        let sha256: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        eprintln!("dist: {}, {} KiB", path.display(), bytes.len().div_ceil(1024));
        self.sums.push((sha256.clone(), name.to_owned()));
        Ok(sha256)
    }

    fn sums(&self) -> String {
        self.sums.iter().map(|(sha256, name)| format!("{sha256}  {name}\n")).collect()
    }
}
