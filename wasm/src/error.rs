//! What goes wrong with modules.

use std::fmt;

/// Why a module cannot be a plugin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// It is too large.
    #[error("the module has {found} bytes; at most {most} are accepted: build it for size, without debug information")]
    TooLarge {
        /// Its bytes.
        found: usize,
        /// The most.
        most: usize,
    },
    /// Its bytes are not those that were asked for.
    #[error("the SHA-256 digest of the module is {found}, and {wanted} is wanted: is it another version?")]
    Digest {
        /// The digest of the bytes.
        found: String,
        /// The digest that was asked for.
        wanted: String,
    },
    /// It is another kind of file.
    #[error("it is no WebAssembly module: it does not begin with \\0asm; name the file that the compiler wrote")]
    NoModule,
    /// It is no WebAssembly module that the engine takes.
    #[error("wasm: error compiling guest: {0}")]
    Compile(String),
    /// It has no memory that the host could read.
    #[error("wasm: guest doesn't export memory[memory]")]
    NoMemory,
    /// An export has another type than the ABI wants.
    #[error("wasm: guest exports the wrong signature for func[{export}]. should be {wanted}, and is {found}")]
    Signature {
        /// The export.
        export: &'static str,
        /// Its type in the ABI.
        wanted: &'static str,
        /// Its type in the module.
        found: String,
    },
    /// It exports nothing that would be run.
    #[error(
        "wasm: guest does not export any plugin functions that are run here: export filter or score; it exports {found}"
    )]
    NothingToRun {
        /// The names of its functions.
        found: String,
    },
    /// It asks for a function that the host lacks, or has with another type.
    #[error("wasm: the guest imports {module} {name} as {found}, which this host {have}")]
    Import {
        /// The module of the import.
        module: String,
        /// Its name.
        name: String,
        /// Its type in the guest.
        found: String,
        /// What the host has.
        have: String,
    },
    /// It cannot be started.
    #[error("failed to create a guest pool: {0}")]
    Start(String),
    /// It describes itself in a way that makes no sense.
    #[error("wasm: flotilla_describe: {0}")]
    Describe(String),
}

/// Why a call of a module has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Fault {
    /// Which sort of failure it is, for those who count.
    pub kind: FaultKind,
    /// What happened, in upstream's form: `wasm: filter error: ...`.
    pub text: String,
}

/// A sort of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// It trapped, or left its process.
    Trap,
    /// It used up its fuel.
    Fuel,
    /// It asked for more memory than it may have.
    Memory,
    /// It answered what makes no sense.
    Answer,
    /// It asked for what is not provided.
    Import,
    /// It said by its status that it failed.
    Status,
}

impl FaultKind {
    /// All of them.
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
    /// A failure with its words.
    #[must_use]
    pub(crate) fn new(kind: FaultKind, text: impl fmt::Display) -> Self {
        Self { kind, text: text.to_string() }
    }
}
