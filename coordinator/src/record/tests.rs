//! Recordings in real folders.

use std::{os::unix::fs::PermissionsExt as _, sync::Arc};

use flotilla_framework::testing::{self, node, pod};
use flotilla_machine::{event::Configuration, machine::Machine};
use flotilla_recording::{End, Part, RecordedItem, Replayer};

use super::*;

const BYTES: u64 = 16 << 20;

struct Recorded {
    machine: Machine,
    recorder: Recorder,
    now_ms: TimeMs,
}

impl Recorded {
    fn tell(&mut self, event: Event) {
        self.now_ms += 1;
        self.recorder.event(self.now_ms, &event);
        self.machine.handle_event(self.now_ms, event);
        let actions = self.machine.poll_actions_as_of(self.now_ms, self.now_ms);
        self.recorder.actions(self.now_ms, &actions);
    }
}

fn start(folder: &Path, bytes: u64) -> Recorded {
    let recorder = Recorder::start(folder, bytes, Registry::built_in()).expect("the folder can be written");
    let mut told = Recorded { machine: Machine::new(0, Registry::built_in()), recorder, now_ms: 0 };
    told.tell(Event::Configured(Arc::new(Configuration::new(1, vec![testing::profile()]))));
    told.tell(Event::NodeApplied(Arc::new(node("node").capacity("pods", "100000").build())));
    told.tell(Event::Synced);
    told
}

fn files(folder: &Path) -> Vec<(PathBuf, u64)> {
    recordings(folder).expect("the folder can be read").into()
}

/// Replays files; returns the number of turns without a difference.
fn replay(paths: &[PathBuf]) -> u64 {
    let mut replayer = Replayer::new(Registry::built_in());
    for path in paths {
        let mut part = Part::open(path).expect("it is a recording");
        loop {
            match part.next().expect("it is whole") {
                RecordedItem::Entry(entry, outcome) => {
                    assert_eq!(replayer.replay(entry, outcome.as_ref()).expect("it can be read"), None);
                }
                RecordedItem::End(end) => {
                    assert_eq!(end, End::Whole);
                    break;
                }
            }
        }
    }
    replayer.turns
}

#[test]
fn what_a_machine_was_told_is_in_a_file_that_only_its_user_reads_once_the_recorder_is_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    let deep = folder.path().join("a/b");
    let mut told = start(&deep, BYTES);
    (0..500).for_each(|index| told.tell(Event::PodApplied(Arc::new(pod(&format!("pod-{index}")).build()))));
    drop(told);
    let files = files(&deep);
    let [(path, _)] = &files[..] else { panic!("one file: {files:?}") };
    let mode = fs::metadata(path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(replay(std::slice::from_ref(path)), 503);
}

#[test]
fn recordings_never_take_more_than_they_may_and_the_newest_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let old = folder.path().join("flotilla-20200101T000000.000000Z-00000.flr");
    fs::write(&old, vec![0; 15 << 20]).expect("it can be written");
    let label = "x".repeat(1_000);
    let mut told = start(folder.path(), BYTES);
    assert!(!old.exists(), "it takes more than half");
    for index in 0..15_000_u64 {
        let pod = pod(&format!("pod-{}", index % 100)).label("padding", &label).label("turn", &index.to_string());
        told.tell(Event::PodApplied(Arc::new(pod.build())));
        // The writer thread has to keep up.
        while index.is_multiple_of(1_000) && !is_idle(&told.recorder) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        if index.is_multiple_of(1_000) {
            let bytes: u64 = files(folder.path()).iter().map(|(_, bytes)| bytes).sum();
            assert!(bytes <= BYTES, "{bytes}");
        }
    }
    drop(told);
    let files = files(folder.path());
    assert!(files.len() > 1, "{files:?}");
    let headers: Vec<Header> =
        files.iter().map(|(path, _)| Part::open(path).expect("it is a recording").header).collect();
    assert!(headers[0].part > 0, "the first part is gone");
    assert!(headers.windows(2).all(|two| two[0].part + 1 == two[1].part && two[1].follows), "{headers:?}");
}

fn is_idle(recorder: &Recorder) -> bool {
    recorder.waiting.load(Ordering::Relaxed) == 0
}

#[test]
fn a_folder_that_cannot_be_written_is_told_before_anything_is_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("it can be written");
    let Err(error) = Recorder::start(&file, BYTES, Registry::built_in()) else { panic!("it is a file") };
    assert!(format!("{error:#}").starts_with("cannot record to --record "), "{error:#}");
}
