//! Builds third-party programs from Go modules, once per set of versions.
//!
//! Contains: how `go` is called, the location of each program, and the modules of the control plane and Jaeger. Does not depend on: how the
//! programs are started.
//!
//! It has no async runtime and few dependencies, because xtask builds these programs before the rest of the workspace is compiled.

mod control_plane;
mod go;
mod module;
mod programs;
mod reaper;

pub use control_plane::{control_plane, go_version, jaeger, kubernetes_version, linker_flags};
pub use go::{Go, GoError};
pub use module::Module;
pub use programs::{Event, Files, Kind, Prepare, Program, Programs, about};
pub use reaper::Reaper;
