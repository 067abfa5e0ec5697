//! Progress output: the current step, estimates and the remaining time.

use std::{
    io::{IsTerminal as _, Write as _, stderr},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::record::Record;

/// Interval of progress lines without a terminal.
const LINE_PAUSE: Duration = Duration::from_secs(30);

/// Interval of the seconds on a terminal.
const TERMINAL_PAUSE: Duration = Duration::from_secs(1);

const CLEAR: &str = "\r\x1b[2K";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Estimate {
    /// Duration of the last passed run.
    LastTime(Duration),
    /// Duration on two cores with nothing built before.
    Measured(Duration),
}

impl Estimate {
    /// The recorded duration, or else `measured`.
    pub(crate) fn of(record: &Record, name: &str, measured: Duration) -> Self {
        record.took(name).map_or(Self::Measured(measured), Self::LastTime)
    }

    pub(crate) const fn duration(self) -> Duration {
        match self {
            Self::LastTime(duration) | Self::Measured(duration) => duration,
        }
    }

    fn words(self) -> String {
        match self {
            Self::LastTime(duration) => format!("took {} last time", words(duration)),
            Self::Measured(duration) => format!("expected to take {} on two cores", words(duration)),
        }
    }
}

/// Estimates tests that run `sides` at a time, longest first, after `first` ran sequentially.
pub(crate) fn side_by_side(first: &[Duration], others: &[Duration], sides: u32) -> Duration {
    let longest = others.iter().max().copied().unwrap_or_default();
    first.iter().sum::<Duration>() + longest.max(others.iter().sum::<Duration>() / sides)
}

/// Formats the lines before a step.
pub(crate) fn heading(
    (index, count): (usize, usize),
    (name, what, why): (&str, &str, &str),
    estimate: Estimate,
    (elapsed, remaining): (Duration, Duration),
) -> String {
    format!(
        "xtask: step {index} of {count}: {name}: {what}\n\
         xtask:   {why}; {}; {} so far, about {} to go",
        estimate.words(),
        words(elapsed),
        words(remaining)
    )
}

#[derive(Debug, Clone)]
pub(crate) struct Cost {
    pub(crate) name: &'static str,
    pub(crate) wall: Duration,
    /// CPU time of all processes of the step, and of background builds that ended during it.
    pub(crate) cpu: Option<Duration>,
}

pub(crate) fn table(costs: &[Cost]) -> String {
    let width = costs.iter().map(|cost| cost.name.len()).max().unwrap_or_default();
    let line = |cost: &Cost| {
        let cpu = cost.cpu.map_or_else(|| "unknown".to_owned(), words);
        format!("xtask: {:width$}  {:>12}  {cpu:>12}\n", cost.name, words(cost.wall))
    };
    let head = format!("xtask: {:width$}  {:>12}  {:>12}\n", "step", "wall", "CPU");
    std::iter::once(head).chain(costs.iter().map(line)).collect()
}

/// Formats a duration: `40 s`, `2 min 5 s`, `1 h 3 min`.
pub(crate) fn words(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..600 if seconds % 60 != 0 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds @ 60..3600 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

pub(crate) fn shortened(command: &str) -> String {
    const MOST: usize = 110;
    match command.char_indices().nth(MOST) {
        Some((end, _)) => format!("{} ...", command[..end].rsplit_once(' ').map_or("", |(head, _)| head)),
        None => command.to_owned(),
    }
}

/// Clears the ticker's line before other output.
pub(crate) fn clear() {
    if stderr().is_terminal() {
        eprint!("{CLEAR}");
    }
}

/// Prints until it is dropped that a step still runs, and for how long.
#[derive(Debug)]
pub(crate) struct Ticker {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// For a step without output: updates one line on a terminal, and prints lines elsewhere.
    pub(crate) fn silent(what: impl Fn() -> String + Send + 'static) -> Self {
        Self::start(what, stderr().is_terminal())
    }

    /// For a step with output: prints nothing on a terminal, where cargo has its own progress bar, and lines elsewhere.
    pub(crate) fn talking(what: String) -> Self {
        if stderr().is_terminal() {
            Self { stop: None, thread: None }
        } else {
            Self::start(move || what.clone(), false)
        }
    }

    fn start(what: impl Fn() -> String + Send + 'static, moves: bool) -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let begun = Instant::now();
        let thread = thread::spawn(move || {
            let pause = if moves { TERMINAL_PAUSE } else { LINE_PAUSE };
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let line = format!("xtask: {} so far: {}", words(begun.elapsed()), what());
                if moves {
                    // A wrapped line could not be cleared.
                    let line: String = line.chars().take(79).collect();
                    eprint!("{CLEAR}{line}");
                    _ = stderr().flush();
                } else {
                    eprintln!("{line}");
                }
            }
            if moves {
                eprint!("{CLEAR}");
            }
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.stop.take());
        // The join fails only after a panic, which is already printed.
        _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_steps_has_a_line_for_each_with_its_times() {
        let cost = |name, wall, cpu: Option<u64>| Cost {
            name,
            wall: Duration::from_secs(wall),
            cpu: cpu.map(Duration::from_secs),
        };
        let said = table(&[cost("format", 5, Some(4)), cost("unit tests", 125, None)]);
        let expected = [
            "xtask: step                wall           CPU",
            "xtask: format               5 s           4 s",
            "xtask: unit tests     2 min 5 s       unknown",
        ];
        assert_eq!(said.lines().collect::<Vec<_>>(), expected);
    }

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn durations_read_as_one_says_them() {
        for (duration, expected) in
            [(0, "0 s"), (59, "59 s"), (60, "1 min"), (125, "2 min 5 s"), (629, "10 min"), (3780, "1 h 3 min")]
        {
            assert_eq!(words(seconds(duration)), expected);
        }
    }

    #[test]
    fn tests_side_by_side_take_half_of_their_sum_and_no_less_than_the_longest() {
        assert_eq!(side_by_side(&[seconds(10)], &[seconds(60), seconds(40), seconds(20)], 2), seconds(70));
        assert_eq!(side_by_side(&[], &[seconds(60), seconds(10)], 2), seconds(60));
        assert_eq!(side_by_side(&[], &[], 2), seconds(0));
    }

    #[test]
    fn the_heading_tells_which_step_what_why_how_long_and_what_is_left() {
        let estimate = Estimate::LastTime(seconds(125));
        let what = ("clippy", "cargo clippy", "checks every crate");
        let heading = heading((2, 8), what, estimate, (seconds(3), seconds(840)));
        assert_eq!(
            heading,
            "xtask: step 2 of 8: clippy: cargo clippy\n\
             xtask:   checks every crate; took 2 min 5 s last time; 3 s so far, about 14 min to go"
        );
    }

    #[test]
    fn what_was_never_run_is_expected_to_take_what_was_measured() {
        let folder = tempfile::tempdir().expect("there is a temporary folder");
        let record = Record::open(folder.path(), None);
        assert_eq!(Estimate::of(&record, "clippy", seconds(9)), Estimate::Measured(seconds(9)));
        record.passes("clippy", seconds(4), None).expect("it is written");
        assert_eq!(Estimate::of(&record, "clippy", seconds(9)), Estimate::LastTime(seconds(4)));
    }

    #[test]
    fn a_long_command_is_shown_up_to_a_word() {
        assert_eq!(shortened("cargo fmt"), "cargo fmt");
        let long = shortened(&"cargo test ".repeat(20));
        assert!(long.len() < 120 && long.ends_with("cargo test ..."), "{long}");
    }
}
