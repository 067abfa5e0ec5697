//! The command line of the simulation.

use clap::Parser;
use flotilla_simulation::plan::Hostile;

/// Whole coordinators on one thread and a virtual clock, under faults that a seed draws
///
/// Each seed is a run of its own: coordinators, workers and a cluster live through some minutes of their time in which anything may
/// go wrong; then all is well, and everything that fits must be placed. What must hold is checked at every commit of the API
/// server. A run that fails is made small, and the command is printed that repeats it exactly.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask sim", version)]
pub(crate) struct Args {
    /// How many runs
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) seeds: u64,
    /// The seed of the first run; the others follow
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) from: u64,
    /// One run, with its last commits. It is made twice, and both must have the same history
    #[arg(long, value_name = "S", conflicts_with_all = ["seeds", "from"])]
    pub(crate) seed: Option<u64>,
    /// Threads; by default one for each core
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Plant a defect, by its name; `list` lists them
    #[arg(long, value_name = "NAME", conflicts_with = "defects")]
    pub(crate) defect: Option<String>,
    /// Plant each defect in turn, and say in which run it was found: a test of this simulation. It fails where one is not found
    /// within --seeds
    #[arg(long, conflicts_with = "seed")]
    pub(crate) defects: bool,
    /// Each run has devices, and objects of this kind, which cost much
    #[arg(long, value_name = "KIND")]
    pub(crate) hostile: Option<Hostile>,
    /// Do not make a run that failed smaller
    #[arg(long)]
    pub(crate) whole: bool,
    /// Log what the coordinators log, and what is done to them; with --seed
    #[arg(long, requires = "seed")]
    pub(crate) log: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
        assert!(Args::try_parse_from(["sim", "--seed", "3", "--seeds", "4"]).is_err());
    }
}
