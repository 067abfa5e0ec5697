//! Runs the Go tool and explains its errors.

use std::{
    env,
    io::{self, BufRead as _, BufReader, Read as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    thread,
};

use crate::Kind;

const KEPT_LINES: usize = 30;

const DOWNLOADING: &str = "go: downloading ";

const INSTALL: &str = "install it from https://go.dev/dl or your package manager, and run this again";

/// Failure of the Go tool.
#[derive(Debug, thiserror::Error)]
pub enum GoError {
    /// Go is not installed.
    #[error(
        "`go` is not on the PATH: the programs of the control plane are built from source, once, with Go {wanted} or \
         later; {INSTALL}"
    )]
    Missing {
        /// Minimum version.
        wanted: String,
    },
    /// Go is too old and cannot download a newer toolchain.
    #[error(
        "the installed Go is too old ({found}): the control plane is built with Go {wanted} or later; {INSTALL}; \
         from Go 1.21 on, GOTOOLCHAIN=auto downloads a newer toolchain"
    )]
    TooOld {
        /// Found version, as printed by Go.
        found: String,
        /// Minimum version.
        wanted: String,
    },
    /// Modules cannot be downloaded.
    #[error(
        "the Go modules of the control plane cannot be downloaded: {reason}\ngo fetches them from GOPROXY ({proxy}), \
         once; check the network, or set GOPROXY to a mirror that can be reached from here, and run this again"
    )]
    Download {
        /// Go's error line.
        reason: String,
        /// The environment's proxy setting, if any.
        proxy: String,
    },
    /// The build requires a C compiler.
    #[error(
        "the build asks for a C compiler, though cgo is turned off: {reason}\ninstall gcc or clang, put it on the PATH, \
         and run this again"
    )]
    Compiler {
        /// Go's error line.
        reason: String,
    },
    /// The disk is full.
    #[error(
        "not enough disk space for the build: {reason}\nfree some space, or set FLOTILLA_CACHE_DIR and GOCACHE to \
         folders with some free gigabytes, and run this again"
    )]
    Space {
        /// Go's error line.
        reason: String,
    },
    /// Any other failure.
    #[error("`go {command}` failed ({status}):\n{words}")]
    Failed {
        /// Arguments.
        command: String,
        /// Exit status.
        status: ExitStatus,
        /// Last output.
        words: String,
    },
    /// `go` cannot be executed.
    #[error("cannot run `go`: {0}; check that it is executable")]
    Run(#[source] io::Error),
}

/// The Go tool in a module's folder.
#[derive(Clone, Copy, Debug)]
pub struct Go<'a> {
    /// Folder of the module.
    pub module: &'a Path,
    /// Folder of temporary files.
    pub temporary: &'a Path,
    /// Process group of `go` and its compilers.
    pub group: i32,
    /// Minimum version, such as `1.26.0`.
    pub wanted: &'a str,
}

impl Go<'_> {
    /// Checks for a usable Go. A Go that is too old may download a newer toolchain here.
    ///
    /// # Errors
    /// Go is missing or too old.
    pub fn check(&self) -> Result<(), GoError> {
        let found = self.run(&["env", "GOVERSION"], &mut |_| ())?;
        if is_older(&found, self.wanted) {
            return Err(GoError::TooOld { found, wanted: self.wanted.to_owned() });
        }
        Ok(())
    }

    /// Builds a package into the file `to`, and reports each module download.
    ///
    /// # Errors
    /// The build or a download fails.
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
        // Debug information takes a tenth of the compile time, and the linker drops it anyway.
        let no_debug = "-gcflags=all=-dwarf=false";
        let others = ["-mod=readonly", "-trimpath", no_debug, "-ldflags", linker_flags, "-o", &to, package];
        self.run(&[verb, &others].concat(), downloading).map(drop)
    }

    /// Folder of an unpacked module.
    ///
    /// # Errors
    /// The module is not required here.
    pub fn folder_of(&self, module: &str) -> Result<PathBuf, GoError> {
        self.run(&["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module], &mut |_| ()).map(PathBuf::from)
    }

    /// Downloads a module and returns its folder.
    ///
    /// # Errors
    /// The module is not required here, cannot be downloaded, or has another checksum.
    pub fn fetch(&self, module: &str) -> Result<PathBuf, GoError> {
        self.run(&["mod", "download", module], &mut |_| ())?;
        self.folder_of(module)
    }

    fn run(&self, arguments: &[&str], downloading: &mut dyn FnMut(&str)) -> Result<String, GoError> {
        let mut child = self.command(arguments).spawn().map_err(|error| self.not_started(error))?;
        let out = child.stdout.take();
        // Read both pipes in parallel: a process blocks on a full pipe.
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
        // Without cgo no C compiler is needed, and the programs do not depend on the machine's libc.
        command.env("CGO_ENABLED", "0").env("GOWORK", "off").env("GO111MODULE", "on");
        // The programs run here, even if the environment cross-compiles.
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

/// Failures caused by the environment instead of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Toolchain,
    Compiler,
    Space,
    Download,
}

/// Go's messages for each cause. The first match counts: toolchains are downloads too.
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

/// Whether `go1.25.3` is older than `1.26.0`. Other formats, such as Go's development versions, count as new enough.
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
