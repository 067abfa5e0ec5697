//! The command line of `flotilla top`.
//!
//! Knows: flags, their texts and their grammar. Must not know: what a flag does.

use crate::status::Targets;

/// The flags of `flotilla top`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TopArgs {
    /// How often to ask, in seconds
    #[arg(long = "interval", value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub(super) interval_s: u16,

    /// Whom to ask.
    #[command(flatten)]
    pub(super) targets: Targets,
}
