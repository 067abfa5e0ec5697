//! Builds Flotilla's container image as an OCI archive without a daemon.

mod archive;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result};
use clap::Parser;

use flotilla_image::{layer, materials, program, program::Architecture};

use crate::archive::Image;

/// Build the image as an OCI archive for podman, skopeo, ctr and kind.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask image")]
struct Args {
    /// Target architectures: amd64, arm64, or both separated by a comma
    #[arg(long, value_name = "ARCH", value_delimiter = ',', default_value = Architecture::host().name())]
    arch: Vec<Architecture>,
    /// Name of the image
    #[arg(long, value_name = "NAME:TAG", default_value = concat!("ghcr.io/flotilla-scheduler/flotilla:", env!("CARGO_PKG_VERSION")))]
    name: String,
    /// Output file
    #[arg(long, short, value_name = "FILE", default_value = "target/image/flotilla.tar")]
    output: PathBuf,
    /// Cargo profile of the programs; dev builds faster, but the programs are slow
    #[arg(long, value_name = "PROFILE", default_value = "dist")]
    profile: String,
    /// Build an image of this statically linked program instead of Flotilla's, such as a pause image for a node without access to a
    /// registry
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    only: Option<PathBuf>,
    /// Only build the programs, and print their folder
    #[arg(long, conflicts_with_all = ["only", "output"])]
    programs: bool,
    /// Only build the simulation of `cargo xtask sim`, and print its file
    #[arg(long, conflicts_with_all = ["only", "output", "programs"])]
    simulation: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("image: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    if args.programs || args.simulation {
        let build = if args.programs { program::build } else { program::build_simulation };
        for &architecture in &args.arch {
            println!("{}", build(architecture, &args.profile)?.display());
        }
        return Ok(());
    }
    let images: Vec<Image> = args.arch.iter().map(|&architecture| image(args, architecture)).collect::<Result<_>>()?;
    archive::write(&args.output, &args.name, &images).with_context(|| format!("writing {}", args.output.display()))?;
    let bytes = args.output.metadata().map_or(0, |file| file.len());
    eprintln!("image: {} is {}, {} MiB", args.name, args.output.display(), bytes >> 20);
    Ok(())
}

fn image(args: &Args, architecture: Architecture) -> Result<Image> {
    if let Some(file) = &args.only {
        let program = program::read(file)?;
        let entrypoint = format!("/{}", program.name);
        return Ok(Image { architecture, layer: layer::of(&[program], None)?, entrypoint, labels: &[] });
    }
    eprintln!("image: building for {}", architecture.name());
    let programs = program::read_all(&program::build(architecture, &args.profile)?)?;
    let materials = materials::of(architecture)?;
    let layer = layer::of(&programs, Some(&materials))?;
    Ok(Image { architecture, layer, entrypoint: "/flotilla".to_owned(), labels: archive::LABELS })
}
