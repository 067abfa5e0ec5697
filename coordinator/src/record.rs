//! Recordings: the machine's events and decisions, in files of one folder.
//!
//! The machine's thread encodes each event, and another thread writes the frames. If that thread falls behind, turns are dropped and
//! counted, and the next part of the recording begins with the whole cluster.

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use flotilla_framework::registry::Registry;
use flotilla_machine::{
    action::Action,
    event::{Event, TimeMs},
};
use flotilla_recording::{Entry, Header, Input, Needs, Sent, Tape, World, begin, write_frame};
use flotilla_runtime::driver::Tap;
use jiff::{Timestamp, tz::TimeZone};
use tracing::{error, info, warn};

#[cfg(test)]
mod tests;

/// Bytes queued for writing: a second of 30,000 events of 1 KB.
const WAITING_BYTES: u64 = 32 << 20;

/// A new part begins after this share of the maximum size. Its initial cluster may take as much, and older parts are deleted until they
/// take half: the sum never exceeds the maximum.
const PART_SHARE: u64 = 4;

const EXTENSION: &str = "flr";

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) bytes: AtomicU64,
    pub(crate) dropped: AtomicU64,
    /// Recordings that ended because a file could not be written.
    pub(crate) failed: AtomicU64,
    is_recording: AtomicBool,
}

static COUNTS: Counts = Counts {
    bytes: AtomicU64::new(0),
    dropped: AtomicU64::new(0),
    failed: AtomicU64::new(0),
    is_recording: AtomicBool::new(false),
};

pub(crate) fn counts() -> Option<&'static Counts> {
    COUNTS.is_recording.load(Ordering::Relaxed).then_some(&COUNTS)
}

/// A running recording. Dropping it ends the recording after all frames are written.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// `None` only during drop.
    tape: Option<Tape<Queue>>,
    thread: Option<JoinHandle<()>>,
    #[cfg(test)]
    waiting: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Queue {
    messages: mpsc::Sender<Message>,
    waiting: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Message {
    Entry(Vec<u8>),
    Part { known: Box<World>, dropped: u64 },
}

impl Recorder {
    /// Starts a recording in a folder, which it creates.
    ///
    /// # Errors
    /// If the folder or the first file cannot be written.
    pub(crate) fn start(folder: &Path, max_bytes: u64, registry: Registry) -> anyhow::Result<Self> {
        let run = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let header = Header {
            run: u64::try_from(run).unwrap_or(u64::MAX),
            part: 0,
            follows: false,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            plugins: Header::plugins_of(registry),
            anonymised: false,
        };
        let waiting = Arc::<AtomicU64>::default();
        let mut files = Files {
            folder: folder.to_owned(),
            max_bytes,
            registry,
            header,
            file: None,
            bytes: 0,
            older: VecDeque::new(),
        };
        files.open().with_context(|| format!("cannot record to --record {}", folder.display()))?;
        let (messages, received) = mpsc::channel();
        let written = Arc::clone(&waiting);
        let thread = std::thread::Builder::new().name("recorder".to_owned());
        let thread = thread.spawn(move || files.write_all(&received, &written)).context("cannot start a thread")?;
        COUNTS.is_recording.store(true, Ordering::Relaxed);
        info!(folder = %folder.display(), max_bytes, "recording");
        let queue = Queue { messages, waiting: Arc::clone(&waiting) };
        let tape = Some(Tape::new(queue, max_bytes / PART_SHARE, registry));
        Ok(Self {
            tape,
            thread: Some(thread),
            #[cfg(test)]
            waiting,
        })
    }
}

impl Tap for Recorder {
    fn event(&mut self, now_ms: TimeMs, event: &Event) {
        self.tape.iter_mut().for_each(|tape| tape.event(now_ms, event));
    }

    fn actions(&mut self, heard_ms: TimeMs, actions: &[Action]) {
        self.tape.iter_mut().for_each(|tape| tape.actions(heard_ms, actions));
    }

    fn asked_at(&mut self, began_ms: TimeMs, now_ms: TimeMs) {
        self.tape.iter_mut().for_each(|tape| tape.asked_at(began_ms, now_ms));
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // The thread ends after it has written the queue.
        self.tape = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            error!("the recording thread panicked");
        }
    }
}

impl Sent for Queue {
    fn entry(&mut self, bytes: Vec<u8>) -> bool {
        let length = bytes.len() as u64;
        let is_sent = self.waiting.load(Ordering::Relaxed) + length <= WAITING_BYTES && {
            self.waiting.fetch_add(length, Ordering::Relaxed);
            self.messages.send(Message::Entry(bytes)).is_ok()
        };
        if !is_sent {
            COUNTS.dropped.fetch_add(1, Ordering::Relaxed);
        }
        is_sent
    }

    fn has_room(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) <= WAITING_BYTES / 2
    }

    fn part(&mut self, known: World, dropped: u64) {
        // If the thread has ended, the next frame reports it.
        let _ = self.messages.send(Message::Part { known: Box::new(known), dropped });
    }
}

struct Files {
    folder: PathBuf,
    max_bytes: u64,
    registry: Registry,
    header: Header,
    file: Option<(PathBuf, BufWriter<File>)>,
    bytes: u64,
    /// Older files with their bytes, the oldest first.
    older: VecDeque<(PathBuf, u64)>,
}

impl Files {
    fn open(&mut self) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        self.older = recordings(&self.folder)?;
        self.begin()
    }

    /// Writes until the queue closes, or a write fails.
    fn write_all(mut self, messages: &mpsc::Receiver<Message>, waiting: &AtomicU64) {
        let mut ended = Ok(());
        while ended.is_ok() {
            let message = match messages.try_recv() {
                Ok(message) => message,
                Err(mpsc::TryRecvError::Disconnected) => break,
                // Flush before waiting.
                Err(mpsc::TryRecvError::Empty) => match self.flush().map(|()| messages.recv().ok()) {
                    Ok(Some(message)) => message,
                    Ok(None) => break,
                    Err(error) => {
                        ended = Err(error);
                        continue;
                    }
                },
            };
            ended = match message {
                Message::Entry(bytes) => {
                    waiting.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
                    self.entry(&bytes)
                }
                Message::Part { known, dropped } => self.part(&known, dropped),
            };
        }
        if let Err(error) = ended.and_then(|()| self.flush()) {
            COUNTS.failed.fetch_add(1, Ordering::Relaxed);
            let folder = self.folder.display();
            error!(%error, %folder, "the recording has ended; the coordinator continues without it");
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |(_, file)| file.flush())
    }

    fn entry(&mut self, entry: &[u8]) -> io::Result<()> {
        let Some((_, file)) = &mut self.file else { return Ok(()) };
        write_frame(entry, file)?;
        // The length and the checksum.
        let bytes = entry.len() as u64 + 8;
        self.bytes += bytes;
        COUNTS.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn write(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        let bytes = entry.encode(Vec::new()).map_err(io::Error::other)?;
        self.entry(&bytes)
    }

    fn part(&mut self, known: &World, dropped: u64) -> io::Result<()> {
        self.flush()?;
        self.older.extend(self.file.take().map(|(path, _)| (path, self.bytes)));
        self.header = Header { part: self.header.part + 1, follows: dropped == 0, ..self.header.clone() };
        if dropped > 0 {
            warn!(dropped, "the recording fell behind; the next part begins with the whole cluster");
        }
        self.begin()?;
        let mut needs = Needs::new(self.registry);
        for event in known.events() {
            needs.of(&event).iter().try_for_each(|needed| self.write(needed))?;
            self.write(&Entry::Known(Input::of(&event)))?;
            if self.bytes > self.max_bytes / PART_SHARE {
                let bytes = self.max_bytes / PART_SHARE;
                let why = format!("the cluster alone takes more than {bytes} bytes; raise --record-max-bytes");
                return Err(io::Error::other(why));
            }
        }
        self.write(&Entry::Resumed { dropped })
    }

    /// Deletes old files, and creates the file of the part.
    fn begin(&mut self) -> io::Result<()> {
        let mut bytes: u64 = self.older.iter().map(|(_, bytes)| bytes).sum();
        while bytes > self.max_bytes / 2 {
            let Some((path, length)) = self.older.pop_front() else { break };
            fs::remove_file(&path)?;
            bytes -= length;
        }
        let Header { run, part, .. } = self.header;
        let began = Timestamp::from_nanosecond(i128::from(run)).map_err(io::Error::other)?.to_zoned(TimeZone::UTC);
        let (began, micros) = (began.strftime("%Y%m%dT%H%M%S"), run / 1_000 % 1_000_000);
        let name = format!("flotilla-{began}.{micros:06}Z-{part:05}.{EXTENSION}");
        let path = self.folder.join(name);
        let mut file = BufWriter::new(OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?);
        begin(&mut file)?;
        self.bytes = 0;
        self.file = Some((path, file));
        self.write(&Entry::Header(self.header.clone()))?;
        self.flush()
    }
}

/// The recordings in a folder with their bytes, the oldest first: their names begin with the time.
fn recordings(folder: &Path) -> io::Result<VecDeque<(PathBuf, u64)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("flotilla-") && path.extension().is_some_and(|end| end == EXTENSION) {
            found.push((path.clone(), fs::metadata(&path)?.len()));
        }
    }
    found.sort();
    Ok(found.into())
}
