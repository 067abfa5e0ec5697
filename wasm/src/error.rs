//! Errors of modules.

use std::fmt;

/// Reason that a module cannot be a plugin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Too large.
    #[error("the module has {found} bytes; at most {most} are accepted: build it for size, without debug information")]
    TooLarge {
        /// Size in bytes.
        found: usize,
        /// Maximum size.
        most: usize,
    },
    /// Wrong digest.
    #[error("the SHA-256 digest of the module is {found}, and {wanted} is wanted: is it another version?")]
    Digest {
        /// Actual digest.
        found: String,
        /// Expected digest.
        wanted: String,
    },
    /// Not a WebAssembly file.
    #[error("it is no WebAssembly module: it does not begin with \\0asm; name the file that the compiler wrote")]
    NoModule,
    /// The engine rejects the module.
    #[error("wasm: error compiling guest: {0}")]
    Compile(String),
    /// No exported memory.
    #[error("wasm: guest doesn't export memory[memory]")]
    NoMemory,
    /// An export of another type than in the ABI.
    #[error("wasm: guest exports the wrong signature for func[{export}]. should be {wanted}, and is {found}")]
    Signature {
        /// The export.
        export: &'static str,
        /// Its type in the ABI.
        wanted: &'static str,
        /// Its type in the module.
        found: String,
    },
    /// No export that Flotilla runs.
    #[error(
        "wasm: guest does not export any plugin functions that are run here: export filter or score; it exports {found}"
    )]
    NothingToRun {
        /// Names of its functions.
        found: String,
    },
    /// An import that the host does not have, or with another type.
    #[error("wasm: the guest imports {module} {name} as {found}, which this host {have}")]
    Import {
        /// Module of the import.
        module: String,
        /// Name of the import.
        name: String,
        /// Type in the guest.
        found: String,
        /// Type in the host.
        have: String,
    },
    /// Starting failed.
    #[error("failed to create a guest pool: {0}")]
    Start(String),
    /// Invalid description.
    #[error("wasm: flotilla_describe: {0}")]
    Describe(String),
}

/// A failed call of a module.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Fault {
    /// Kind of failure, for metrics.
    pub kind: FaultKind,
    /// The message in upstream's form: `wasm: filter error: ...`.
    pub text: String,
}

/// Kinds of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// It trapped or exited.
    Trap,
    /// It exhausted its fuel.
    Fuel,
    /// It exceeded its memory.
    Memory,
    /// It returned an invalid answer.
    Answer,
    /// It called an unsupported import.
    Import,
    /// It returned an error status.
    Status,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [Self::Trap, Self::Fuel, Self::Memory, Self::Answer, Self::Import, Self::Status];

    /// The value of the label `kind`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trap => "trap",
            Self::Fuel => "fuel",
            Self::Memory => "memory",
            Self::Answer => "answer",
            Self::Import => "import",
            Self::Status => "status",
        }
    }
}

impl Fault {
    #[must_use]
    pub(crate) fn new(kind: FaultKind, text: impl fmt::Display) -> Self {
        Self { kind, text: text.to_string() }
    }
}
