//! The result of a replay, as JSON, YAML and text.

use std::io::{self, Write};

use flotilla_recording::{Difference, Placed};
use serde::Serialize;

use super::files::Recording;
use crate::{
    comparison::{Format, Report},
    output::{json, printable, table, yaml},
};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    recorded_by: String,
    parts: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exact: Option<Exact>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) compared: Option<Report>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) placed: Option<PlacedPods>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) anonymised: Option<Anonymised>,
    #[serde(skip)]
    pub(super) notices: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Exact {
    pub(super) events: u64,
    /// Identical decisions.
    pub(super) decisions: u64,
    /// The time of the last event since the coordinator's start.
    pub(super) seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) difference: Option<FirstDifference>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FirstDifference {
    event: u64,
    seconds: f64,
    recorded: Vec<String>,
    replayed: Vec<String>,
    /// Decisions are equal, but requests to workers differ.
    only_requests_differ: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlacedPods {
    same_node: u64,
    other_node: u64,
    only_recorded: u64,
    only_replayed: u64,
    moved: Vec<Moved>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Moved {
    pod: String,
    recorded: String,
    replayed: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Anonymised {
    pub(super) file: String,
    pub(super) names: usize,
    pub(super) events: u64,
    /// Events with a different result.
    pub(super) differing: u64,
    /// Whether results could be compared.
    pub(super) is_checked: bool,
}

#[expect(clippy::cast_precision_loss, reason = "seconds of a run")]
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}

impl From<Difference> for FirstDifference {
    fn from(difference: Difference) -> Self {
        let told = |decisions: &[flotilla_recording::Decision]| decisions.iter().map(ToString::to_string).collect();
        Self {
            event: difference.turn,
            seconds: seconds(difference.now_ms),
            recorded: told(&difference.recorded),
            replayed: told(&difference.replayed),
            only_requests_differ: difference.is_beside,
        }
    }
}

impl From<Placed> for PlacedPods {
    fn from(placed: Placed) -> Self {
        let moved = placed.moved.iter().map(|(pod, recorded, replayed)| Moved {
            pod: pod.to_string(),
            recorded: recorded.to_string(),
            replayed: replayed.to_string(),
        });
        Self {
            same_node: placed.same,
            other_node: placed.other,
            only_recorded: placed.only_recorded,
            only_replayed: placed.only_replayed,
            moved: moved.collect(),
        }
    }
}

impl Exact {
    pub(super) fn new(events: u64, decisions: u64, now_ms: u64, difference: Option<Difference>) -> Self {
        Self { events, decisions, seconds: seconds(now_ms), difference: difference.map(Into::into) }
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { events, decisions, seconds, difference } = self;
        let Some(FirstDifference { event, seconds, recorded, replayed, only_requests_differ }) = difference else {
            return writeln!(
                out,
                "{events} events of {seconds:.1} s were replayed: all {decisions} decisions are identical"
            );
        };
        writeln!(
            out,
            "Event {event}, at {seconds:.3} s, leads to something else; {decisions} decisions before are identical"
        )?;
        if *only_requests_differ {
            writeln!(out, "\nThe decisions are the same, but requests to workers or the API server differ")?;
        }
        let all = |decisions: &[String]| match decisions {
            [] => "nothing is decided".to_owned(),
            decisions => {
                decisions.iter().map(|decision| printable(decision)).collect::<Vec<_>>().join("\n            ")
            }
        };
        writeln!(out, "\n  recorded: {}\n  replayed: {}", all(recorded), all(replayed))
    }
}

impl Answer {
    pub(super) fn new(recording: &Recording) -> Self {
        let version = recording.chains.first().map(|chain| chain.header.version.clone()).unwrap_or_default();
        Self {
            recorded_by: version,
            parts: recording.chains.iter().map(|chain| chain.parts.len()).sum(),
            exact: None,
            compared: None,
            placed: None,
            anonymised: None,
            notices: recording.notices.clone(),
        }
    }

    /// Whether all decisions are equal.
    pub(super) fn is_same(&self) -> bool {
        self.exact.as_ref().is_none_or(|exact| exact.difference.is_none())
            && self.compared.as_ref().is_none_or(Report::is_same)
            && self.anonymised.as_ref().is_none_or(|copy| copy.differing == 0)
    }

    pub(super) fn print(&self, format: Format, out: &mut dyn Write) -> io::Result<()> {
        match format {
            Format::Table => self.print_table(out),
            Format::Json => json(self, out),
            Format::Yaml => yaml(self, out),
        }
    }

    fn print_table(&self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(exact) = &self.exact {
            exact.print(out)?;
        }
        if let Some(compared) = &self.compared {
            compared.print(Format::Table, out)?;
        }
        if let Some(placed) = &self.placed {
            placed.print(out)?;
        }
        self.anonymised.iter().try_for_each(|copy| copy.print(out))
    }
}

impl PlacedPods {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let rows = [
            (self.same_node, "go to the same node"),
            (self.other_node, "go to another node"),
            (self.only_recorded, "were bound only in the recording"),
            (self.only_replayed, "are bound only in the replay"),
        ];
        let rows =
            rows.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| [count.to_string(), what.to_owned()]);
        writeln!(out, "{}", table(["PODS", ""], rows))?;
        if self.moved.is_empty() {
            return Ok(());
        }
        let rows = self
            .moved
            .iter()
            .map(|moved| [&moved.pod, &moved.recorded, &moved.replayed].map(|name| printable(name).into_owned()));
        writeln!(out, "\n{}", table(["POD", "RECORDED", "REPLAYED"], rows))
    }
}

impl Anonymised {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { file, names, events, differing, is_checked } = self;
        writeln!(out, "{file} has {events} events; {names} names are replaced")?;
        match (is_checked, differing) {
            (false, _) => {
                writeln!(out, "It does not begin with the coordinator, so that its decisions cannot be replayed")
            }
            (true, 0) => writeln!(out, "With the other names every decision is the same"),
            (true, count) => writeln!(out, "With the other names {count} events lead to other decisions"),
        }
    }
}
