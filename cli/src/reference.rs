//! Compares `docs/reference/command-line.md` with the command lines, and writes it with `FLOTILLA_RECORD=1`.

use std::{env, fmt::Write as _, fs, path::Path};

use clap::{Arg, Command, CommandFactory as _};

const OPENING: &str = "\
# Flags

This page lists every flag of the three programs with its default. `--help` and the manual pages of `flotilla man` contain examples and
exit codes. [Configuration](configuration.md) lists the flags that apply together with a configuration file.
[Endpoints](endpoints.md) describes the endpoints.

A coordinator accepts every flag of kube-scheduler 1.37. It logs one warning for each flag that has no effect. Started as `kube-scheduler`,
it has two other defaults: no `--worker-service`, and the Lease `kube-scheduler`. [Replace kube-scheduler's
image](../tasks/replace-image.md) describes this use.

A test compares this page with the command lines. After a change of a flag, update the page with
`FLOTILLA_RECORD=1 cargo test -p flotilla reference`.
";

/// A help text on one line of a Markdown table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// A flag or an argument as written on the command line.
fn spelling(arg: &Arg) -> String {
    let values: Vec<String> = arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
    let value = if arg.get_action().takes_values() { values.join(" ") } else { String::new() };
    let Some(long) = arg.get_long() else {
        let many = arg.get_num_args().is_some_and(|count| count.max_values() > 1);
        return format!("`{value}{}`", if many { "..." } else { "" });
    };
    let short = arg.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    let may_be_left_out = arg.get_num_args().is_some_and(|count| count.min_values() == 0);
    let value = match (value.is_empty(), may_be_left_out) {
        (true, _) => String::new(),
        (false, true) => format!("[={value}]"),
        (false, false) => format!("={value}"),
    };
    format!("{short}`--{long}{value}`")
}

/// Splits `(default X)` from the help. Flags that a file may override state their default this way.
fn default_and_help(arg: &Arg) -> (String, String) {
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if !arg.get_action().takes_values() {
        return (String::new(), help);
    }
    if !defaults.is_empty() {
        return (format!("`{}`", defaults.join(",")), help);
    }
    let told = help.strip_suffix(')').and_then(|help| help.rsplit_once(" (default "));
    let told = told.map(|(help, default)| (format!("`{default}`"), help.to_owned()));
    told.unwrap_or((String::new(), help))
}

fn row(arg: &Arg) -> String {
    let (default, mut help) = default_and_help(arg);
    let values: Vec<String> = arg.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    if arg.get_action().takes_values() && !values.is_empty() {
        write!(help, ". One of {}", values.join(", ")).expect("a String takes all");
    }
    format!("| {} | {default} | {} |\n", spelling(arg).replace('|', "\\|"), cell(&help))
}

/// One command: a table for each heading, then its subcommands.
fn describe(command: &Command, path: &str, depth: usize, page: &mut String) {
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string).unwrap_or_default();
    write!(page, "\n{} {path}\n\n{about}\n", "#".repeat(depth)).expect("a String takes all");
    let args: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version"))
        .collect();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for arg in &args {
        if !headings.contains(&arg.get_help_heading()) {
            headings.push(arg.get_help_heading());
        }
    }
    for heading in headings {
        if let Some(heading) = heading {
            write!(page, "\n{} {heading}\n", "#".repeat(depth + 1)).expect("a String takes all");
        }
        page.push_str("\n| flag | default | |\n|---|---|---|\n");
        page.extend(args.iter().filter(|arg| arg.get_help_heading() == heading).map(|arg| row(arg)));
    }
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help") {
        describe(inner, &format!("{path} {}", inner.get_name()), 3, page);
    }
}

#[test]
fn the_reference_of_flags_is_what_the_command_lines_say() {
    let mut page = OPENING.to_owned();
    let ours = crate::args::Args::command();
    for mut command in [flotilla_coordinator::args::Args::command(), flotilla_worker::command_line(), ours] {
        command.build();
        let name = command.get_name().to_owned();
        describe(&command, &name, 2, &mut page);
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/command-line.md");
    if env::var("FLOTILLA_RECORD").is_ok_and(|value| value == "1") {
        fs::write(&file, &page).expect("the docs can be written");
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    let changed = page.lines().filter(|line| !written.lines().any(|known| known == *line));
    let changed: Vec<&str> = changed.collect();
    assert!(
        page == written,
        "docs/reference/command-line.md differs from the command lines; update it with `FLOTILLA_RECORD=1 cargo test -p flotilla \
         reference`. Missing lines:\n{}",
        changed.join("\n")
    );
}
