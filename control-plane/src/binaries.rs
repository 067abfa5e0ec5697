//! The control plane's programs: built once for each set of versions, then found again.
//!
//! Knows: what each program is asked for by. Must not know: how it is built or started.

use std::{
    path::{Path, PathBuf},
    thread,
};

use anyhow::Context;
use flotilla_go_programs::{Event, Files, Programs, Reaper, control_plane, kubernetes_version};
use tokio::sync::{mpsc, oneshot};

use super::progress::{Progress, Step};

/// The built programs of one version of the control plane.
#[derive(Clone, Debug)]
pub struct Binaries {
    programs: Programs,
    version: String,
}

impl Binaries {
    /// The Kubernetes version they were built from, such as `v1.37.1`.
    pub fn kubernetes_version(&self) -> &str {
        &self.version
    }

    /// The path of etcd.
    pub fn etcd(&self) -> PathBuf {
        self.programs.path("etcd")
    }

    /// The path of kube-apiserver.
    pub fn kube_apiserver(&self) -> PathBuf {
        self.programs.path("kube-apiserver")
    }

    /// The path of kube-controller-manager.
    pub fn kube_controller_manager(&self) -> PathBuf {
        self.programs.path("kube-controller-manager")
    }

    /// The path of kube-scheduler.
    pub fn kube_scheduler(&self) -> PathBuf {
        self.programs.path("kube-scheduler")
    }

    /// The path of kubectl.
    pub fn kubectl(&self) -> PathBuf {
        self.programs.path("kubectl")
    }

    /// The path of kwok.
    pub fn kwok(&self) -> PathBuf {
        self.programs.path("kwok")
    }

    /// The stage files that tell kwok how nodes become Ready and pods become Running.
    pub fn kwok_stages(&self) -> Vec<PathBuf> {
        self.programs.files.as_ref().map(Files::places).unwrap_or_default()
    }
}

/// Builds the programs that are missing in `<cache_dir>/control-plane` and returns where all of them are.
///
/// The first build takes about ten minutes on two cores. It needs Go (the version in `go.mod`), its module proxy, and no C
/// compiler. Processes that call this at the same time build once. Dropping the future ends the build; what was
/// finished is kept.
///
/// # Errors
/// Where Go is missing or too old, where the modules cannot be downloaded, and where a build fails; with what to do.
pub async fn build(cache_dir: &Path, progress: &dyn Progress) -> anyhow::Result<Binaries> {
    let programs = control_plane(cache_dir)?;
    build_missing(&programs, progress).await?;
    Ok(Binaries { programs, version: kubernetes_version()? })
}

/// Builds on a thread of its own, as that waits for `go`, and tells of it here.
pub(super) async fn build_missing(programs: &Programs, progress: &dyn Progress) -> anyhow::Result<()> {
    if programs.complete() {
        return Ok(());
    }
    // Dropped with this future: that ends `go`, with which the thread ends too.
    let reaper = Reaper::start()?;
    let (group, programs) = (reaper.group(), programs.clone());
    let (tell, mut told) = mpsc::unbounded_channel();
    let (end, ended) = oneshot::channel();
    thread::spawn(move || {
        // The receiver is dropped where the build was given up.
        let outcome = programs.build_in(group, &mut |event| _ = tell.send(event));
        drop(tell);
        _ = end.send(outcome);
    });
    while let Some(event) = told.recv().await {
        progress.tell(match &event {
            Event::Waiting => Step::WaitingForBuild,
            &Event::Building { program, index, count, first_build } => {
                Step::Building { program, index, count, first_build }
            }
            Event::Downloading(module) => Step::Downloading { module },
            &Event::Built { program, took } => Step::Built { program, took },
        });
    }
    ended.await.context("the thread that builds has panicked; its message is above")?
}
