//! Images of the node: Flotilla's, and pause.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};

/// Name of Flotilla's image in the test's manifests.
pub const FLOTILLA_IMAGE: &str = "flotilla.test/flotilla:test";

/// Image of pod sandboxes and of idle containers.
pub const PAUSE_IMAGE: &str = "flotilla.test/pause:test";

#[derive(Debug)]
pub(super) struct Images {
    pub(super) flotilla: PathBuf,
    pub(super) pause: PathBuf,
}

/// `target/real-node` of this checkout, for archives and programs.
pub(super) fn folder() -> anyhow::Result<PathBuf> {
    let folder = repository()?.join("target/real-node");
    fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}; is the target folder writable?", folder.display()))?;
    Ok(folder)
}

/// Builds both images. `FLOTILLA_IMAGE` names an existing archive instead; its image must be called [`FLOTILLA_IMAGE`].
pub(super) fn build() -> anyhow::Result<Images> {
    let folder = folder()?;
    let program = folder.join("pause");
    compile_pause(&program)?;
    let pause = folder.join("pause.tar");
    archive(&["--name", PAUSE_IMAGE, "--only", &program.to_string_lossy()], &pause)?;
    if let Some(built) = env::var_os("FLOTILLA_IMAGE") {
        return Ok(Images { flotilla: PathBuf::from(built), pause });
    }
    let flotilla = folder.join("flotilla.tar");
    archive(&["--name", FLOTILLA_IMAGE], &flotilla)?;
    Ok(Images { flotilla, pause })
}

fn archive(arguments: &[&str], output: &Path) -> anyhow::Result<()> {
    let status = flotilla_test_programs::cargo()
        .args(["run", "--quiet", "--all-features", "--bin", "flotilla-image", "--"])
        .args(arguments)
        .arg("--output")
        .arg(output)
        .status()
        .context("cargo cannot be started")?;
    ensure!(status.success(), "the image {} was not built; the messages are above", output.display());
    Ok(())
}

/// With rustc alone: cargo would compile all dependencies of the tests for musl too.
fn compile_pause(to: &Path) -> anyhow::Result<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/pause.rs");
    let target = format!("--target={}-unknown-linux-musl", env::consts::ARCH);
    let status = Command::new("rustc")
        .args(["--edition=2024", "-Cstrip=symbols", "-Clinker=rust-lld", &target, "-o"])
        .arg(to)
        .arg(source)
        .current_dir(repository()?)
        .status()
        .context("rustc cannot be started")?;
    ensure!(status.success(), "rustc failed; its messages are above");
    Ok(())
}

fn repository() -> anyhow::Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("this crate is a folder of the repository")
}
