//! The command line of `flotilla replay`.

use std::path::PathBuf;

use clap::ArgAction;

use crate::comparison::Format;

const EXAMPLES: &str = "\
Examples:
  # Does this build decide as the recorded coordinator did?
  flotilla replay /var/lib/flotilla/recordings

  # What would another configuration have decided on the same pods, in the same moments?
  flotilla replay recordings --config bin-packing.yaml

  # The same pods and nodes with five workers that answer at once
  flotilla replay recordings --workers 5

  # A copy without names, to attach to a report
  flotilla replay recordings --anonymise run.flr
  flotilla replay run.flr

Exit codes:
  0  every decision is the same; with --config or --workers, decisions were compared, however they differ
  1  the recording could not be replayed
  2  the flags, the recording or the configuration are not valid
  3  a decision differs, without --config and --workers";

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// The files of the recording, or their directory, of which the newest recording is replayed
    #[arg(value_name = "FILE", required = true)]
    pub(super) files: Vec<PathBuf>,

    /// Evaluate each decision with this KubeSchedulerConfiguration too
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workers", "anonymise"])]
    pub(super) config: Option<PathBuf>,

    /// Feature gates for --config, as Name=true,Other=false
    #[arg(long, value_name = "GATES", action = ArgAction::Append, requires = "config")]
    pub(super) feature_gates: Vec<String>,

    /// Ignore the recorded answers of workers, and evaluate with this number of workers in this process
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64), conflicts_with = "anonymise")]
    pub(super) workers: Option<u16>,

    /// The speed: max, or a multiple of the recorded speed
    #[arg(long, value_name = "SPEED", default_value = "max", value_parser = parse_speed)]
    pub(super) speed: Speed,

    /// Write a copy with consistently replaced names to this file
    #[arg(long, value_name = "FILE")]
    pub(super) anonymise: Option<PathBuf>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(super) output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Speed {
    Max,
    /// Multiple of the recorded speed.
    Times(f64),
}

fn parse_speed(text: &str) -> Result<Speed, String> {
    if text == "max" {
        return Ok(Speed::Max);
    }
    let times = text.parse().ok().filter(|times: &f64| times.is_finite() && *times > 0.0);
    times
        .map(Speed::Times)
        .ok_or_else(|| "write max, or a number above 0, such as 1 for the recorded speed or 0.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_max_or_a_number_above_zero() {
        assert_eq!(parse_speed("max"), Ok(Speed::Max));
        assert_eq!(parse_speed("2.5"), Ok(Speed::Times(2.5)));
        for wrong in ["0", "-1", "NaN", "inf", "fast", ""] {
            assert!(parse_speed(wrong).is_err(), "{wrong}");
        }
    }
}
