//! The control plane's programs: built once for each set of versions, then found again.
//!
//! Knows: the Go module beside this crate, and how it is built. Must not know: how the programs are started.
//!
//! `control-plane/go.mod` is the only place that names versions: the cache folder is named after its content, so a
//! changed version is a fresh build and an unchanged one costs a few `stat` calls.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail, ensure};

/// A program of the control plane: its file name, its Go package, and what its first build takes on two cores.
struct Program {
    name: &'static str,
    package: &'static str,
    first_build: &'static str,
}

/// In build order: kube-apiserver compiles most of what the others share.
const PROGRAMS: [Program; 6] = [
    Program { name: "etcd", package: "go.etcd.io/etcd/server/v3", first_build: "1 minute" },
    Program { name: "kube-apiserver", package: "k8s.io/kubernetes/cmd/kube-apiserver", first_build: "7 minutes" },
    Program {
        name: "kube-controller-manager",
        package: "k8s.io/kubernetes/cmd/kube-controller-manager",
        first_build: "2 minutes",
    },
    Program { name: "kube-scheduler", package: "k8s.io/kubernetes/cmd/kube-scheduler", first_build: "half a minute" },
    Program { name: "kubectl", package: "k8s.io/kubernetes/cmd/kubectl", first_build: "1 minute" },
    Program { name: "kwok", package: "sigs.k8s.io/kwok/cmd/kwok", first_build: "1 minute" },
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

/// Builds the programs that are missing and returns where all of them are.
///
/// The first build takes about ten minutes on two cores; progress goes to standard error. It needs Go (the version in
/// `control-plane/go.mod`) and no C compiler. Processes that call this at the same time build once.
pub fn build() -> anyhow::Result<Binaries> {
    let this_crate = Path::new(env!("CARGO_MANIFEST_DIR"));
    let module = this_crate.join("control-plane");
    let repository = this_crate.parent().context("this crate is a folder of the repository")?;
    let target = repository.join("target/control-plane");
    let go_mod = read(&module.join("go.mod"))?;
    let go_sum = read(&module.join("go.sum"))?;
    let version = version_in(&go_mod, "k8s.io/kubernetes")?;
    let flags = linker_flags(&version)?;
    let key = cache_key(&version, &[&go_mod, &go_sum, &flags]);
    let binaries = Binaries { folder: target.join(key), version };
    if binaries.complete() {
        return Ok(binaries);
    }

    fs::create_dir_all(binaries.folder.join("bin"))
        .with_context(|| format!("cannot create {}; is the target folder writable?", binaries.folder.display()))?;
    let _lock = lock(&binaries.folder.join("build.lock"))?;
    let missing = binaries.missing();
    for (done, program) in missing.iter().enumerate() {
        say(&format!(
            "building {} ({} of {}; the first build takes about {})",
            program.name,
            done + 1,
            missing.len(),
            program.first_build
        ));
        compile(&module, program, &flags, &binaries.path(program.name))?;
    }
    copy_kwok_stages(&module, &binaries)?;
    Ok(binaries)
}

fn compile(module: &Path, program: &Program, flags: &str, path: &Path) -> anyhow::Result<()> {
    // Written aside and renamed, so that an interrupted build never leaves something that looks finished.
    let partial = path.with_extension("partial");
    let status = go(module)
        .args(["build", "-trimpath", "-ldflags", flags, "-o"])
        .arg(&partial)
        .arg(program.package)
        .status()
        .map_err(explain_go)?;
    ensure!(
        status.success(),
        "`go build {}` in {} failed ({status}); its messages are above",
        program.package,
        module.display()
    );
    fs::rename(&partial, path).with_context(|| format!("cannot move the built {} into place", program.name))
}

fn copy_kwok_stages(module: &Path, binaries: &Binaries) -> anyhow::Result<()> {
    let output = go(module).args(["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"]).output().map_err(explain_go)?;
    ensure!(
        output.status.success(),
        "`go list -m sigs.k8s.io/kwok` in {} failed: {}",
        module.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    let source = PathBuf::from(String::from_utf8(output.stdout).context("the path of the kwok module")?.trim_end());
    fs::create_dir_all(binaries.folder.join("kwok")).context("cannot create the folder of kwok's stages")?;
    for (stage, path) in KWOK_STAGES.iter().zip(binaries.kwok_stages()) {
        // Read and written rather than copied: files of the module cache are read-only, and a copy would be too.
        let text = read(&source.join(stage)).context("has kwok moved its stages? then change KWOK_STAGES")?;
        let partial = path.with_extension("partial");
        fs::write(&partial, text)
            .and_then(|()| fs::rename(&partial, &path))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn go(module: &Path) -> Command {
    let mut command = Command::new("go");
    // Without cgo nothing needs a C compiler, and the programs do not depend on the libc of the machine.
    command.current_dir(module).env("CGO_ENABLED", "0").env("GOWORK", "off").env_remove("GOFLAGS");
    command
}

fn explain_go(error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::NotFound {
        anyhow::anyhow!(
            "`go` is not on the PATH, and the control plane of the integration tests is built with it: install the \
             Go version named in integration-tests/control-plane/go.mod (https://go.dev/dl) and run again"
        )
    } else {
        anyhow::Error::new(error).context("cannot run `go`")
    }
}

/// The flags that make the programs call themselves by their release; without them they claim to be v0.0.0-master.
fn linker_flags(version: &str) -> anyhow::Result<String> {
    let mut numbers = version.trim_start_matches('v').split('.');
    let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else {
        bail!("control-plane/go.mod requires k8s.io/kubernetes {version}, which is not a version like v1.37.1");
    };
    let mut flags = String::from("-s -w");
    for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
        for (variable, value) in [("gitVersion", version), ("gitMajor", major), ("gitMinor", minor)] {
            flags.push_str(&format!(" -X {package}.{variable}={value}"));
        }
    }
    Ok(flags)
}

fn version_in(go_mod: &str, module: &str) -> anyhow::Result<String> {
    go_mod
        .lines()
        .map(str::split_whitespace)
        .find_map(|mut words| (words.next() == Some(module)).then(|| words.next()).flatten())
        .map(str::to_owned)
        .with_context(|| format!("control-plane/go.mod requires no {module}; add it back with `go get -tool`"))
}

fn cache_key(version: &str, inputs: &[&str]) -> String {
    let mut hasher = DefaultHasher::new();
    inputs.hash(&mut hasher);
    format!("{version}-{:016x}", hasher.finish())
}

/// Takes the lock that makes parallel test processes build once. The operating system lets go of it if we die.
fn lock(path: &Path) -> anyhow::Result<fs::File> {
    let file = fs::File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    if file.try_lock().is_err() {
        say("waiting for another process that is building the control plane");
        file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    }
    Ok(file)
}

/// Goes to standard error itself: what `eprintln!` prints is captured by the test harness, and who waits ten minutes
/// wants to know for what.
fn say(message: &str) {
    // A closed standard error is no reason to fail a build.
    let _ = writeln!(io::stderr(), "control plane: {message}");
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
