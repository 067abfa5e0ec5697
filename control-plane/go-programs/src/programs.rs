//! Builds the missing programs of one Go module.

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use crate::{Go, Module, Reaper};

/// A program: file name, Go package, and duration of its first build on two cores with downloaded modules.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// File name.
    pub name: &'static str,
    package: &'static str,
    first_build: Duration,
}

/// Generates Go source files in a module before the build.
pub type Prepare = fn(&Go<'_>) -> Result<()>;

impl Program {
    /// A program with this name and package.
    #[must_use]
    pub const fn new(name: &'static str, package: &'static str, first_build_seconds: u64) -> Self {
        Self { name, package, first_build: Duration::from_secs(first_build_seconds) }
    }

    /// Go package.
    #[must_use]
    pub const fn package(&self) -> &'static str {
        self.package
    }
}

/// Kind of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A command, `go build`.
    Commands,
    /// A test binary, `go test -c`.
    Tests,
}

/// Files copied from a module.
#[derive(Clone, Debug)]
pub struct Files {
    /// Module.
    pub module: &'static str,
    /// Paths in the module.
    pub paths: &'static [&'static str],
    /// Target folder; the paths' folders are dropped.
    pub into: PathBuf,
}

impl Files {
    /// Paths of the copies.
    #[must_use]
    pub fn places(&self) -> Vec<PathBuf> {
        self.paths.iter().map(|path| self.into.join(last(path))).collect()
    }
}

/// Programs of one module with the same flags.
#[derive(Clone, Debug)]
pub struct Programs {
    /// Module.
    pub module: Module,
    /// Kind of build.
    pub kind: Kind,
    /// Linker flags.
    pub linker_flags: String,
    /// Programs in build order.
    pub list: &'static [Program],
    /// Target folder.
    pub into: PathBuf,
    /// Other files of the module.
    pub files: Option<Files>,
    /// Generator of Go source files. All its inputs must be part of the name of `folder`.
    pub prepare: Option<Prepare>,
    /// Folder of the build: the lock and the module.
    pub folder: PathBuf,
}

/// Progress of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Another process builds the same programs.
    Waiting,
    /// A build starts.
    Building {
        /// Name.
        program: &'static str,
        /// Number of the program, from 1.
        index: usize,
        /// Number of programs to build.
        count: usize,
        /// Duration of a first build on two cores with downloaded modules. Later builds are faster.
        first_build: Duration,
    },
    /// A Go module of the current program is being downloaded: module and version.
    Downloading(String),
    /// A build has finished.
    Built {
        /// Name.
        program: &'static str,
        /// Duration.
        took: Duration,
    },
}

impl Programs {
    /// Programs without debug information, in a folder below `top` named after the first program and the version of `required`.
    ///
    /// # Errors
    /// The module does not require `required`.
    pub fn small(module: Module, required: &str, list: &'static [Program], top: &Path) -> Result<Self> {
        let linker_flags = "-s -w".to_owned();
        let name = list.first().map_or("programs", |program| program.name);
        let folder = top.join(format!("{name}-{}", module.key(&module.version_of(required)?, &linker_flags)));
        Ok(Self {
            module,
            kind: Kind::Commands,
            linker_flags,
            list,
            into: folder.join("bin"),
            files: None,
            prepare: None,
            folder,
        })
    }

    /// Path of a program, built or not.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.into.join(name)
    }

    /// Duration of a first build of all missing programs on two cores with downloaded modules.
    #[must_use]
    pub fn first_build(&self) -> Duration {
        self.missing().iter().map(|program| program.first_build).sum()
    }

    /// Whether all programs and files exist.
    #[must_use]
    pub fn complete(&self) -> bool {
        let files = self.files.as_ref().map(Files::places).unwrap_or_default();
        self.missing().is_empty() && files.iter().all(|file| file.is_file())
    }

    fn missing(&self) -> Vec<&'static Program> {
        self.list.iter().filter(|program| !self.path(program.name).is_file()).collect()
    }

    /// Checks for a usable Go, even if all programs are built.
    ///
    /// # Errors
    /// Go is missing or too old.
    pub fn check_go(&self) -> Result<()> {
        let reaper = Reaper::start()?;
        // A separate folder, because another process may be building.
        let aside = Temporary::create(self.folder.join("asking"))?;
        self.with_go(&aside.0, reaper.group(), |go| Ok(go.check()?))
    }

    /// Builds the missing programs and reports progress. Concurrent processes build once.
    ///
    /// # Errors
    /// Go is missing or too old, the modules cannot be downloaded, or a build fails.
    pub fn build(&self, tell: &mut dyn FnMut(Event)) -> Result<()> {
        if self.complete() {
            return Ok(());
        }
        let reaper = Reaper::start()?;
        self.build_in(reaper.group(), tell)
    }

    /// Like [`Programs::build`], with `go` in a process group that the caller ends.
    ///
    /// # Errors
    /// As [`Programs::build`], or the group was ended.
    pub fn build_in(&self, group: i32, tell: &mut dyn FnMut(Event)) -> Result<()> {
        fs::create_dir_all(&self.into)
            .with_context(|| format!("cannot create {}; is the cache folder writable?", self.into.display()))?;
        fs::create_dir_all(&self.folder).with_context(|| format!("cannot create {}", self.folder.display()))?;
        let _lock = lock(&self.folder.join("build.lock"), tell)?;
        if self.complete() {
            return Ok(());
        }
        self.with_go(&self.folder, group, |go| {
            go.check()?;
            self.prepare.map_or(Ok(()), |prepare| prepare(go))?;
            self.build_missing(go, tell)?;
            self.files.as_ref().map_or(Ok(()), |files| take(files, go))
        })
    }

    fn with_go(&self, folder: &Path, group: i32, work: impl FnOnce(&Go<'_>) -> Result<()>) -> Result<()> {
        let source = folder.join("module");
        self.module.write(&source)?;
        // Dropped after the compilers that write there.
        let temporary = Temporary::create(folder.join("building"))?;
        let wanted = self.module.go_version()?;
        work(&Go { module: &source, temporary: &temporary.0, group, wanted: &wanted })
    }

    fn build_missing(&self, go: &Go<'_>, tell: &mut dyn FnMut(Event)) -> Result<()> {
        let missing = self.missing();
        for (index, program) in missing.iter().enumerate() {
            let Program { name, package, first_build } = **program;
            tell(Event::Building { program: name, index: index + 1, count: missing.len(), first_build });
            let began = Instant::now();
            // Renamed when complete, so that an interrupted build leaves no partial program.
            let partial = go.temporary.join(name);
            go.build(self.kind, package, &self.linker_flags, &partial, &mut |module| {
                tell(Event::Downloading(module.to_owned()));
            })
            .with_context(|| format!("cannot build {name}"))?;
            fs::rename(&partial, self.path(name))
                .with_context(|| format!("cannot move the built {name} into place"))?;
            tell(Event::Built { program: name, took: began.elapsed() });
        }
        Ok(())
    }
}

fn take(files: &Files, go: &Go<'_>) -> Result<()> {
    let source = go.folder_of(files.module).with_context(|| format!("cannot find {}", files.module))?;
    fs::create_dir_all(&files.into).with_context(|| format!("cannot create {}", files.into.display()))?;
    for (path, place) in files.paths.iter().zip(files.places()) {
        // A copy would inherit the read-only mode of the module cache.
        let original = source.join(path);
        let text = fs::read_to_string(&original).with_context(|| {
            format!("cannot read {}; has {} moved it? then change its path here", original.display(), files.module)
        })?;
        let partial = go.temporary.join(last(path));
        fs::write(&partial, text)
            .and_then(|()| fs::rename(&partial, &place))
            .with_context(|| format!("cannot write {}", place.display()))?;
    }
    Ok(())
}

/// Temporary folder of a build, deleted on drop; creating it deletes the remains of a killed build.
struct Temporary(PathBuf);

impl Temporary {
    fn create(path: PathBuf) -> Result<Self> {
        _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // The next build retries.
        _ = fs::remove_dir_all(&self.0);
    }
}

/// Locks the build against other processes. The operating system releases the lock of a killed process.
fn lock(path: &Path, tell: &mut dyn FnMut(Event)) -> Result<File> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    let outcome = match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            tell(Event::Waiting);
            file.lock()
        }
        Err(TryLockError::Error(error)) => Err(error),
        Ok(()) => Ok(()),
    };
    outcome.with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Formats a duration: `7 minutes`, `30 seconds`.
#[must_use]
pub fn about(duration: Duration) -> String {
    match (duration.as_secs(), duration.as_secs().div_ceil(60)) {
        (seconds @ 0..60, _) => format!("{seconds} seconds"),
        (_, 1) => "1 minute".to_owned(),
        (_, minutes) => format!("{minutes} minutes"),
    }
}
