//! Reads a part.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
};

use crate::{
    decision::TurnOutcome,
    entry::{Entry, Header, decode},
    frame::{FORMAT, FRAME_HEAD, Frame, MAGIC, fill, read_frame},
};

const READ_BYTES: usize = 256 << 10;

/// The content of a valid frame cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadEntry(pub String);

/// The reason that a file cannot be read as a recording.
#[derive(Debug, thiserror::Error)]
pub enum BadRecording {
    /// Reading failed.
    #[error("cannot read {path}: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// Wrong magic number.
    #[error(
        "{0} is no recording of a Flotilla coordinator: it does not begin as one; `flotilla-coordinator --record=FOLDER` writes \
         them, with names that end in .flr"
    )]
    NotOne(PathBuf),
    /// Unsupported version.
    #[error(
        "{path} has version {found} of the format, and this build of flotilla reads version {FORMAT}; replay it with the release \
         that recorded it"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The file ends within its first frame.
    #[error("{0} ends within its first frame; nothing can be replayed")]
    Empty(PathBuf),
    /// A damaged entry.
    #[error("{path} is damaged at byte {at}: {problem}")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Offset of the frame.
        at: u64,
        /// The damage.
        problem: String,
    },
}

/// A result of reading.
#[derive(Debug)]
pub enum RecordedItem {
    /// An entry, with the outcome of a turn.
    Entry(Entry<'static>, Option<TurnOutcome>),
    /// The end of the part.
    End(End),
}

/// How a part ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// After a frame.
    Whole,
    /// Within a frame.
    Cut {
        /// Offset of the frame.
        at: u64,
    },
}

/// One file, read sequentially.
#[derive(Debug)]
pub struct Part<R> {
    path: PathBuf,
    from: R,
    at: u64,
    /// The first frame.
    pub header: Header,
}

impl Part<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// The file cannot be read or replayed here.
    pub fn open(path: &Path) -> Result<Self, BadRecording> {
        let file = File::open(path).map_err(|error| BadRecording::Unreadable { path: path.to_owned(), error })?;
        Self::read(path, BufReader::with_capacity(READ_BYTES, file))
    }
}

impl<R: Read> Part<R> {
    /// Reads the header. `path` is for messages.
    ///
    /// # Errors
    /// The file cannot be replayed here.
    pub fn read(path: &Path, mut from: R) -> Result<Self, BadRecording> {
        let path = path.to_owned();
        let unreadable = |error| BadRecording::Unreadable { path: path.clone(), error };
        let mut begin = [0; MAGIC.len() + 4];
        let filled = fill(&mut from, &mut begin).map_err(unreadable)?;
        let (magic, version) = begin.split_at(MAGIC.len());
        if filled < begin.len() && MAGIC.starts_with(&magic[..filled.min(MAGIC.len())]) && filled > 0 {
            return Err(BadRecording::Empty(path));
        }
        if magic != MAGIC {
            return Err(BadRecording::NotOne(path));
        }
        let found = version.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        if found != FORMAT {
            return Err(BadRecording::Version { path, found });
        }
        let header =
            Header { run: 0, part: 0, follows: false, version: String::new(), plugins: Vec::new(), anonymised: false };
        let mut part = Self { path, from, at: begin.len() as u64, header };
        match part.next()? {
            RecordedItem::Entry(Entry::Header(header), _) => Ok(Self { header, ..part }),
            RecordedItem::Entry(..) => {
                Err(part.corrupt(begin.len() as u64, "it does not begin with a header".to_owned()))
            }
            RecordedItem::End(_) => Err(BadRecording::Empty(part.path)),
        }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Offset of the next frame.
    #[must_use]
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// The next entry.
    ///
    /// # Errors
    /// The entry cannot be read or is damaged.
    #[expect(clippy::should_implement_trait, reason = "an end is more than no entry")]
    pub fn next(&mut self) -> Result<RecordedItem, BadRecording> {
        let at = self.at;
        let frame =
            read_frame(&mut self.from).map_err(|error| BadRecording::Unreadable { path: self.path.clone(), error })?;
        match frame {
            Frame::Entry(bytes) => {
                self.at += (bytes.len() + FRAME_HEAD) as u64;
                let (entry, outcome) = decode(&bytes).map_err(|error| self.corrupt(at, error.0))?;
                Ok(RecordedItem::Entry(entry, outcome))
            }
            Frame::End => Ok(RecordedItem::End(End::Whole)),
            Frame::Cut => Ok(RecordedItem::End(End::Cut { at })),
            Frame::Wrong => Err(self.corrupt(at, "the checksum of the frame does not agree".to_owned())),
        }
    }

    fn corrupt(&self, at: u64, problem: String) -> BadRecording {
        BadRecording::Corrupt { path: self.path.clone(), at, problem }
    }
}
