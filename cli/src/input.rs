//! Reads files and standard input.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use clap::ArgAction;
use flotilla_cluster::{Loader, PodTemplate};

use crate::{output::Failure, reach::LiveArgs};

mod encoding;

/// The size limit of a file: 512 MiB, a dump of about 100,000 pods with all managed fields.
pub(crate) const MAX_BYTES: u64 = 512 << 20;

pub(crate) const STDIN: &str = "-";
/// The name of the standard input in messages.
const STDIN_NAME: &str = "stdin";

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

    /// Read the files of subdirectories too
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
}

/// Without flags.
static NO_FLAGS: FileArgs = FileArgs { pod_template: Vec::new(), recursive: false };

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

/// Whether a path is a URL.
fn is_url(path: &Path) -> bool {
    let schemes = ["https://", "http://"];
    path.to_str().is_some_and(|path| {
        schemes.iter().any(|scheme| path.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
    })
}

/// The name and the text of a file. Errors are `file: sentence` or `file:line:column: sentence`.
pub(crate) fn read(path: &Path) -> Result<(String, String), String> {
    let is_stdin = path == Path::new(STDIN);
    let name = if is_stdin { STDIN_NAME.to_owned() } else { path.display().to_string() };
    if is_url(path) {
        return Err(format!(
            "{name}: a URL is not read; download it, such as with `curl -L {name} | flotilla ... -f -`"
        ));
    }
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
    let text = encoding::decode(&name, bytes).map_err(|error| format!("{name}{error}"))?;
    Ok((name, text))
}

pub(crate) fn load(loader: &mut Loader<'_>, inputs: Inputs<'_>) {
    if let Some(Text { name, text }) = inputs.live {
        loader.text(name, text);
    }
    for path in inputs.files {
        match expand(path, inputs.flags.recursive) {
            Ok(Expanded { files, passed }) => {
                files.iter().for_each(|file| match read(file) {
                    Ok((name, text)) => loader.text(name, text),
                    Err(error) => loader.complain(error),
                });
                if let Some(first) = passed.first() {
                    let others = passed.len() - 1;
                    let others = if others > 0 { format!(" and {others} more") } else { String::new() };
                    loader
                        .warn(format!("{}: not read{others}; use --recursive to read subdirectories", first.display()));
                }
            }
            Err(error) => loader.complain(error),
        }
    }
}

/// The files of a path.
#[derive(Debug, Default)]
struct Expanded {
    files: Vec<PathBuf>,
    /// Subdirectories that are not read.
    passed: Vec<PathBuf>,
}

/// Expands a directory to its files.
fn expand(path: &Path, is_recursive: bool) -> Result<Expanded, String> {
    if path == Path::new(STDIN) || !path.is_dir() {
        return Ok(Expanded { files: vec![path.to_owned()], passed: Vec::new() });
    }
    let mut expanded = Expanded::default();
    walk(path, is_recursive, &mut expanded)?;
    if expanded.files.is_empty() {
        let subdirectories = if expanded.passed.is_empty() { "" } else { "; use --recursive to read subdirectories" };
        let text = format!("{}: this directory holds no *.yaml, *.yml or *.json file{subdirectories}", path.display());
        return Err(text);
    }
    Ok(expanded)
}

/// Adds the files of a directory in the order of their names. Links to directories are not followed, because they may be cycles.
fn walk(directory: &Path, is_recursive: bool, expanded: &mut Expanded) -> Result<(), String> {
    let unreadable = |error: io::Error| format!("{}: cannot be listed: {error}", directory.display());
    let entries: Result<Vec<_>, io::Error> = fs::read_dir(directory).map_err(unreadable)?.collect();
    let mut entries = entries.map_err(unreadable)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    if let Some(problem) = entries.iter().find_map(|entry| of_other_program(directory, entry.file_name().to_str()?)) {
        return Err(problem);
    }
    for entry in entries {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if is_recursive {
                walk(&path, is_recursive, expanded)?;
            } else if has_files(&path) {
                expanded.passed.push(path);
            }
        } else if is_read(&path) && path.is_file() {
            expanded.files.push(path);
        }
    }
    Ok(())
}

fn is_read(path: &Path) -> bool {
    matches!(path.extension().and_then(|extension| extension.to_str()), Some("yaml" | "yml" | "json"))
}

/// Whether a subdirectory has files that would be read.
fn has_files(directory: &Path) -> bool {
    let mut expanded = Expanded::default();
    let is_hidden = directory.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with('.'));
    !is_hidden && walk(directory, true, &mut expanded).map_or(true, |()| !expanded.files.is_empty())
}

/// The error for a directory that another program turns into objects.
fn of_other_program(directory: &Path, file: &str) -> Option<String> {
    let (what, command) = match file {
        "kustomization.yaml" | "kustomization.yml" | "Kustomization" => ("a Kustomization", "kubectl kustomize"),
        "Chart.yaml" => ("a Helm chart", "helm template"),
        _ => return None,
    };
    let name = directory.display();
    Some(format!("{name}: this is the directory of {what}; render it with `{command} {name} | flotilla ... -f -`"))
}

/// The paths as given on the command line.
pub(crate) fn names(paths: &[PathBuf]) -> String {
    let name =
        |path: &PathBuf| if path == Path::new(STDIN) { STDIN_NAME.to_owned() } else { path.display().to_string() };
    paths.iter().map(name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_is_reported_by_name() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("image.yaml");
        fs::write(&path, b"\xef\xbb\xbfa: 1\nb: \xff\xfe").expect("a file");
        let error = read(&path).expect_err("no text");
        assert!(error.starts_with(&format!("{}:2:4: this is neither UTF-8", path.display())), "{error}");
        let error = read(&directory.path().join("none.yaml")).expect_err("no file");
        assert!(error.contains("none.yaml: cannot be read: "), "{error}");
        let error = read(Path::new("https://example.com/a.yaml")).expect_err("a URL");
        assert!(error.ends_with("`curl -L https://example.com/a.yaml | flotilla ... -f -`"), "{error}");
    }

    #[test]
    fn a_directory_stands_for_its_yaml_and_json_files_in_order() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        for name in ["sub", "sub/more", "text", ".git"] {
            fs::create_dir(root.join(name)).expect("a directory");
        }
        for name in ["b.yaml", "a.yml", "c.json", "notes.txt", "sub/more/d.yaml", "text/notes.txt", ".git/e.yaml"] {
            fs::write(root.join(name), "a: 1").expect("a file");
        }
        let names = |paths: &[PathBuf]| {
            let name = |path: &PathBuf| path.strip_prefix(root).expect("below").display().to_string();
            paths.iter().map(name).collect::<Vec<_>>()
        };
        let expanded = expand(root, false).expect("a directory with files");
        assert_eq!(names(&expanded.files), ["a.yml", "b.yaml", "c.json"]);
        assert_eq!(names(&expanded.passed), ["sub"]);
        let expanded = expand(&root.join("sub"), true).expect("a directory with files");
        assert_eq!(names(&expanded.files), ["sub/more/d.yaml"]);
        let error = expand(&root.join("sub"), false).expect_err("no files");
        assert!(error.ends_with("file; use --recursive to read subdirectories"), "{error}");
        for (file, expected) in [("kustomization.yaml", "`kubectl kustomize "), ("Chart.yaml", "`helm template ")] {
            fs::write(root.join("sub").join(file), "a: 1").expect("a file");
            let error = expand(&root.join("sub"), true).expect_err("another program's");
            assert!(error.contains(expected), "{error}");
            fs::remove_file(root.join("sub").join(file)).expect("a file");
        }
    }
}
