//! What one Go module makes: built where it is missing, then found again.
//!
//! Knows: where the programs of a module are kept, and how a build that was interrupted leaves nothing behind. Must not know:
//! which programs there are, or the messages of `go`.

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use crate::{Go, Module, Reaper};

/// A program: its file name, its Go package, and what its first build takes on two cores when the modules are there.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The name of its file.
    pub name: &'static str,
    package: &'static str,
    first_build: Duration,
}

/// Writes Go source files into the folder of a module before its programs are built.
pub type Prepare = fn(&Go<'_>) -> Result<()>;

impl Program {
    /// A program of this name and package.
    #[must_use]
    pub const fn new(name: &'static str, package: &'static str, first_build_seconds: u64) -> Self {
        Self { name, package, first_build: Duration::from_secs(first_build_seconds) }
    }

    /// Its Go package.
    #[must_use]
    pub const fn package(&self) -> &'static str {
        self.package
    }
}

/// What a package is built as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What its `main` does.
    Commands,
    /// Its tests.
    Tests,
}

/// Files that are taken out of a module as they are.
#[derive(Clone, Debug)]
pub struct Files {
    /// The module that they are in.
    pub module: &'static str,
    /// Their paths in it.
    pub paths: &'static [&'static str],
    /// The folder that they are put into, without the folders of their paths.
    pub into: PathBuf,
}

impl Files {
    /// Where they are.
    #[must_use]
    pub fn places(&self) -> Vec<PathBuf> {
        self.paths.iter().map(|path| self.into.join(last(path))).collect()
    }
}

/// What is built of one module with the same flags.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The module.
    pub module: Module,
    /// What its packages are built as.
    pub kind: Kind,
    /// The flags of the linker.
    pub linker_flags: String,
    /// The programs, in build order.
    pub list: &'static [Program],
    /// The folder that they are put into.
    pub into: PathBuf,
    /// What else is needed of the module.
    pub files: Option<Files>,
    /// What adds Go source files to the module. Whatever it depends on belongs into the name of `folder`.
    pub prepare: Option<Prepare>,
    /// The folder for what the build needs: its lock, and the module.
    pub folder: PathBuf,
}

/// What is told of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Another process builds the same programs; this one waits for it.
    Waiting,
    /// A program is being built.
    Building {
        /// Its name.
        program: &'static str,
        /// Which of them, from 1.
        index: usize,
        /// How many are to be built.
        count: usize,
        /// What its first build takes on two cores, when the modules are there. A later build takes less.
        first_build: Duration,
    },
    /// A Go module is being downloaded for the program being built: the module and its version.
    Downloading(String),
    /// A program was built.
    Built {
        /// Its name.
        program: &'static str,
        /// What it took.
        took: Duration,
    },
}

impl Programs {
    /// Programs without debug information, in a folder below `top` that is named after the first of them and the version of
    /// the module `required`.
    ///
    /// # Errors
    /// Where the module requires no such module.
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

    /// Where the program of this name is, or will be.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.into.join(name)
    }

    /// What the first build of all that is missing takes on two cores, when the modules are there.
    #[must_use]
    pub fn first_build(&self) -> Duration {
        self.missing().iter().map(|program| program.first_build).sum()
    }

    /// Whether all is there.
    #[must_use]
    pub fn complete(&self) -> bool {
        let files = self.files.as_ref().map(Files::places).unwrap_or_default();
        self.missing().is_empty() && files.iter().all(|file| file.is_file())
    }

    fn missing(&self) -> Vec<&'static Program> {
        self.list.iter().filter(|program| !self.path(program.name).is_file()).collect()
    }

    /// Whether there is a Go that will do, whatever is built already.
    ///
    /// # Errors
    /// Where there is none; with what to do.
    pub fn check_go(&self) -> Result<()> {
        let reaper = Reaper::start()?;
        // Aside: another process may be building.
        let aside = Temporary::create(self.folder.join("asking"))?;
        self.with_go(&aside.0, reaper.group(), |go| Ok(go.check()?))
    }

    /// Builds what is missing, and tells of it. Processes that call this at the same time build once.
    ///
    /// # Errors
    /// Where Go is missing or too old, where the modules cannot be downloaded, and where a build fails; with what to do.
    pub fn build(&self, tell: &mut dyn FnMut(Event)) -> Result<()> {
        if self.complete() {
            return Ok(());
        }
        let reaper = Reaper::start()?;
        self.build_in(reaper.group(), tell)
    }

    /// The same, with `go` in a process group that is another's to end.
    ///
    /// # Errors
    /// As [`Programs::build`], and where the group was ended.
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
            // Written aside and renamed, so that an interrupted build never leaves something that looks finished.
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
        // Read and written rather than copied: files of the module cache are read-only, and a copy would be too.
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

/// A folder that goes with the build, also where the build is given up; one that was left by a killed build goes first.
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
        // What cannot be removed is removed by the next build.
        _ = fs::remove_dir_all(&self.0);
    }
}

/// Takes the lock that makes processes build once. The operating system lets go of it if we die.
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

/// A duration as one says it: `7 minutes`, `30 seconds`.
#[must_use]
pub fn about(duration: Duration) -> String {
    match (duration.as_secs(), duration.as_secs().div_ceil(60)) {
        (seconds @ 0..60, _) => format!("{seconds} seconds"),
        (_, 1) => "1 minute".to_owned(),
        (_, minutes) => format!("{minutes} minutes"),
    }
}
