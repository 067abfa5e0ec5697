//! Reads files and standard input.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use clap::ArgAction;
use flotilla_cluster::{Loader, PodTemplate};

use crate::{output::Failure, reach::LiveArgs};

/// The size limit of a file: 512 MiB, a dump of about 100,000 pods with all managed fields.
pub(crate) const MAX_BYTES: u64 = 512 << 20;

pub(crate) const STDIN: &str = "-";

/// A text and its name in messages.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// The flags for reading files.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct FileArgs {
    /// Make pods from the custom resources of a kind, by the pod template at the path: KIND=PATH, such as
    /// Batch.example.com=spec.tasks[*].template. The number of pods is in the fields replicas, parallelism or minAvailable next to
    /// the template, multiplied by the replicas above. Not needed for the kinds of Argo Rollouts, JobSet, Kubeflow, KubeRay and others
    #[arg(long, value_name = "KIND=PATH", action = ArgAction::Append)]
    pub(crate) pod_template: Vec<PodTemplate>,
}

/// Without flags.
static NO_FLAGS: FileArgs = FileArgs { pod_template: Vec::new() };

/// The sources of a cluster: a live one, then files.
#[derive(Debug)]
pub(crate) struct Inputs<'a> {
    pub(crate) live: Option<Text>,
    pub(crate) files: &'a [PathBuf],
    pub(crate) flags: &'a FileArgs,
}

impl<'a> Inputs<'a> {
    pub(crate) fn files(files: &'a [PathBuf], flags: &'a FileArgs) -> Self {
        Self { live: None, files, flags }
    }

    /// No files.
    pub(crate) fn none() -> Self {
        Self::files(&[], &NO_FLAGS)
    }

    /// The inputs that the flags name.
    ///
    /// # Errors
    /// The live cluster cannot be read, or this build lacks the feature.
    pub(crate) fn of(files: &'a [PathBuf], flags: &'a FileArgs, live: &LiveArgs) -> Result<Self, Failure> {
        Ok(Self { live: read_live(live)?, files, flags })
    }
}

/// Reads the live cluster, if requested.
fn read_live(args: &LiveArgs) -> Result<Option<Text>, Failure> {
    if !args.is_asked() {
        return Ok(None);
    }
    #[cfg(feature = "cluster")]
    return crate::live::dump(&args.server).map(Some).map_err(Failure::run);
    #[cfg(not(feature = "cluster"))]
    Err(Failure::input(vec![crate::absent::message("--live")]))
}

/// The name and the text of a file. Errors are `file: sentence` or `file:line:column: sentence`.
pub(crate) fn read(path: &Path) -> Result<(String, String), String> {
    let is_stdin = path == Path::new(STDIN);
    let name = if is_stdin { "stdin".to_owned() } else { path.display().to_string() };
    let unreadable = |error: io::Error| format!("{name}: cannot be read: {error}");
    let mut bytes = Vec::new();
    if is_stdin {
        io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    } else {
        let file = fs::File::open(path).map_err(unreadable)?;
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("{name}: larger than 512 MiB; expected at most that, so split it into several files"));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok((name, text)),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let before = String::from_utf8_lossy(&error.as_bytes()[..valid]);
            let (line, column) = (before.matches('\n').count() + 1, before.rsplit('\n').next().unwrap_or_default());
            let column = column.trim_start_matches('\u{feff}').chars().count() + 1;
            Err(format!("{name}:{line}:{column}: this is not UTF-8 text; expected YAML or JSON"))
        }
    }
}

pub(crate) fn load(loader: &mut Loader<'_>, inputs: Inputs<'_>) {
    if let Some(Text { name, text }) = inputs.live {
        loader.text(name, text);
    }
    for path in inputs.files {
        match expand(path) {
            Ok(files) => files.iter().for_each(|file| match read(file) {
                Ok((name, text)) => loader.text(name, text),
                Err(error) => loader.complain(error),
            }),
            Err(error) => loader.complain(error),
        }
    }
}

/// Expands a directory to its files.
fn expand(path: &Path) -> Result<Vec<PathBuf>, String> {
    if path == Path::new(STDIN) || !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |error: io::Error| format!("{}: cannot be listed: {error}", path.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let extension = file.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) && file.is_file() {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(format!("{}: this directory holds no *.yaml, *.yml or *.json file", path.display()));
    }
    files.sort();
    Ok(files)
}

/// The paths as given on the command line.
pub(crate) fn names(paths: &[PathBuf]) -> String {
    let name = |path: &PathBuf| if path == Path::new(STDIN) { "stdin".to_owned() } else { path.display().to_string() };
    paths.iter().map(name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_text_or_not_there_is_told_by_name() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("image.yaml");
        fs::write(&path, b"\xef\xbb\xbfa: 1\nb: \xff\xfe").expect("a file");
        let error = read(&path).expect_err("no text");
        assert_eq!(error, format!("{}:2:4: this is not UTF-8 text; expected YAML or JSON", path.display()));
        let error = read(&directory.path().join("none.yaml")).expect_err("no file");
        assert!(error.contains("none.yaml: cannot be read: "), "{error}");
    }

    #[test]
    fn a_directory_stands_for_its_yaml_and_json_files_in_order() {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["b.yaml", "a.yml", "c.json", "notes.txt"] {
            fs::write(directory.path().join(name), "a: 1").expect("a file");
        }
        let files = expand(directory.path()).expect("a directory with files");
        let names: Vec<_> = files.iter().filter_map(|file| file.file_name()?.to_str()).collect();
        assert_eq!(names, ["a.yml", "b.yaml", "c.json"]);
    }
}
