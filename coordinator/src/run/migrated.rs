//! The answer to a configuration file of an older version: its errors, and the same file in the supported version.

use std::{fmt::Write as _, path::Path};

use anyhow::{Error, anyhow};
use flotilla_configuration::{ConfigErrors, migrate};

/// The error about a file, followed by the file's text in v1 if it is of an older version.
pub(super) fn answer(error: Error, file: Option<&Path>, text: Option<&str>) -> Error {
    let (Some(file), Some(text)) = (file.map(|file| file.display().to_string()), text) else { return error };
    let migration = error.is::<ConfigErrors>().then(|| migrate(text, &file).ok()).flatten();
    let Some(migration) = migration.filter(|migration| !migration.changes.is_empty()) else { return error };
    let mut answer = format!("{error}\n");
    for notice in &migration.notices {
        let _ = writeln!(answer, "{file}:{}: notice: {}", notice.line, notice.what);
    }
    let _ =
        write!(answer, "replace the content of {file} with this text in v1, and start again:\n\n{}", migration.text);
    anyhow!(answer)
}
