//! Programs of others that are built from Go modules: once for each set of versions, then found again.
//!
//! Knows: how `go` is called, where a program is kept, and which modules the control plane and Jaeger are built from. Must
//! not know: how any of them is started.
//!
//! It waits without an async runtime and has few dependencies, as xtask builds the same programs before anything else of
//! the workspace is compiled.

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
