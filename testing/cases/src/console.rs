//! Cases with commands of a program, their input files and their output.
//!
//! ```text
//! === an unknown kind
//! >>> in.yaml
//! kind: Pot
//! $ flotilla simulate -f in.yaml
//! ! in.yaml:1:7: kind "Pot" of "" is not known
//! [exit code 2]
//! ```
//!
//! `>>> NAME` begins a file in the working directory. `$ flotilla` begins a command; single quotes group arguments with blanks, and
//! `< NAME` sets the standard input. Its standard output follows, its standard error after `! `, and its exit code unless 0. `| VIEW`
//! after a command filters the standard output through that view.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

const FILE: &str = ">>> ";
const COMMAND: &str = "$ flotilla ";
const ERROR: &str = "! ";

/// Extracts the relevant part of a standard output.
type View = fn(&str) -> String;

/// Runs the commands of a file of cases.
#[derive(Debug, Clone)]
pub struct Console {
    program: PathBuf,
    links: Vec<(String, PathBuf)>,
    views: Vec<(String, View)>,
}

impl Console {
    /// Runs this program.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), links: Vec::new(), views: Vec::new() }
    }

    /// Links a file or folder under this name in each case. Cases must not change it.
    #[must_use]
    pub fn with_link(mut self, name: &str, to: impl Into<PathBuf>) -> Self {
        self.links.push((name.to_owned(), to.into()));
        self
    }

    /// Allows commands to end in `| name`.
    #[must_use]
    pub fn with_view(mut self, name: &str, view: View) -> Self {
        self.views.push((name.to_owned(), view));
        self
    }

    /// Runs every case of a file in a separate folder.
    ///
    /// # Panics
    ///
    /// As [`check`](crate::check).
    pub fn check(&self, path: impl AsRef<Path>) {
        crate::check(path, |body| self.run(body));
    }

    fn run(&self, body: &str) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, to) in &self.links {
            std::os::unix::fs::symlink(to, folder.path().join(name)).expect("a link");
        }
        let (mut found, mut lines) = (String::new(), body.lines().peekable());
        while let Some(line) = lines.next() {
            let is_next = |line: &&str| !line.starts_with(FILE) && !line.starts_with(COMMAND);
            found.push_str(line);
            found.push('\n');
            if let Some(name) = line.strip_prefix(FILE) {
                let mut text = String::new();
                while let Some(line) = lines.next_if(is_next) {
                    text.push_str(line);
                    text.push('\n');
                }
                fs::write(folder.path().join(name), &text).expect("a file");
                found.push_str(&text);
            } else if let Some(command) = line.strip_prefix(COMMAND) {
                while lines.next_if(is_next).is_some() {}
                found.push_str(&self.printed(folder.path(), command));
            }
        }
        found
    }

    fn printed(&self, folder: &Path, command: &str) -> String {
        let (command, view) = match command.split_once(" | ") {
            Some((command, name)) => (command, Some(self.view(name))),
            None => (command, None),
        };
        let (command, input) = match command.split_once(" < ") {
            Some((command, name)) => (command, File::open(folder.join(name)).expect("the input").into()),
            None => (command, Stdio::null()),
        };
        let mut program = Command::new(&self.program);
        program.args(words(command)).current_dir(folder).stdin(input).env_remove("RUST_LOG");
        let Output { status, stdout, stderr } = program.output().expect("the program runs");
        let stdout = String::from_utf8(stdout).expect("UTF-8");
        let stdout = view.map_or_else(|| stdout.clone(), |view| view(&stdout));
        let stderr = String::from_utf8(stderr).expect("UTF-8");
        let mut printed = marked(&stdout, "") + &marked(&stderr, ERROR);
        if let Some(code) = status.code().filter(|code| *code != 0) {
            printed.push_str(&format!("[exit code {code}]\n"));
        }
        printed
    }

    fn view(&self, name: &str) -> View {
        let view = self.views.iter().find(|(known, _)| known == name);
        view.unwrap_or_else(|| panic!("there is no view {name:?}")).1
    }
}

fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (number, part) in command.split('\'').enumerate() {
        match number % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

fn marked(text: &str, mark: &str) -> String {
    let marked =
        text.lines().map(|line| if line.is_empty() { mark.trim_end().to_owned() } else { format!("{mark}{line}") });
    let mut marked: String = marked.map(|line| line + "\n").collect();
    if !text.is_empty() && !text.ends_with('\n') {
        marked.push_str("[no line break]\n");
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_runs_among_its_files_and_shows_all_that_it_prints() {
        let shell = Console::new("/bin/sh").with_view("upper", |text| text.to_uppercase());
        let body = "\
>>> in.txt
one
$ flotilla -c 'cat in.txt; cat; echo two >&2; exit 3' < in.txt
$ flotilla -c 'printf one' | upper
old
";
        let expected = "\
>>> in.txt
one
$ flotilla -c 'cat in.txt; cat; echo two >&2; exit 3' < in.txt
one
one
! two
[exit code 3]
$ flotilla -c 'printf one' | upper
ONE
[no line break]
";
        assert_eq!(shell.run(body), expected);
    }
}
