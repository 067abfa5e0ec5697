//! Record of the steps that passed on this tree and of their last durations, in `target/xtask`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result};

const PASSED: &str = "passed";
const TIMES: &str = "times";

/// The record in memory and on disk.
#[derive(Debug)]
pub(crate) struct Record {
    folder: PathBuf,
    /// Hash of the tree at the start of the run.
    tree: Option<String>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    passed: BTreeSet<String>,
    times: BTreeMap<String, Duration>,
}

impl Record {
    /// Reads the record; steps that passed on another tree are dropped.
    pub(crate) fn open(folder: &Path, tree: Option<String>) -> Self {
        let text = |name| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let passed = tree.as_deref().map(|tree| passed(&text(PASSED), tree)).unwrap_or_default();
        let kept = Mutex::new(Kept { passed, times: times(&text(TIMES)) });
        Self { folder: folder.to_owned(), tree, kept }
    }

    /// Whether passed steps cannot be recorded because the tree is unknown.
    pub(crate) const fn is_of_no_tree(&self) -> bool {
        self.tree.is_none()
    }

    pub(crate) fn has_passed(&self, step: &str) -> bool {
        self.kept().passed.contains(step)
    }

    /// Duration of the last passed run, on any tree.
    pub(crate) fn took(&self, step: &str) -> Option<Duration> {
        self.kept().times.get(step).copied()
    }

    /// Marks a step as not passed when it starts.
    pub(crate) fn begins(&self, step: &str) -> Result<()> {
        if self.kept().passed.remove(step) { self.write_passed() } else { Ok(()) }
    }

    /// Marks a step as passed. If the tree has changed since the start of the run, only the duration is recorded.
    pub(crate) fn passes(&self, step: &str, took: Duration, tree: Option<&str>) -> Result<()> {
        let mut kept = self.kept();
        kept.times.insert(step.to_owned(), took);
        if tree.is_some() && tree == self.tree.as_deref() {
            kept.passed.insert(step.to_owned());
        }
        let lines: String = kept.times.iter().map(|(step, took)| format!("{} {step}\n", took.as_secs())).collect();
        drop(kept);
        self.write(TIMES, &lines)?;
        self.write_passed()
    }

    pub(crate) fn forget(&self, is_meant: impl Fn(&str) -> bool) -> Result<()> {
        self.kept().passed.retain(|step| !is_meant(step));
        self.write_passed()
    }

    fn write_passed(&self) -> Result<()> {
        let Some(tree) = &self.tree else { return Ok(()) };
        let steps: String = self.kept().passed.iter().map(|step| format!("{step}\n")).collect();
        self.write(PASSED, &format!("{tree}\n{steps}"))
    }

    /// Writes to a temporary file first, so that an interrupted write keeps the old content.
    fn write(&self, name: &str, text: &str) -> Result<()> {
        let (aside, place) = (self.folder.join(format!("{name}.new")), self.folder.join(name));
        fs::create_dir_all(&self.folder)
            .and_then(|()| fs::write(&aside, text))
            .and_then(|()| fs::rename(&aside, &place))
            .with_context(|| format!("cannot write {}; is the target folder writable?", place.display()))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn passed(text: &str, tree: &str) -> BTreeSet<String> {
    let mut lines = text.lines();
    if lines.next() == Some(tree) { lines.map(str::to_owned).collect() } else { BTreeSet::new() }
}

/// Invalid lines are ignored.
fn times(text: &str) -> BTreeMap<String, Duration> {
    let time = |line: &str| {
        let (seconds, step) = line.split_once(' ')?;
        Some((step.to_owned(), Duration::from_secs(seconds.parse().ok()?)))
    };
    text.lines().filter_map(time).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn open(folder: &tempfile::TempDir, tree: &str) -> Record {
        Record::open(folder.path(), Some(tree.to_owned()))
    }

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("there is a temporary folder")
    }

    #[test]
    fn what_has_passed_is_known_to_the_next_run_on_the_same_tree_and_to_no_other() {
        let folder = folder();
        open(&folder, "a").passes("unit tests", MINUTE, Some("a")).expect("it is written");
        assert!(open(&folder, "a").has_passed("unit tests"));
        assert!(!open(&folder, "a").has_passed("clippy"));
        assert!(!open(&folder, "b").has_passed("unit tests"));
        assert!(!Record::open(folder.path(), None).has_passed("unit tests"));
    }

    #[test]
    fn what_passed_while_the_tree_changed_is_not_kept_but_its_time_is() {
        let folder = folder();
        open(&folder, "a").passes("clippy", MINUTE, Some("b")).expect("it is written");
        assert!(!open(&folder, "a").has_passed("clippy"));
        assert!(!open(&folder, "b").has_passed("clippy"));
        assert_eq!(open(&folder, "c").took("clippy"), Some(MINUTE));
    }

    #[test]
    fn what_begins_again_has_not_passed() {
        let folder = folder();
        let record = open(&folder, "a");
        record.passes("clippy", MINUTE, Some("a")).expect("it is written");
        record.begins("clippy").expect("it is written");
        assert!(!open(&folder, "a").has_passed("clippy"));
    }

    #[test]
    fn what_is_forgotten_has_not_passed_and_its_time_is_still_known() {
        let folder = folder();
        let record = open(&folder, "a");
        record.passes("clippy", MINUTE, Some("a")).expect("it is written");
        record.passes("format", MINUTE, Some("a")).expect("it is written");
        record.forget(|step| step == "clippy").expect("it is written");
        assert!(!open(&folder, "a").has_passed("clippy"));
        assert!(open(&folder, "a").has_passed("format"));
        assert_eq!(open(&folder, "a").took("clippy"), Some(MINUTE));
    }

    #[test]
    fn lines_that_are_no_times_are_left_out() {
        let read = times("60 unit tests\nnonsense\nx y\n\n5 clippy\n");
        assert_eq!(
            read.into_iter().map(|(step, took)| (step, took.as_secs())).collect::<Vec<_>>(),
            [("clippy".to_owned(), 5), ("unit tests".to_owned(), 60)]
        );
    }
}
