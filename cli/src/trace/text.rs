//! A trace as text: one line for each span, with a bar for its time.

use std::io::{self, Write};

use super::{
    waterfall::{Row, Waterfall},
    words::{duration, moment},
};
use crate::output::printable;

#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// Show all attributes.
    pub(super) is_wide: bool,
    /// Color processes.
    pub(super) has_colours: bool,
    /// The width of the terminal, if any.
    pub(super) columns: Option<u16>,
}

/// The length of the longest bar for output with unknown width.
const BAR: usize = 40;
const SHORTEST_BAR: usize = 10;
const LONGEST_BAR: usize = 120;
/// Longer names are cut in the narrow format: names of requests contain whole paths.
const LONGEST_NAME: usize = 36;
/// The width of the two time columns with their separators.
const TIMES: usize = 22;
/// Cyan, yellow, green, magenta, blue, red, as in the SVG.
const COLOURS: [u8; 6] = [36, 33, 32, 35, 34, 31];

pub(super) fn print(trace: &Waterfall, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let longest = if look.is_wide { usize::MAX } else { LONGEST_NAME };
    let (process_width, span_width) = trace.widths(longest);
    let (process_width, span_width) = (process_width.max("PROCESS".len()), span_width.max("SPAN".len()));
    let taken = process_width + span_width + TIMES + 4;
    let bar =
        look.columns.map_or(BAR, |columns| usize::from(columns).saturating_sub(taken).clamp(SHORTEST_BAR, LONGEST_BAR));
    heading(trace, out)?;
    writeln!(out, "{:span_width$}  {:process_width$}  {:>8}  {:>8}", "SPAN", "PROCESS", "START", "TAKES")?;
    for row in &trace.rows {
        let span = format!("{}{}", row.branch, printable(&cut(&row.name, longest)));
        let process = printable(&trace.processes[row.process].name);
        let (start, takes) = (duration(row.start_us), duration(row.takes_us));
        let (before, length) = place(row, trace.takes_us, bar);
        let mark = if length == 0 { "\u{258f}".to_owned() } else { "\u{2588}".repeat(length) };
        let (on, off) = colour(look, row.process);
        write!(
            out,
            "{span:span_width$}  {process:process_width$}  {start:>8}  {takes:>8}  {:before$}{on}{mark}{off}",
            ""
        )?;
        if let Some(error) = &row.error {
            let error = if error.is_empty() { "failed" } else { error };
            write!(out, "  ! {}", printable(error))?;
        }
        writeln!(out)?;
        if look.is_wide {
            for (key, value) in &row.attributes {
                writeln!(out, "{}    {}: {}", row.stem, printable(key), printable(value))?;
            }
        }
    }
    if look.is_wide { processes(trace, out) } else { Ok(()) }
}

fn heading(trace: &Waterfall, out: &mut dyn Write) -> io::Result<()> {
    let Waterfall { id, from_us, takes_us, processes, rows } = trace;
    let (spans, taking_part) = (count(rows.len(), "span"), count(processes.len(), "process"));
    let (id, takes, from) = (printable(id), duration(*takes_us), moment(*from_us));
    writeln!(out, "trace {id}: {spans} of {taking_part} in {takes}, from {from}\n")
}

fn processes(trace: &Waterfall, out: &mut dyn Write) -> io::Result<()> {
    for process in &trace.processes {
        writeln!(out, "\n{}", printable(&process.name))?;
        for (key, value) in &process.attributes {
            writeln!(out, "    {}: {}", printable(key), printable(value))?;
        }
    }
    Ok(())
}

/// The cells before a span's bar and the cells of the bar; none if it takes less than half a cell.
fn place(row: &Row, takes_us: u64, cells: usize) -> (usize, usize) {
    let scale = cells as f64 / takes_us.max(1) as f64;
    let length = (row.takes_us as f64 * scale).round() as usize;
    let before = (row.start_us as f64 * scale) as usize;
    (before.min(cells - length.clamp(1, cells)), length.min(cells))
}

fn colour(look: Look, process: usize) -> (String, &'static str) {
    if look.has_colours {
        (format!("\u{1b}[{}m", COLOURS[process % COLOURS.len()]), "\u{1b}[0m")
    } else {
        (String::new(), "")
    }
}

/// Cuts a text to a number of characters.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['\u{2026}']).collect()
}

/// A number with its noun.
pub(super) fn count(count: usize, noun: &str) -> String {
    let end = match (count, noun.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{count} {noun}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(start_us: u64, takes_us: u64) -> Row {
        Row {
            depth: 0,
            branch: String::new(),
            stem: String::new(),
            name: String::new(),
            process: 0,
            start_us,
            takes_us,
            attributes: Vec::new(),
            error: None,
        }
    }

    #[test]
    fn a_bar_is_where_and_as_long_as_its_span_and_never_beyond_the_end() {
        for (start, takes, expected) in
            [(0, 100, (0, 10)), (50, 50, (5, 5)), (0, 4, (0, 0)), (100, 0, (9, 0)), (97, 3, (9, 0)), (0, 0, (0, 0))]
        {
            assert_eq!(place(&row(start, takes), 100, 10), expected, "{start}+{takes}");
        }
        assert_eq!(place(&row(0, 0), 0, 10), (0, 0), "a trace that takes no time");
    }
}
