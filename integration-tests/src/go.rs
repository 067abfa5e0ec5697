//! What is said where `go` cannot be run.
//!
//! Knows: how a missing program shows. Must not know: what is built.

use std::io;

/// The error of a `go` that could not be started, with what to do. `module` is the file that names the version needed.
pub(crate) fn explain(error: io::Error, module: &str) -> anyhow::Error {
    let message = if error.kind() == io::ErrorKind::NotFound {
        format!(
            "`go` is not on the PATH, and this is built with it: install the Go version named in {module} \
             (https://go.dev/dl) and run again"
        )
    } else {
        "cannot run `go`".to_owned()
    };
    anyhow::Error::new(error).context(message)
}
