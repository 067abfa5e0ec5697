//! Builds the container image of Flotilla and writes it as an OCI archive; no daemon takes part.
//!
//! Knows: the steps, and what a person may choose. Must not know: how an archive is laid out, or what a bill of materials
//! looks like.

mod archive;
mod layer;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result};
use clap::Parser;

use flotilla_image::{materials, program, program::Architecture};

use crate::archive::Image;

/// Builds the image and writes it as an OCI archive, which podman, skopeo, ctr and kind read.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask image")]
struct Args {
    /// For which machines: amd64, arm64, or both by a comma
    #[arg(long, value_name = "ARCH", value_delimiter = ',', default_value = Architecture::host().name())]
    arch: Vec<Architecture>,
    /// The name that the image has in a runtime
    #[arg(long, value_name = "NAME:TAG", default_value = concat!("ghcr.io/flotilla-scheduler/flotilla:", env!("CARGO_PKG_VERSION")))]
    name: String,
    /// Where to write it
    #[arg(long, short, value_name = "FILE", default_value = "target/image/flotilla.tar")]
    output: PathBuf,
    /// The profile of cargo that the programs are built with; dev is sooner there, and slow
    #[arg(long, value_name = "PROFILE", default_value = "dist")]
    profile: String,
    /// Makes an image of this one program instead of Flotilla's. It must be linked statically; a node that reaches no
    /// registry gets its pause image so
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    only: Option<PathBuf>,
    /// Only build the programs, and print the folder that they are in
    #[arg(long, conflicts_with_all = ["only", "output"])]
    programs: bool,
    /// Only build the simulation that `cargo xtask sim` runs, and print its file
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

/// The image for one kind of machine.
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
