//! The command line of `flotilla top`.

use crate::status::Targets;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TopArgs {
    /// The refresh interval in seconds
    #[arg(long = "interval", value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub(super) interval_s: u16,

    #[command(flatten)]
    pub(super) targets: Targets,
}
