//! Groups files into recordings and reads their parts in order.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use flotilla_framework::registry::Registry;
use flotilla_recording::{BadEntry, BadRecording, End, Entry, Header, Part, RecordedItem, TurnOutcome};

use super::args::Speed;
use crate::output::Failure;

/// Consecutive parts without a gap.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    pub(super) parts: Vec<PathBuf>,
    /// Of the first part.
    pub(super) header: Header,
}

#[derive(Debug)]
pub(super) struct Recording {
    pub(super) chains: Vec<Chain>,
    pub(super) notices: Vec<String>,
}

#[derive(Debug)]
pub(super) enum Ended {
    /// At the end, possibly within a frame.
    Over(Vec<String>),
    /// The callback stopped it.
    Enough,
}

impl Chain {
    /// Whether it starts with an empty machine.
    pub(super) const fn is_from_beginning(&self) -> bool {
        self.header.part == 0
    }

    /// Passes all entries in order to the callback, until it returns `false`.
    ///
    /// # Errors
    /// A file is unreadable or damaged, or an entry is invalid.
    pub(super) fn tell(
        &self,
        speed: Speed,
        mut told: impl FnMut(Entry<'static>, Option<&TurnOutcome>) -> Result<bool, BadEntry>,
    ) -> Result<Ended, BadRecording> {
        let mut notices = Vec::new();
        let mut pace = Pace { speed, began: None };
        for path in &self.parts {
            let mut part = Part::open(path)?;
            loop {
                match part.next()? {
                    RecordedItem::Entry(entry, outcome) => {
                        pace.wait(&entry);
                        let more = told(entry, outcome.as_ref());
                        let damaged =
                            |BadEntry(problem)| BadRecording::Corrupt { path: path.clone(), at: part.at(), problem };
                        if !more.map_err(damaged)? {
                            return Ok(Ended::Enough);
                        }
                    }
                    RecordedItem::End(End::Whole) => break,
                    RecordedItem::End(End::Cut { at }) => {
                        notices.push(format!(
                            "{} ends within a frame, at byte {at}: it is replayed up to there",
                            path.display()
                        ));
                        break;
                    }
                }
            }
        }
        Ok(Ended::Over(notices))
    }
}

/// Waits as long as the recorded coordinator did.
struct Pace {
    speed: Speed,
    /// The real time and the recorded time of the first turn.
    began: Option<(Instant, u64)>,
}

impl Pace {
    fn wait(&mut self, entry: &Entry<'_>) {
        let (Speed::Times(times), Entry::Turn { now_ms, .. }) = (self.speed, entry) else { return };
        let (began, first_ms) = *self.began.get_or_insert_with(|| (Instant::now(), *now_ms));
        #[expect(clippy::cast_precision_loss, reason = "a pause")]
        let due = Duration::try_from_secs_f64(now_ms.saturating_sub(first_ms) as f64 / 1_000.0 / times);
        thread::sleep(due.unwrap_or(Duration::MAX).saturating_sub(began.elapsed()));
    }
}

impl Recording {
    /// Finds the parts of one recording.
    ///
    /// # Errors
    /// There is none, a file belongs to no recording, or the recording build had other plugins.
    pub(super) fn open(files: &[PathBuf], registry: Registry) -> Result<Self, Failure> {
        let mut notices = Vec::new();
        let paths = paths(files)?;
        let mut parts = Vec::new();
        for path in paths {
            match Part::open(&path) {
                Ok(part) => parts.push((part.header, path)),
                // The newest file may have no complete header yet.
                Err(error @ BadRecording::Empty(_)) if files.iter().any(|file| file.is_dir()) => {
                    notices.push(error.to_string());
                }
                Err(error) => return Err(Failure::input(vec![error.to_string()])),
            }
        }
        parts.sort_by_key(|(header, _)| (header.run, header.part));
        let runs: BTreeSet<u64> = parts.iter().map(|(header, _)| header.run).collect();
        let Some(newest) = runs.last() else {
            return Err(Failure::input(vec![format!("{} has no recording: no *.flr file", named(files))]));
        };
        if runs.len() > 1 {
            let older = runs.len() - 1;
            notices.push(format!("{older} older recordings are left out; name the files of one of them to replay it"));
        }
        parts.retain(|(header, _)| header.run == *newest);
        let header = &parts[0].0;
        lacks_nothing(header, registry)?;
        let here = env!("CARGO_PKG_VERSION");
        if header.version != here {
            notices.push(format!("{} recorded it, and this is {here}, which may decide otherwise", header.version));
        }
        Ok(Self { chains: chains(parts, &mut notices), notices })
    }
}

/// The plugins of the recording must exist in this build.
fn lacks_nothing(header: &Header, registry: Registry) -> Result<(), Failure> {
    let here = Header::plugins_of(registry);
    let missing: Vec<&str> =
        header.plugins.iter().filter(|plugin| !here.contains(plugin)).map(String::as_str).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(", ");
    Err(Failure::input(vec![format!(
        "the recorded coordinator had the plugin {names}, which this program lacks; replay with the `flotilla` that has it \
         (docs/tasks/plugins.md)"
    )]))
}

fn chains(parts: Vec<(Header, PathBuf)>, notices: &mut Vec<String>) -> Vec<Chain> {
    let mut chains: Vec<Chain> = Vec::new();
    let mut last = None;
    for (header, path) in parts {
        let follows = header.follows && last.is_some_and(|last| header.part == last + 1);
        let number = header.part;
        match chains.last_mut().filter(|_| follows) {
            Some(chain) => chain.parts.push(path),
            None => {
                if last.is_some() {
                    notices.push(format!(
                        "before part {number} a part is missing; the replay continues with the cluster at its start"
                    ));
                }
                chains.push(Chain { parts: vec![path], header });
            }
        }
        last = Some(number);
    }
    chains
}

fn named(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// The files, with directories expanded to their recordings.
fn paths(files: &[PathBuf]) -> Result<BTreeSet<PathBuf>, Failure> {
    let mut paths = BTreeSet::new();
    for file in files {
        if !file.is_dir() {
            paths.insert(file.clone());
            continue;
        }
        let unreadable = |error| Failure::input(vec![format!("cannot read {}: {error}", file.display())]);
        for entry in fs::read_dir(file).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let is_recording = |path: &Path| path.extension().is_some_and(|end| end == "flr");
            if is_recording(&path) {
                paths.insert(path);
            }
        }
    }
    Ok(paths)
}
