//! `flotilla config migrate`: converts a configuration of an older version to v1.

use std::{fs, path::Path, process::ExitCode};

use anyhow::{Context as _, anyhow};
use flotilla_configuration::{Cause, ConfigErrors, Migration};

use super::{args::MigrateArgs, gates::Gates, source::Source};
use crate::{
    input::STDIN,
    output::{Failure, print, print_notes},
};

pub(super) fn migrate(args: &MigrateArgs, gates: &Gates) -> Result<ExitCode, Failure> {
    if args.in_place && args.file == Path::new(STDIN) {
        let line = "flotilla: --in-place needs a file; the standard input cannot be written to";
        return Err(Failure::input(vec![line.to_owned()]));
    }
    let source = Source::read(&args.file).map_err(|error| Failure::input(vec![error]).with_code(1))?;
    let Migration { text, changes, notices } = source.migrate().map_err(|errors| refused(&errors))?;
    let name = &source.name;
    print_notes(&changes.iter().map(|change| format!("{name}:{}: {}", change.line, change.what)).collect::<Vec<_>>());
    print_notes(
        &notices.iter().map(|notice| format!("{name}:{}: notice: {}", notice.line, notice.what)).collect::<Vec<_>>(),
    );
    if changes.is_empty() {
        print_notes(&[format!("{name}: already v1, nothing changed")]);
    }
    let target = if args.in_place { Some(&args.file) } else { args.output.as_ref() };
    match target {
        // An unchanged file keeps its modification time.
        Some(target) if *target == args.file && changes.is_empty() => {}
        Some(target) => fs::write(target, &text)
            .with_context(|| format!("cannot write {}", target.display()))
            .map_err(Failure::run)?,
        None => print(|out| out.write_all(text.as_bytes()))?,
    }
    let target = target.map_or_else(|| "stdout".to_owned(), |target| target.display().to_string());
    still_wrong(&Source::with_text(target, text), gates)
}

fn refused(errors: &ConfigErrors) -> Failure {
    let count = errors.errors.len() + errors.omitted;
    let word = if count == 1 { "error" } else { "errors" };
    let lines = vec![errors.to_string(), format!("not migrated, and nothing written: {count} {word}")];
    Failure::input(lines).with_code(1)
}

/// Reports errors that the migration does not concern.
fn still_wrong(result: &Source, gates: &Gates) -> Result<ExitCode, Failure> {
    let Some(errors) = result.examine(gates).errors else { return Ok(ExitCode::SUCCESS) };
    let omitted = errors.omitted;
    let (invalid, lacking): (Vec<_>, Vec<_>) =
        errors.errors.into_iter().partition(|error| error.cause == Cause::Invalid);
    if !lacking.is_empty() {
        let things = if lacking.len() == 1 { "a thing" } else { "things" };
        print_notes(&[format!(
            "{}: needs {things} that this version of Flotilla lacks; see flotilla config check",
            result.name
        )]);
    }
    if invalid.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let errors = ConfigErrors { errors: invalid, omitted };
    print_notes(&[errors.to_string()]);
    Err(Failure::run(anyhow!("the result is in v1, and has the mistakes above")))
}
