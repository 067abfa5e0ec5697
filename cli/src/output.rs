//! Output of commands: answers to standard output, everything else to standard error, and exit codes.

use std::{
    borrow::Cow,
    fmt,
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use anyhow::Context as _;
use comfy_table::{ContentArrangement, Row, Table, presets::NOTHING};
use serde::Serialize;

/// The flags or the files are invalid.
const BAD_INPUT: u8 = 2;

/// A pod stays pending, and `--fail-on` is set.
pub(crate) const STAYS_PENDING: u8 = 3;

#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    lines: Vec<String>,
}

impl Failure {
    /// Invalid input, one line per error; exit code 2.
    pub(crate) fn input(lines: Vec<String>) -> Self {
        Self { code: BAD_INPUT, lines }
    }

    /// A failed command; exit code 1.
    pub(crate) fn run(error: anyhow::Error) -> Self {
        Self { code: 1, lines: vec![format!("flotilla: {error:#}")] }
    }

    pub(crate) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.lines.join("\n"))
    }
}

/// Prints the failure, if any, and returns the exit code.
pub(crate) fn end(outcome: Result<ExitCode, Failure>) -> ExitCode {
    outcome.unwrap_or_else(|failure| {
        print_notes(&failure.lines);
        ExitCode::from(failure.code)
    })
}

/// Prints lines to standard error. Write errors are ignored, because there is no other output.
pub(crate) fn print_notes(lines: &[String]) {
    let mut out = io::stderr().lock();
    lines.iter().for_each(|line| _ = writeln!(out, "{line}"));
}

/// Writes the answer to standard output.
pub(crate) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    print_to(&mut io::BufWriter::new(io::stdout().lock()), write)
}

/// Writes an answer as indented JSON.
pub(crate) fn json(answer: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, answer)?;
    writeln!(out)
}

pub(crate) fn yaml(answer: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(serde_yaml::to_string(answer).map_err(io::Error::other)?.as_bytes())
}

/// Writes a part of the answer to `out`.
pub(crate) fn print_to(
    out: &mut dyn Write,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    match write(out).and_then(|()| out.flush()) {
        // The reader has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed.context("cannot print the answer").map_err(Failure::run),
    }
}

/// Whether the stream is a terminal with colors enabled.
pub(crate) fn has_colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Escapes control characters, because names from files must not control a terminal.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().any(char::is_control) {
        Cow::Owned(text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// A table in kubectl's layout. Long cells are wrapped to the width of a terminal only.
pub(crate) fn table<R: Into<Row>>(header: impl Into<Row>, rows: impl IntoIterator<Item = R>) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header);
    table.add_rows(rows);
    table.column_iter_mut().for_each(|column| _ = column.set_padding((0, 2)));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\n"), "a\u{fffd}[31mb\u{fffd}");
        assert_eq!(printable("a b"), "a b");
    }
}
