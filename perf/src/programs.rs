//! The programs that are measured and those that measure: found, or built.
//!
//! Knows: how each is built. Must not know: how any is started.

use std::{
    env,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, ensure};
use tokio::{process::Command, task::spawn_blocking};

/// Where the programs are.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// The client that makes the load, which is also the scheduler that decides nothing.
    pub(crate) load: PathBuf,
    pub(crate) coordinator: PathBuf,
    pub(crate) worker: PathBuf,
}

impl Programs {
    /// Builds the client, and Flotilla's programs where no folder has them.
    pub(crate) async fn find(folder: Option<&Path>) -> anyhow::Result<Self> {
        eprintln!("perf: building the client, the first time in two minutes");
        let load = spawn_blocking(flotilla_test_programs::load).await.context("the build was given up")??;
        let folder = match folder {
            Some(folder) => folder.to_owned(),
            None => build().await?,
        };
        let [coordinator, worker] = ["flotilla-coordinator", "flotilla-worker"].map(|name| folder.join(name));
        for program in [&coordinator, &worker] {
            ensure!(program.is_file(), "there is no {}; build it, or leave out --programs", program.display());
        }
        Ok(Self { load, coordinator, worker })
    }
}

/// Builds Flotilla's programs as the image holds them, and gives their folder.
async fn build() -> anyhow::Result<PathBuf> {
    eprintln!("perf: building Flotilla's programs as its image holds them, the first time in five minutes");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.parent().context("this crate has a parent folder")?;
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["run", "--quiet", "--all-features", "--bin", "flotilla-image", "--", "--programs"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await
        .context("cargo cannot be started")?;
    ensure!(output.status.success(), "Flotilla's programs do not build ({}); its messages are above", output.status);
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim_end()))
}
