//! Flags of recordings.
//!
//! Must not know: what is recorded.

use std::path::PathBuf;

/// The least that a recording may take: a part of it is a quarter, and begins with the whole cluster.
const LEAST_BYTES: u64 = 16 << 20;

/// Whether and where the coordinator records.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Recording")]
pub struct RecordFlags {
    /// Record what the coordinator is told and what it decides, to files in this folder, for `flotilla replay`. It is created
    /// where it is not there
    #[arg(long = "record", value_name = "FOLDER")]
    pub folder: Option<PathBuf>,

    /// How many bytes all recordings in the folder of --record may take; the oldest files are deleted for the newest. At least
    /// 16777216
    #[arg(long = "record-max-bytes", value_name = "BYTES", default_value_t = 256 << 20, requires = "folder")]
    #[arg(value_parser = clap::value_parser!(u64).range(LEAST_BYTES..))]
    pub max_bytes: u64,
}
