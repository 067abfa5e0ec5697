//! Finds or builds the schedulers and the client.

use std::path::{Path, PathBuf, absolute};

use anyhow::{Context as _, ensure};
use tokio::task::spawn_blocking;

#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// The client, which is also the scheduler `ceiling`.
    pub(crate) load: PathBuf,
    pub(crate) coordinator: PathBuf,
    pub(crate) worker: PathBuf,
}

impl Programs {
    /// Builds the client, and Flotilla's programs unless `folder` contains them.
    pub(crate) async fn find(folder: Option<&Path>) -> anyhow::Result<Self> {
        eprintln!("perf: building the client, the first time in two minutes");
        let load = spawn_blocking(flotilla_test_programs::load).await.context("the build was given up")??;
        let folder = match folder {
            // scheduler_perf starts the programs in another folder.
            Some(folder) => absolute(folder).context("cannot find the folder of --programs")?,
            None => {
                eprintln!("perf: building Flotilla's programs as in its image, the first time in ten minutes");
                spawn_blocking(flotilla_test_programs::image).await.context("the build was given up")??
            }
        };
        let [coordinator, worker] = ["flotilla-coordinator", "flotilla-worker"].map(|name| folder.join(name));
        for program in [&coordinator, &worker] {
            ensure!(program.is_file(), "there is no {}; build it, or leave out --programs", program.display());
        }
        Ok(Self { load, coordinator, worker })
    }
}
