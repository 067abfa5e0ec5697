//! The Go tool: run, and understood where it fails.
//!
//! Knows: the flags and the messages of `go`. Must not know: what is built with it.

use std::{
    env,
    io::{self, BufRead as _, BufReader, Read as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    thread,
};

use crate::Kind;

/// How many of the last lines of `go` are kept to be shown.
const KEPT_LINES: usize = 30;

/// What `go` says of a module that it fetches.
const DOWNLOADING: &str = "go: downloading ";

const INSTALL: &str = "install it from https://go.dev/dl or your package manager, and run this again";

/// Why Go did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum GoError {
    /// It is not installed.
    #[error(
        "`go` is not on the PATH: the programs of the control plane are built from source, once, with Go {wanted} or \
         later; {INSTALL}"
    )]
    Missing {
        /// The oldest that will do.
        wanted: String,
    },
    /// It is installed and too old, and cannot fetch a newer one by itself.
    #[error(
        "the installed Go is too old ({found}): the control plane is built with Go {wanted} or later; {INSTALL}; \
         from Go 1.21 on, GOTOOLCHAIN=auto lets it fetch a newer one by itself"
    )]
    TooOld {
        /// What was found, in Go's words.
        found: String,
        /// The oldest that will do.
        wanted: String,
    },
    /// Modules could not be had.
    #[error(
        "the Go modules of the control plane cannot be downloaded: {reason}\ngo fetches them from GOPROXY ({proxy}), \
         once; check the network, or set GOPROXY to a mirror that can be reached from here, and run this again"
    )]
    Download {
        /// The line that says so.
        reason: String,
        /// The setting in force, where the environment has one.
        proxy: String,
    },
    /// A C compiler is asked for.
    #[error(
        "the build asks for a C compiler, though cgo is turned off: {reason}\ninstall gcc or clang, put it on the PATH, \
         and run this again"
    )]
    Compiler {
        /// The line that says so.
        reason: String,
    },
    /// The disk is full.
    #[error(
        "there is no room for the build: {reason}\nmake room, or point FLOTILLA_CACHE_DIR and GOCACHE to folders with \
         some gigabytes to spare, and run this again"
    )]
    Space {
        /// The line that says so.
        reason: String,
    },
    /// Anything else.
    #[error("`go {command}` failed ({status}); it said:\n{words}")]
    Failed {
        /// Its arguments.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it printed last.
        words: String,
    },
    /// It cannot be run at all.
    #[error("cannot run `go`: {0}; check that it is executable")]
    Run(#[source] io::Error),
}

/// The Go tool at work in one module.
#[derive(Clone, Copy, Debug)]
pub struct Go<'a> {
    /// The folder of the module.
    pub module: &'a Path,
    /// Where it puts what it needs only while it builds.
    pub temporary: &'a Path,
    /// The process group in which it runs, with the compilers that it starts.
    pub group: i32,
    /// The oldest that will do, such as `1.26.0`.
    pub wanted: &'a str,
}

impl Go<'_> {
    /// Whether there is a Go that will do. One that is too old may fetch a newer one here.
    ///
    /// # Errors
    /// Where there is none.
    pub fn check(&self) -> Result<(), GoError> {
        let found = self.run(&["env", "GOVERSION"], &mut |_| ())?;
        if is_older(&found, self.wanted) {
            return Err(GoError::TooOld { found, wanted: self.wanted.to_owned() });
        }
        Ok(())
    }

    /// Builds a package into the file `to`, and tells of each module that is downloaded for it.
    ///
    /// # Errors
    /// Where it does not build, or its modules cannot be downloaded.
    pub fn build(
        &self,
        kind: Kind,
        package: &str,
        linker_flags: &str,
        to: &Path,
        downloading: &mut dyn FnMut(&str),
    ) -> Result<(), GoError> {
        let verb: &[&str] = match kind {
            Kind::Commands => &["build", "-buildvcs=false"],
            Kind::Tests => &["test", "-c", "-vet=off"],
        };
        let to = to.to_string_lossy();
        // Debug information is a tenth of the compiler's time, and the linker leaves it out anyway.
        let no_debug = "-gcflags=all=-dwarf=false";
        let others = ["-mod=readonly", "-trimpath", no_debug, "-ldflags", linker_flags, "-o", &to, package];
        self.run(&[verb, &others].concat(), downloading).map(drop)
    }

    /// The folder in which a module was unpacked.
    ///
    /// # Errors
    /// Where it is not required here.
    pub fn folder_of(&self, module: &str) -> Result<PathBuf, GoError> {
        self.run(&["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module], &mut |_| ()).map(PathBuf::from)
    }

    /// Fetches a module and gives the folder in which it was unpacked.
    ///
    /// # Errors
    /// Where it is not required here, cannot be fetched, or is not the one whose checksum is known.
    pub fn fetch(&self, module: &str) -> Result<PathBuf, GoError> {
        self.run(&["mod", "download", module], &mut |_| ())?;
        self.folder_of(module)
    }

    /// What it answers on its standard output.
    fn run(&self, arguments: &[&str], downloading: &mut dyn FnMut(&str)) -> Result<String, GoError> {
        let mut child = self.command(arguments).spawn().map_err(|error| self.not_started(error))?;
        let out = child.stdout.take();
        // Both are read at the same time: a process that writes to a full pipe blocks.
        let answer = thread::spawn(move || {
            let mut text = String::new();
            out.map_or(Ok(0), |mut out| out.read_to_string(&mut text)).map(|_| text)
        });
        let mut words: Vec<String> = Vec::new();
        for line in
            child.stderr.take().map(BufReader::new).into_iter().flat_map(|err| err.lines().map_while(Result::ok))
        {
            if let Some(module) = line.strip_prefix(DOWNLOADING) {
                downloading(module);
                continue;
            }
            if words.len() == KEPT_LINES {
                words.remove(0);
            }
            words.push(line);
        }
        let status = child.wait().map_err(GoError::Run)?;
        let answer = answer.join().unwrap_or_else(|_| Ok(String::new())).map_err(GoError::Run)?;
        if status.success() { Ok(answer.trim_end().to_owned()) } else { Err(self.explain(arguments, status, &words)) }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("go");
        command.args(arguments).current_dir(self.module).env("GOTMPDIR", self.temporary);
        // Without cgo nothing needs a C compiler, and the programs do not depend on the libc of the machine.
        command.env("CGO_ENABLED", "0").env("GOWORK", "off").env("GO111MODULE", "on");
        // They are to run here, whatever else is built here.
        command.env_remove("GOFLAGS").env_remove("GOOS").env_remove("GOARCH");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(self.group);
        command
    }

    fn not_started(&self, error: io::Error) -> GoError {
        match error.kind() {
            io::ErrorKind::NotFound => GoError::Missing { wanted: self.wanted.to_owned() },
            _ => GoError::Run(error),
        }
    }

    fn explain(&self, arguments: &[&str], status: ExitStatus, words: &[String]) -> GoError {
        match cause(words) {
            Some((Cause::Toolchain, line)) => GoError::TooOld { found: line, wanted: self.wanted.to_owned() },
            Some((Cause::Compiler, reason)) => GoError::Compiler { reason },
            Some((Cause::Space, reason)) => GoError::Space { reason },
            Some((Cause::Download, reason)) => {
                let proxy = env::var("GOPROXY").ok().filter(|proxy| !proxy.is_empty());
                GoError::Download { reason, proxy: proxy.unwrap_or_else(|| "its default".to_owned()) }
            }
            None => GoError::Failed { command: arguments.join(" "), status, words: words.join("\n") },
        }
    }
}

/// What keeps Go from its work and is not in the code that it builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Toolchain,
    Compiler,
    Space,
    Download,
}

/// By which words of Go a cause is known. The first that fits counts: a toolchain is downloaded too.
const SIGNS: &[(Cause, &[&str])] = &[
    (Cause::Toolchain, &["go.mod requires go", "invalid go version", "toolchain not available", "go: download go1."]),
    (Cause::Compiler, &["C compiler", "cgo: "]),
    (Cause::Space, &["no space left on device", "disk quota exceeded"]),
    (
        Cause::Download,
        &[
            "dial tcp",
            "no such host",
            "proxyconnect",
            "i/o timeout",
            "TLS handshake",
            "network is unreachable",
            "connection re",
            "disabled by GOPROXY",
            "GOPROXY list",
            "reading http",
            "tls: ",
            "x509: ",
        ],
    ),
];

fn cause(words: &[String]) -> Option<(Cause, String)> {
    SIGNS.iter().find_map(|(cause, signs)| {
        let line = words.iter().find(|line| signs.iter().any(|sign| line.contains(sign)))?;
        Some((*cause, line.trim().to_owned()))
    })
}

/// Whether a version such as `go1.25.3` is older than one such as `1.26.0`. A version in other words, as that of Go's
/// own developers, is taken as new enough.
fn is_older(found: &str, wanted: &str) -> bool {
    let numbers = |text: &str| -> Option<(u32, u32)> {
        let mut parts = text.split('.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?;
        let digits = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
        Some((major, minor[..digits].parse().ok()?))
    };
    let found = found.strip_prefix("go").and_then(numbers);
    found.is_some_and(|found| numbers(wanted).is_some_and(|wanted| found < wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_go_is_told_from_one_that_will_do() {
        for (found, older) in [
            ("go1.20", true),
            ("go1.25.9", true),
            ("go1.26.0", false),
            ("go1.26rc1", false),
            ("go1.27.1 X:nodwarf5", false),
            ("go2.0", false),
            ("devel go1.20-abcdef", false),
            ("", false),
        ] {
            assert_eq!(is_older(found, "1.26.0"), older, "{found}");
        }
    }

    #[test]
    fn what_go_says_is_taken_for_what_it_means() {
        for (line, expected) in [
            ("go: go.mod requires go >= 1.26.0 (running go 1.25.1; GOTOOLCHAIN=local)", Some(Cause::Toolchain)),
            ("go: errors parsing go.mod: go.mod:8: invalid go version '1.26.0'", Some(Cause::Toolchain)),
            (
                "go: download go1.26.0 for linux/amd64: Get \"https://proxy.golang.org/\": dial tcp: i/o timeout",
                Some(Cause::Toolchain),
            ),
            (
                "k8s.io/api@v0.37.1: Get \"https://proxy.golang.org/k8s.io/api\": dial tcp: lookup proxy.golang.org: no such host",
                Some(Cause::Download),
            ),
            ("go: k8s.io/api@v0.37.1: module lookup disabled by GOPROXY=off", Some(Cause::Download)),
            ("cgo: C compiler \"gcc\" not found: exec: \"gcc\": not found", Some(Cause::Compiler)),
            ("write /tmp/x: no space left on device", Some(Cause::Space)),
            ("main.go:3:1: syntax error", None),
        ] {
            let words = ["# package".to_owned(), line.to_owned()];
            assert_eq!(cause(&words).map(|(cause, _)| cause), expected, "{line}");
        }
    }
}
