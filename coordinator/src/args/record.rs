//! Flags of recordings.

use std::path::PathBuf;

/// The minimum size of a recording: each part is a quarter of it, and begins with the whole cluster.
const LEAST_BYTES: u64 = 16 << 20;

/// Recording of events and decisions.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Recording")]
pub struct RecordFlags {
    /// Record events and decisions to files in this folder, for `flotilla replay`. The folder is created if it does not exist
    #[arg(long = "record", value_name = "FOLDER")]
    pub folder: Option<PathBuf>,

    /// Maximum total size in bytes of all recordings in the folder of --record; the oldest files are deleted first. At least 16777216
    #[arg(long = "record-max-bytes", value_name = "BYTES", default_value_t = 256 << 20, requires = "folder")]
    #[arg(value_parser = clap::value_parser!(u64).range(LEAST_BYTES..))]
    pub max_bytes: u64,
}
