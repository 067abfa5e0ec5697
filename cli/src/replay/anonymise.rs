//! Writes a copy of a recording with replaced names.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use anyhow::Context as _;
use flotilla_framework::registry::Registry;
use flotilla_recording::{
    Anonymiser, BadEntry, BadRecording, Entry, Header, Replayer, TurnOutcome, begin, write_frame,
};

use super::{
    args::Speed,
    files::{Chain, Recording},
    output::{Anonymised, Answer},
};
use crate::output::Failure;

/// Writes the copy. Returns the error that stopped reading.
pub(super) fn write(
    recording: &Recording,
    path: &Path,
    registry: Registry,
    answer: &mut Answer,
) -> Result<Option<BadRecording>, Failure> {
    let Some(chain) = recording.chains.first() else { return Ok(None) };
    if recording.chains.len() > 1 {
        answer.notices.push("only the part before the first gap is copied".to_owned());
    }
    let mut anonymiser = Anonymiser::default();
    let told = chain.tell(Speed::Max, |entry, outcome| anonymiser.collect(&entry, outcome).map(|()| true));
    if let Some(error) = answer.take(told) {
        return Ok(Some(error));
    }
    let names = anonymiser.settle().map_err(|error| Failure::run(error.into()))?;
    let cannot = || format!("cannot write --anonymise {}", path.display());
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).with_context(cannot);
    let file = BufWriter::new(file.map_err(Failure::run)?);
    let mut copy = Copy {
        file,
        replayer: Replayer::new(registry),
        is_checked: chain.is_from_beginning(),
        events: 0,
        differing: 0,
    };
    let mut failed = None;
    copy.begin(chain).with_context(cannot).map_err(Failure::run)?;
    let told = chain.tell(Speed::Max, |entry, outcome| {
        let written = copy.add(&anonymiser, entry, outcome)?;
        failed = written.err();
        Ok(failed.is_none())
    });
    failed.map_or_else(|| copy.file.flush(), Err).with_context(cannot).map_err(Failure::run)?;
    let Copy { is_checked, events, differing, .. } = copy;
    answer.anonymised = Some(Anonymised { file: path.display().to_string(), names, events, differing, is_checked });
    // The first pass printed the notices.
    Ok(told.err())
}

struct Copy {
    file: BufWriter<File>,
    replayer: Replayer,
    is_checked: bool,
    events: u64,
    differing: u64,
}

impl Copy {
    fn begin(&mut self, chain: &Chain) -> io::Result<()> {
        begin(&mut self.file)?;
        let header = Header { follows: false, anonymised: true, ..chain.header.clone() };
        self.write(&Entry::Header(header), None)
    }

    fn write(&mut self, entry: &Entry<'_>, outcome: Option<&TurnOutcome>) -> io::Result<()> {
        let bytes = entry.encode(Vec::new()).map_err(io::Error::other)?;
        let bytes = match outcome {
            Some(outcome) => outcome.encode(bytes).map_err(io::Error::other)?,
            None => bytes,
        };
        write_frame(&bytes, &mut self.file)
    }

    /// Adds an entry with replaced names. Decisions are computed again where possible.
    fn add(
        &mut self,
        anonymiser: &Anonymiser,
        entry: Entry<'static>,
        outcome: Option<&TurnOutcome>,
    ) -> Result<io::Result<()>, BadEntry> {
        // Later parts go into the same file. Messages of WebAssembly modules may contain names, so the copy omits them, as if no worker had
        // sent them.
        if self.is_checked && matches!(entry, Entry::Known(_) | Entry::Resumed { .. })
            || matches!(entry, Entry::Header(_) | Entry::Words { .. })
        {
            return Ok(Ok(()));
        }
        let entry = anonymiser.entry(entry)?;
        let Some(recorded) = outcome else {
            self.replayer.replay(entry.clone(), None)?;
            return Ok(self.write(&entry, None));
        };
        self.events += 1;
        let renamed = anonymiser.outcome(recorded)?;
        let Entry::Turn { now_ms, input } = &entry else { return Ok(Ok(())) };
        if !self.is_checked {
            return Ok(self.write(&entry, Some(&renamed)));
        }
        let replayed = self.replayer.turn(*now_ms, input.clone(), recorded.heard_ms)?;
        self.differing += u64::from(!anonymiser.learn(recorded, &renamed, &replayed));
        Ok(self.write(&entry, Some(&replayed)))
    }
}
