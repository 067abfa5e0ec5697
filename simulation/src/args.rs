//! Command-line arguments.

use clap::Parser;
use flotilla_simulation::plan::Hostile;

/// Simulate whole coordinators on one thread and a virtual clock, with seeded faults
///
/// Each seed is a separate run. Coordinators, workers and a cluster run for some minutes of virtual time with faults of all kinds; then
/// faults end, and all feasible pods must be bound. Invariants are checked at every commit of the API server. A failed run is minimised,
/// and the command that repeats it exactly is printed.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask sim", version)]
pub(crate) struct Args {
    /// Number of runs
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) seeds: u64,
    /// Seed of the first run; the others follow
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) from: u64,
    /// Run one seed twice, compare the histories, and print the last commits
    #[arg(long, value_name = "S", conflicts_with_all = ["seeds", "from"])]
    pub(crate) seed: Option<u64>,
    /// Number of threads. Default: one per core
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Plant the defect of this name; `list` lists them
    #[arg(long, value_name = "NAME", conflicts_with = "defects")]
    pub(crate) defect: Option<String>,
    /// Plant each defect in turn and print the run that found it, as a test of the simulation. Fails if a defect is not found within
    /// --seeds
    #[arg(long, conflicts_with = "seed")]
    pub(crate) defects: bool,
    /// Add devices and costly objects of this kind to each run
    #[arg(long, value_name = "KIND")]
    pub(crate) hostile: Option<Hostile>,
    /// Do not minimise a failed run
    #[arg(long)]
    pub(crate) whole: bool,
    /// Print the coordinators' logs and the actions of the run; requires --seed
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
