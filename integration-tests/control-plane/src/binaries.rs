//! The control plane's programs: built once for each set of versions, then found again.
//!
//! Knows: which programs there are and where each is put. Must not know: how `go` is run, or how the programs are
//! started.

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Context;
use tokio::time::sleep;

use super::go::Go;
use super::module::{CONTROL_PLANE, linker_flags};
use super::progress::{Progress, Step};
use super::reaper::Reaper;

/// Between two looks at the lock that another process holds.
const LOCK_PAUSE: Duration = Duration::from_millis(200);

/// A program of the control plane: its file name, its Go package, and what its first build takes on two cores.
struct Program {
    name: &'static str,
    package: &'static str,
    first_build: Duration,
}

impl Program {
    const fn new(name: &'static str, package: &'static str, first_build_seconds: u64) -> Self {
        Self { name, package, first_build: Duration::from_secs(first_build_seconds) }
    }
}

/// In build order: kube-apiserver compiles most of what the others share.
const PROGRAMS: [Program; 6] = [
    Program::new("etcd", "go.etcd.io/etcd/server/v3", 60),
    Program::new("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", 420),
    Program::new("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", 120),
    Program::new("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", 30),
    Program::new("kubectl", "k8s.io/kubernetes/cmd/kubectl", 60),
    Program::new("kwok", "sigs.k8s.io/kwok/cmd/kwok", 60),
];

/// What kwok does to nodes and pods, as paths in its module. kwok has none built in and refuses to run without.
const KWOK_STAGES: [&str; 5] = [
    "kustomize/stage/node/fast/node-initialize.yaml",
    "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "kustomize/stage/pod/fast/pod-ready.yaml",
    "kustomize/stage/pod/fast/pod-complete.yaml",
    "kustomize/stage/pod/fast/pod-delete.yaml",
];

/// The built programs of one version of the control plane.
#[derive(Clone, Debug)]
pub struct Binaries {
    folder: PathBuf,
    version: String,
}

impl Binaries {
    /// The Kubernetes version they were built from, such as `v1.37.1`.
    pub fn kubernetes_version(&self) -> &str {
        &self.version
    }

    /// The path of etcd.
    pub fn etcd(&self) -> PathBuf {
        self.path("etcd")
    }

    /// The path of kube-apiserver.
    pub fn kube_apiserver(&self) -> PathBuf {
        self.path("kube-apiserver")
    }

    /// The path of kube-controller-manager.
    pub fn kube_controller_manager(&self) -> PathBuf {
        self.path("kube-controller-manager")
    }

    /// The path of kube-scheduler.
    pub fn kube_scheduler(&self) -> PathBuf {
        self.path("kube-scheduler")
    }

    /// The path of kubectl.
    pub fn kubectl(&self) -> PathBuf {
        self.path("kubectl")
    }

    /// The path of kwok.
    pub fn kwok(&self) -> PathBuf {
        self.path("kwok")
    }

    /// The stage files that tell kwok how nodes become Ready and pods become Running.
    pub fn kwok_stages(&self) -> Vec<PathBuf> {
        KWOK_STAGES.iter().map(|stage| self.folder.join("kwok").join(file_name(stage))).collect()
    }

    /// What is needed only while something is built.
    fn temporary(&self) -> PathBuf {
        self.folder.join("building")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    fn missing(&self) -> Vec<&'static Program> {
        PROGRAMS.iter().filter(|program| !self.path(program.name).is_file()).collect()
    }

    fn complete(&self) -> bool {
        self.missing().is_empty() && self.kwok_stages().iter().all(|stage| stage.is_file())
    }
}

/// Builds the programs that are missing in `<cache_dir>/control-plane` and returns where all of them are.
///
/// The first build takes about ten minutes on two cores. It needs Go (the version in `go.mod`), its module proxy, and no C
/// compiler. Processes that call this at the same time build once. Whoever drops the future ends the build; what was
/// finished is kept.
///
/// # Errors
/// Where Go is missing or too old, where the modules cannot be downloaded, and where a build fails; with what to do.
pub async fn build(cache_dir: &Path, progress: &dyn Progress) -> anyhow::Result<Binaries> {
    let version = CONTROL_PLANE.version_of("k8s.io/kubernetes")?;
    let flags = linker_flags(&version)?;
    let folder = cache_dir.join("control-plane").join(CONTROL_PLANE.key(&version, &flags));
    let binaries = Binaries { folder, version };
    if binaries.complete() {
        return Ok(binaries);
    }
    fs::create_dir_all(binaries.folder.join("bin"))
        .with_context(|| format!("cannot create {}; is the cache folder writable?", binaries.folder.display()))?;
    let _lock = lock(&binaries.folder.join("build.lock"), progress).await?;
    if !binaries.complete() {
        make(&binaries, &flags, progress).await?;
    }
    Ok(binaries)
}

async fn make(binaries: &Binaries, flags: &str, progress: &dyn Progress) -> anyhow::Result<()> {
    let source = binaries.folder.join("module");
    CONTROL_PLANE.write(&source)?;
    // Dropped after the compilers that write there.
    let temporary = Temporary::create(binaries.temporary())?;
    let reaper = Reaper::start()?;
    let wanted = CONTROL_PLANE.go_version()?;
    let go = Go { module: &source, temporary: &temporary.0, reaper: &reaper, wanted: &wanted };
    go.check().await?;
    let missing = binaries.missing();
    for (index, program) in missing.iter().enumerate() {
        let Program { name, package, first_build } = **program;
        progress.tell(Step::Building { program: name, index: index + 1, count: missing.len(), first_build });
        let began = Instant::now();
        // Written aside and renamed, so that an interrupted build never leaves something that looks finished.
        let partial = temporary.0.join(name);
        let downloading = |module: &str| progress.tell(Step::Downloading { module });
        go.build(package, flags, &partial, downloading).await.with_context(|| format!("cannot build {name}"))?;
        fs::rename(&partial, binaries.path(name))
            .with_context(|| format!("cannot move the built {name} into place"))?;
        progress.tell(Step::Built { program: name, took: began.elapsed() });
    }
    copy_kwok_stages(&go, &temporary.0, binaries).await
}

async fn copy_kwok_stages(go: &Go<'_>, temporary: &Path, binaries: &Binaries) -> anyhow::Result<()> {
    let source = go.folder_of("sigs.k8s.io/kwok").await.context("cannot find kwok's stages")?;
    fs::create_dir_all(binaries.folder.join("kwok")).context("cannot create the folder of kwok's stages")?;
    for (stage, path) in KWOK_STAGES.iter().zip(binaries.kwok_stages()) {
        // Read and written rather than copied: files of the module cache are read-only, and a copy would be too.
        let original = source.join(stage);
        let text = fs::read_to_string(&original).with_context(|| {
            format!("cannot read {}; has kwok moved its stages? then change KWOK_STAGES", original.display())
        })?;
        let partial = temporary.join(file_name(stage));
        fs::write(&partial, text)
            .and_then(|()| fs::rename(&partial, &path))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A folder that goes with the build, also where the build is given up; one that was left by a killed build goes first.
pub(super) struct Temporary(pub(super) PathBuf);

impl Temporary {
    pub(super) fn create(path: PathBuf) -> anyhow::Result<Self> {
        _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // What cannot be removed is removed by the next build.
        _ = fs::remove_dir_all(&self.0);
    }
}

/// Takes the lock that makes processes build once. The operating system lets go of it if we die.
pub(super) async fn lock(path: &Path, progress: &dyn Progress) -> anyhow::Result<File> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    let mut told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {
                if !told {
                    progress.tell(Step::WaitingForBuild);
                    told = true;
                }
                sleep(LOCK_PAUSE).await;
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
