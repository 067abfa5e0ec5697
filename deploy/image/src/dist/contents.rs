//! The contents of a release archive.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use flotilla_image::program::{Program, root};

/// Shells with completions, and the file names that they expect.
const COMPLETIONS: [(&str, &str); 5] = [
    ("bash", "flotilla.bash"),
    ("elvish", "flotilla.elv"),
    ("fish", "flotilla.fish"),
    ("powershell", "flotilla.ps1"),
    ("zsh", "_flotilla"),
];

pub(crate) const PLUGIN: &str = "kubectl-flotilla";

#[derive(Debug, Clone, Copy)]
pub(crate) struct Contents<'a> {
    /// At the top level.
    pub(crate) programs: &'a [Program],
    /// The same for all architectures.
    pub(crate) documents: &'a [Document],
    pub(crate) materials: &'a [u8],
}

/// A non-executable file.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
}

/// Completions, manual pages and files of the checkout, sorted by path.
pub(crate) fn documents(flotilla: &Path) -> Result<Vec<Document>> {
    let mut documents = Vec::new();
    for name in ["LICENSE", "README.md", "CHANGELOG.md"] {
        documents.push(Document { path: name.to_owned(), bytes: read(&root().join(name))? });
    }
    for (shell, file) in COMPLETIONS {
        let path = format!("completions/{file}");
        documents.push(Document { path, bytes: said(Command::new(flotilla).args(["completion", shell]))? });
    }
    let pages = flotilla.with_file_name("man1");
    if pages.exists() {
        fs::remove_dir_all(&pages).with_context(|| format!("removing {}", pages.display()))?;
    }
    said(Command::new(flotilla).arg("man").arg(&pages))?;
    for page in files(&pages)? {
        let name = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
        documents.push(Document { path: format!("man/man1/{name}"), bytes: read(&page)? });
    }
    documents.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(documents)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}", path.display()))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

fn said(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("{command:?} cannot be started"))?;
    if !output.status.success() {
        bail!("{command:?} failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(output.stdout)
}
