//! The control plane's programs, built once per set of versions.

use std::{
    path::{Path, PathBuf},
    thread,
};

use anyhow::Context;
use flotilla_go_programs::{Event, Files, Programs, Reaper, control_plane, kubernetes_version};
use tokio::sync::{mpsc, oneshot};

use super::progress::{Progress, Step};

/// Built programs of one version of the control plane.
#[derive(Clone, Debug)]
pub struct Binaries {
    programs: Programs,
    /// Programs of another Kubernetes version, instead of those with the same name.
    others: Option<Box<Programs>>,
    version: String,
}

impl Binaries {
    /// Replaces kube-apiserver and kube-controller-manager by those of another Kubernetes version, and builds missing ones.
    ///
    /// # Errors
    /// As [`build`].
    pub(super) async fn with_version(mut self, others: Box<Programs>, progress: &dyn Progress) -> anyhow::Result<Self> {
        build_missing(&others, progress).await?;
        self.version = others.module.version_of("k8s.io/kubernetes")?;
        self.others = Some(others);
        Ok(self)
    }

    fn versioned(&self, name: &str) -> PathBuf {
        self.others.as_deref().unwrap_or(&self.programs).path(name)
    }

    /// Kubernetes version of the API server, such as `v1.37.2`.
    pub fn kubernetes_version(&self) -> &str {
        &self.version
    }

    /// Path of etcd.
    pub fn etcd(&self) -> PathBuf {
        self.programs.path("etcd")
    }

    /// Path of kube-apiserver.
    pub fn kube_apiserver(&self) -> PathBuf {
        self.versioned("kube-apiserver")
    }

    /// Path of kube-controller-manager.
    pub fn kube_controller_manager(&self) -> PathBuf {
        self.versioned("kube-controller-manager")
    }

    /// Path of kube-scheduler.
    pub fn kube_scheduler(&self) -> PathBuf {
        self.programs.path("kube-scheduler")
    }

    /// Path of kubectl.
    pub fn kubectl(&self) -> PathBuf {
        self.programs.path("kubectl")
    }

    /// Path of kwok.
    pub fn kwok(&self) -> PathBuf {
        self.programs.path("kwok")
    }

    /// kwok's stage files, which set nodes to Ready and pods to Running.
    pub fn kwok_stages(&self) -> Vec<PathBuf> {
        self.programs.files.as_ref().map(Files::places).unwrap_or_default()
    }
}

/// Builds the missing programs in `<cache_dir>/control-plane`. The first build takes about ten minutes on two cores. It needs Go (the
/// version in `go.mod`) and a module proxy, but no C compiler. Concurrent processes build once. Dropping the future stops the build;
/// finished programs are kept.
///
/// # Errors
/// Go is missing or too old, the modules cannot be downloaded, or a build fails.
pub async fn build(cache_dir: &Path, progress: &dyn Progress) -> anyhow::Result<Binaries> {
    let programs = control_plane(cache_dir)?;
    build_missing(&programs, progress).await?;
    Ok(Binaries { programs, others: None, version: kubernetes_version()? })
}

/// Builds on a separate thread because `go` blocks, and reports progress here.
pub(super) async fn build_missing(programs: &Programs, progress: &dyn Progress) -> anyhow::Result<()> {
    if programs.complete() {
        return Ok(());
    }
    // Dropping this future ends `go`, and with it the thread.
    let reaper = Reaper::start()?;
    let (group, programs) = (reaper.group(), programs.clone());
    let (tell, mut told) = mpsc::unbounded_channel();
    let (end, ended) = oneshot::channel();
    thread::spawn(move || {
        // The receiver is dropped when the build is cancelled.
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
