//! `flotilla config check`: prints the errors of configurations.

use std::{io, path::Path, process::ExitCode};

use clap::builder::styling::{AnsiColor, Style};
use flotilla_configuration::{Cause, ConfigError, ConfigErrors, Examination};
use serde::Serialize;

use super::{
    args::{CheckArgs, ReportFormat},
    gates::Gates,
    source::{Source, warned},
};
use crate::output::{Failure, has_colours, json, print, print_notes};

/// The introduction of errors that kube-scheduler does not report.
const LACKING: &str = "kube-scheduler would accept this; this version of Flotilla lacks it:";

/// The result of one file.
struct FileResult {
    name: String,
    /// `Err` if the file cannot be read.
    examination: Result<Examination, String>,
}

pub(super) fn check(args: &CheckArgs, gates: &Gates) -> Result<ExitCode, Failure> {
    let verdicts: Vec<FileResult> = args.files.iter().map(|path| FileResult::of(path, gates)).collect();
    match args.output {
        ReportFormat::Text => print_text(&verdicts)?,
        ReportFormat::Json => {
            let report = Report { files: verdicts.iter().map(File::of).collect() };
            print(|out| json(&report, out))?;
        }
    }
    let is_runnable = verdicts.iter().all(FileResult::is_runnable);
    Ok(if is_runnable { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl FileResult {
    fn of(path: &Path, gates: &Gates) -> Self {
        match Source::read(path) {
            Ok(source) => {
                let examination = Ok(source.examine(gates));
                Self { name: source.name, examination }
            }
            Err(error) => Self { name: path.display().to_string(), examination: Err(error) },
        }
    }

    fn is_runnable(&self) -> bool {
        self.examination.as_ref().is_ok_and(|examination| examination.errors.is_none())
    }

    /// The names of the profiles, if the configuration is valid.
    fn profiles(&self) -> Option<Vec<&str>> {
        let configuration = self.examination.as_ref().ok()?.configuration.as_ref()?;
        Some(configuration.profiles.iter().map(|profile| &*profile.scheduler_name).collect())
    }

    /// The errors of one cause, in the order of the text.
    fn errors(&self, cause: Cause) -> Option<ConfigErrors> {
        let found = self.examination.as_ref().ok()?.errors.as_ref()?;
        let errors: Vec<ConfigError> = found.errors.iter().filter(|error| error.cause == cause).cloned().collect();
        let omitted = if cause == Cause::Invalid { found.omitted } else { 0 };
        (!errors.is_empty()).then_some(ConfigErrors { errors, omitted })
    }
}

fn print_text(verdicts: &[FileResult]) -> Result<(), Failure> {
    let has_colours = has_colours(&io::stderr());
    let (mut invalid, mut lacking, mut bad_files) = (0, 0, 0);
    for verdict in verdicts {
        let mut lines = Vec::new();
        match &verdict.examination {
            Ok(examination) => lines.extend(warned(&verdict.name, &examination.warnings)),
            Err(error) => {
                lines.push(error.clone());
                invalid += 1;
            }
        }
        if let Some(errors) = verdict.errors(Cause::Invalid) {
            invalid += errors.errors.len() + errors.omitted;
            lines.push(painted(&errors, has_colours));
        }
        if let Some(errors) = verdict.errors(Cause::NotImplemented) {
            lacking += errors.errors.len();
            lines.push(format!("{}: {LACKING}", verdict.name));
            lines.push(painted(&errors, has_colours));
        }
        print_notes(&lines);
        match verdict.profiles().filter(|_| verdict.is_runnable()) {
            Some(profiles) => print(|out| writeln!(out, "{}: {}", verdict.name, valid(&profiles)))?,
            None => bad_files += 1,
        }
    }
    if bad_files > 0 {
        print_notes(&[summary(bad_files, verdicts.len(), invalid, lacking)]);
    }
    Ok(())
}

fn valid(profiles: &[&str]) -> String {
    let count = profiles.len();
    let word = if count == 1 { "profile" } else { "profiles" };
    format!("valid: {count} {word} ({})", profiles.join(", "))
}

fn summary(bad: usize, all: usize, invalid: usize, lacking: usize) -> String {
    let files = if all == 1 { "the file".to_owned() } else { format!("{bad} of {all} files") };
    let errors = if invalid == 1 { "error" } else { "errors" };
    let things = if lacking == 1 { "thing" } else { "things" };
    match (invalid, lacking) {
        (0, _) => format!("{files} cannot be used: {lacking} {things} not implemented"),
        (_, 0) => format!("{files} cannot be used: {invalid} {errors}"),
        _ => format!("{files} cannot be used: {invalid} {errors}, and {lacking} {things} not implemented"),
    }
}

fn painted(errors: &ConfigErrors, has_colours: bool) -> String {
    let text = errors.to_string();
    if !has_colours {
        return text;
    }
    let paint = |line: &str| {
        let style = match line.trim_start() {
            _ if !line.starts_with("    ") => Style::new().bold(),
            carets if !carets.is_empty() && carets.bytes().all(|byte| byte == b'^') => AnsiColor::Red.on_default(),
            hint if hint.starts_with("hint: ") => AnsiColor::Cyan.on_default(),
            _ => Style::new(),
        };
        format!("{style}{line}{style:#}")
    };
    text.lines().map(paint).collect::<Vec<_>>().join("\n")
}

#[derive(Serialize)]
struct Report<'a> {
    files: Vec<File<'a>>,
}

#[derive(Serialize)]
struct File<'a> {
    file: &'a str,
    /// kube-scheduler accepts the file.
    valid: bool,
    /// This version of Flotilla can run it.
    runnable: bool,
    errors: Vec<Error<'a>>,
    warnings: &'a [String],
    profiles: Vec<&'a str>,
}

/// One error; without a position if the file cannot be read.
#[derive(Serialize)]
struct Error<'a> {
    line: Option<usize>,
    column: Option<usize>,
    path: Option<&'a str>,
    found: Option<&'a str>,
    expected: Option<&'a str>,
    hint: Option<&'a str>,
    cause: &'static str,
    message: String,
}

impl<'a> File<'a> {
    fn of(verdict: &'a FileResult) -> Self {
        let (errors, warnings) = match &verdict.examination {
            Ok(examination) => {
                let found = examination.errors.iter().flat_map(|found| &found.errors);
                (found.map(Error::of).collect(), examination.warnings.as_slice())
            }
            Err(message) => (vec![Error::unreadable(message)], &[][..]),
        };
        let profiles = verdict.profiles();
        Self {
            file: &verdict.name,
            valid: profiles.is_some(),
            runnable: verdict.is_runnable(),
            errors,
            warnings,
            profiles: profiles.unwrap_or_default(),
        }
    }
}

impl<'a> Error<'a> {
    fn of(error: &'a ConfigError) -> Self {
        Self {
            line: Some(error.line),
            column: Some(error.column),
            path: Some(&error.path),
            found: Some(&error.found),
            expected: Some(&error.expected),
            hint: error.hint.as_deref(),
            cause: match error.cause {
                Cause::Invalid => "invalid",
                Cause::NotImplemented => "notImplemented",
            },
            message: error.to_string(),
        }
    }

    fn unreadable(message: &str) -> Self {
        let message = message.to_owned();
        let cause = "unreadable";
        Self { line: None, column: None, path: None, found: None, expected: None, hint: None, cause, message }
    }
}

#[cfg(test)]
mod tests {
    use flotilla_configuration::features::FeatureGates;
    use flotilla_framework::registry::Registry;

    use super::*;

    #[test]
    fn colours_set_places_carets_and_hints_apart_and_change_no_text() {
        let errors = flotilla_configuration::load(
            "apiVersion: v1\nkind: ^\n",
            "a.yaml",
            &FeatureGates::default(),
            Registry::built_in(),
        );
        let errors = errors.expect_err("errors");
        let painted = painted(&errors, true);
        assert!(painted.contains("\u{1b}[1ma.yaml:1:13: "), "{painted:?}");
        assert!(painted.contains("\u{1b}[31m                ^^\u{1b}[0m"), "{painted:?}");
        assert!(painted.contains("\u{1b}[36m    hint: "), "{painted:?}");
        let codes = ["\u{1b}[1m", "\u{1b}[31m", "\u{1b}[36m", "\u{1b}[0m"];
        let plain = codes.iter().fold(painted, |text, code| text.replace(code, ""));
        assert_eq!(plain, errors.to_string());
    }
}
