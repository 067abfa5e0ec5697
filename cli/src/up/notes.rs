//! Progress notes of start and stop, for a terminal, a log, or a waiting process.

use std::{
    fmt,
    io::{self, IsTerminal as _, Write as _},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use flotilla_control_plane::{Step, about};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

use super::running::Running;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "camelCase")]
pub(super) enum Note {
    /// A step has started.
    Began {
        what: String,
        /// Long steps are logged at their start too.
        long: bool,
    },
    /// The current operation within a step.
    Detail {
        what: String,
    },
    Done {
        what: String,
        took_ms: u64,
    },
    Line {
        what: String,
    },
    Up {
        running: Box<Running>,
    },
    /// The cluster did not start, or has ended.
    Failed {
        why: String,
    },
}

impl Note {
    pub(super) fn began(what: impl Into<String>) -> Self {
        Self::Began { what: what.into(), long: false }
    }

    pub(super) fn done(what: impl Into<String>, took: Duration) -> Self {
        Self::Done { what: what.into(), took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX) }
    }

    /// The note of a control plane step; `None` for internal steps.
    pub(super) fn of(step: Step<'_>) -> Option<Self> {
        Some(match step {
            Step::WaitingForBuild => Self::Began {
                what: "waiting for another process that is building the same programs".into(),
                long: true,
            },
            Step::Building { program, index, count, first_build } => {
                let about = about(first_build);
                let what = format!("building {program} ({index} of {count}; the first time takes about {about})");
                Self::Began { what, long: true }
            }
            Step::Downloading { module } => Self::Detail { what: format!("downloading {module}") },
            Step::Built { program, took } => Self::done(format!("{program} built"), took),
            Step::Folder { .. } => return None,
            Step::Starting { component } => Self::began(component.name()),
            Step::Ready { component, took } => Self::done(component.name(), took),
        })
    }
}

pub(super) trait Notifier: fmt::Debug + Send + Sync {
    /// Has no effect once the receiver is gone.
    fn tell(&self, note: Note);
}

/// Writes to standard error: on a terminal with a spinner, otherwise as lines.
#[derive(Debug)]
pub(super) struct Screen {
    is_terminal: bool,
    under_way: Mutex<Option<ProgressBar>>,
}

impl Screen {
    pub(super) fn new() -> Self {
        Self { is_terminal: io::stderr().is_terminal(), under_way: Mutex::default() }
    }

    fn line(&self, text: &str) {
        if let Some(bar) = self.under_way().take() {
            bar.finish_and_clear();
        }
        // There is no other output to report a write error to.
        _ = writeln!(io::stderr(), "{text}");
    }

    fn under_way(&self) -> MutexGuard<'_, Option<ProgressBar>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notifier for Screen {
    fn tell(&self, note: Note) {
        match note {
            Note::Began { what, .. } if self.is_terminal => {
                let style = ProgressStyle::with_template("{spinner} {prefix} {elapsed_precise} {wide_msg}");
                let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
                let bar = ProgressBar::new_spinner().with_style(style).with_prefix(what);
                bar.enable_steady_tick(Duration::from_millis(100));
                if let Some(before) = self.under_way().replace(bar) {
                    before.finish_and_clear();
                }
            }
            Note::Began { what, long: true } => self.line(&what),
            Note::Began { .. } => {}
            Note::Detail { what } => {
                if let Some(bar) = &*self.under_way() {
                    bar.set_message(what);
                }
            }
            Note::Done { what, took_ms } => self.line(&format!("\u{2713} {what} {}", took(took_ms))),
            Note::Line { what } => self.line(&what),
            Note::Up { .. } => self.line("\u{2713} up"),
            Note::Failed { why } => self.line(&format!("flotilla: {why}")),
        }
    }
}

/// Writes JSON lines to standard output for the foreground process, and to the log.
#[derive(Debug)]
pub(super) struct Wire {
    log: Screen,
}

impl Wire {
    pub(super) fn new() -> Self {
        Self { log: Screen::new() }
    }
}

impl Notifier for Wire {
    fn tell(&self, note: Note) {
        if let Ok(text) = serde_json::to_string(&note) {
            // The foreground process may have ended.
            _ = writeln!(io::stdout(), "{text}");
        }
        self.log.tell(note);
    }
}

/// A duration as text: `0.4 s`, `2 min 5 s`.
fn took(milliseconds: u64) -> String {
    match milliseconds / 1_000 {
        0..60 => format!("{}.{} s", milliseconds / 1_000, milliseconds % 1_000 / 100),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use flotilla_control_plane::Component;

    use super::*;

    #[test]
    fn a_time_is_written_as_people_read_it() {
        for (milliseconds, expected) in
            [(0, "0.0 s"), (449, "0.4 s"), (59_999, "59.9 s"), (60_000, "1 min 0 s"), (125_700, "2 min 5 s")]
        {
            assert_eq!(took(milliseconds), expected);
        }
    }

    #[test]
    fn a_build_says_which_program_of_how_many_and_what_it_takes() {
        let first_build = Duration::from_secs(420);
        let note = Note::of(Step::Building { program: "kube-apiserver", index: 2, count: 6, first_build });
        let what = "building kube-apiserver (2 of 6; the first time takes about 7 minutes)".to_owned();
        assert_eq!(note, Some(Note::Began { what, long: true }));
    }

    #[test]
    fn a_note_is_the_same_at_the_other_end_of_the_wire() {
        let ready = Note::of(Step::Ready { component: Component::Etcd, took: Duration::from_millis(400) });
        let ready = ready.expect("people want to know");
        assert_eq!(ready, Note::Done { what: "etcd".into(), took_ms: 400 });
        for note in [ready, Note::began("x"), Note::Failed { why: "two\nlines".into() }] {
            let text = serde_json::to_string(&note).expect("JSON");
            assert!(!text.contains('\n'), "{text}");
            assert_eq!(serde_json::from_str::<Note>(&text).expect("JSON"), note);
        }
    }
}
