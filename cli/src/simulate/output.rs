//! The answer of `flotilla simulate`, as table, JSON and YAML.

use std::{
    borrow::Cow,
    io::{self, Write},
    time::Duration,
};

use comfy_table::{Cell, Color};
use flotilla_cluster::{Cluster, Groups};
use flotilla_framework::map::Set;
use flotilla_simulate::ledger::{Placement, SimulationResult, WorkerMessages};
use indicatif::BinaryBytes;
use serde::Serialize;

use super::{
    args::Format,
    usage::{self, Usage},
};
use crate::{
    groups::GroupResult,
    output::{has_colours, json, printable, table, yaml},
    page::report::Figures,
    rollouts::Rollout,
};

/// Longer tables show the first and the last rows only.
const MOST_ROWS: usize = 200;
const FIRST_ROWS: usize = 100;
const LAST_ROWS: usize = 10;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer<'a> {
    placements: Vec<Row<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    preemptions: Vec<Preempted<'a>>,
    /// Rollouts of which the input has a part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rollouts: Vec<Rollout>,
    /// The pod groups of the decided pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<GroupResult>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_created: Vec<NotCreated<'a>>,
    summary: Summary,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    pod: String,
    /// Empty for a pod that stays pending.
    node: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
    /// The message of the first attempt, if there were several.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nominated_node: Option<&'a str>,
}

/// A preempted pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Preempted<'a> {
    pod: String,
    node: &'a str,
    by: &'a str,
}

/// Pods that the API server refuses, or that a controller does not create.
#[derive(Debug, Serialize)]
struct NotCreated<'a> {
    /// The pod, or the workload with its kind.
    of: &'a str,
    message: Cow<'a, str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    nodes: usize,
    bound_pods: usize,
    pods: usize,
    placed: usize,
    pending: usize,
    workers: u16,
    /// The time in which the coordinator decided.
    seconds: f64,
    decisions_per_second: f64,
    latency: Latency,
    worker_messages: WorkerMessages,
    resources: Vec<Usage>,
}

/// The times of single decisions, each since the previous one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Latency {
    p50_micros: f64,
    p99_micros: f64,
}

impl<'a> Answer<'a> {
    pub(super) fn new((cluster, groups): (&'a Cluster, &Groups), outcome: &'a SimulationResult, workers: u16) -> Self {
        let placed = outcome.placements.iter().filter(|placement| placement.node.is_some());
        let resources = usage::of(cluster, placed.clone().map(|placement| &*placement.pod), outcome.gone(cluster));
        let (pods, placed) = (outcome.placements.len(), placed.count());
        let mut latencies = outcome.latencies.clone();
        latencies.sort_unstable();
        let latency =
            Latency { p50_micros: micros(percentile(&latencies, 50)), p99_micros: micros(percentile(&latencies, 99)) };
        let summary = Summary {
            nodes: cluster.nodes.len(),
            bound_pods: cluster.bound.len(),
            pods,
            placed,
            pending: pods - placed,
            workers,
            seconds: outcome.took.as_secs_f64(),
            decisions_per_second: rate(outcome.decisions, outcome.took),
            latency,
            worker_messages: outcome.worker_messages,
            resources,
        };
        let pending = outcome.placements.iter().filter(|placement| placement.node.is_none());
        let messages = pending.map(|placement| (&*placement.pod.uid, &*placement.message));
        let rollouts = Rollout::all(&outcome.report.rollouts, messages);
        let groups = group_results((cluster, groups), outcome);
        let refused = cluster.made.refused.iter();
        let refused = refused.map(|refused| NotCreated { of: &refused.of, message: Cow::Borrowed(&refused.text) });
        let waiting = outcome.report.not_created.iter();
        let waiting = waiting.map(|waiting| NotCreated { of: &waiting.of, message: Cow::Owned(waiting.text()) });
        let not_created = refused.chain(waiting).collect();
        let preemptions = outcome.evicted.iter().map(|evicted| Preempted {
            pod: evicted.pod.key(),
            node: evicted.pod.node_name.as_deref().unwrap_or_default(),
            by: &evicted.by,
        });
        let preemptions = preemptions.collect();
        Self {
            placements: outcome.placements.iter().map(Row::new).collect(),
            preemptions,
            rollouts,
            groups,
            not_created,
            summary,
        }
    }

    pub(super) fn print(&self, format: Format, out: &mut dyn Write) -> io::Result<()> {
        match format {
            Format::Table => self.print_table(out),
            Format::Json => json(self, out),
            Format::Yaml => yaml(self, out),
            // The page is written elsewhere.
            Format::Html => Ok(()),
        }
    }

    /// The speed of decisions, for the page.
    pub(super) fn figures(&self) -> Figures {
        let Summary { workers, seconds, decisions_per_second, latency, .. } = &self.summary;
        let Latency { p50_micros, p99_micros } = *latency;
        Figures {
            workers: *workers,
            seconds: *seconds,
            decisions_per_second: *decisions_per_second,
            p50_micros,
            p99_micros,
        }
    }

    fn print_table(&self, out: &mut dyn Write) -> io::Result<()> {
        for line in Rollout::lines(&self.rollouts).into_iter().chain(GroupResult::lines(&self.groups)) {
            writeln!(out, "{}", printable(&line))?;
        }
        if !self.placements.is_empty() {
            let table = table(["POD", "NODE", "MESSAGE"], shown(&self.placements));
            writeln!(out, "{}\n", table.trim_fmt())?;
        }
        if !self.preemptions.is_empty() {
            let rows = self.preemptions.iter().take(MOST_ROWS).map(Preempted::cells);
            writeln!(out, "{}", table(["PREEMPTED", "NODE", "BY"], rows).trim_fmt())?;
            if self.preemptions.len() > MOST_ROWS {
                let left_out = self.preemptions.len() - MOST_ROWS;
                writeln!(out, "{left_out} preempted pods are left out here; print them all with -o json")?;
            }
            writeln!(out)?;
        }
        let Summary { nodes, bound_pods, pods, placed, pending, workers, latency, worker_messages, .. } = &self.summary;
        writeln!(out, "nodes      {nodes}, with {bound_pods} pods on them before")?;
        writeln!(out, "pods       {pods}: {placed} placed, {pending} pending")?;
        writeln!(
            out,
            "decisions  {:.0} per second over {:.3} s by {workers} workers; each p50 {:.1} us, p99 {:.1} us",
            self.summary.decisions_per_second, self.summary.seconds, latency.p50_micros, latency.p99_micros
        )?;
        let WorkerMessages { sent, sent_bytes, received, received_bytes } = *worker_messages;
        let (sent_bytes, received_bytes) = (BinaryBytes(sent_bytes), BinaryBytes(received_bytes));
        writeln!(out, "messages   {sent} to workers ({sent_bytes}), {received} from workers ({received_bytes})")?;
        if self.summary.resources.is_empty() {
            return Ok(());
        }
        let table =
            table(["RESOURCE", "ALLOCATABLE", "BEFORE", "AFTER"], self.summary.resources.iter().map(usage_cells));
        writeln!(out, "\n{}", table.trim_fmt())
    }
}

impl Preempted<'_> {
    fn cells(&self) -> [Cell; 3] {
        [&self.pod, self.node, self.by].map(|text| Cell::new(printable(text)))
    }
}

/// The pod groups of the decided pods.
fn group_results((cluster, groups): (&Cluster, &Groups), outcome: &SimulationResult) -> Vec<GroupResult> {
    let decided: Set<&str> = outcome.placements.iter().map(|placement| &*placement.pod.uid).collect();
    let gone: Set<&str> = outcome.gone(cluster).map(|pod| &*pod.uid).collect();
    let bound = cluster.bound.iter().filter(|pod| !gone.contains(&*pod.uid));
    let bound = bound.map(|pod| (&**pod, pod.node_name.as_deref()));
    let placed = outcome.placements.iter().map(|placement| (&*placement.pod, placement.node.as_deref()));
    GroupResult::all((cluster, groups), bound.chain(placed), |pod| decided.contains(&*pod.uid))
}

/// The rows of a table, shortened if there are too many.
fn shown(rows: &[Row<'_>]) -> Vec<[Cell; 3]> {
    if rows.len() <= MOST_ROWS {
        return rows.iter().map(Row::cells).collect();
    }
    let (first, rest) = rows.split_at(FIRST_ROWS);
    let (left_out, last) = rest.split_at(rest.len() - LAST_ROWS);
    let note = format!("{} pods are left out here; print them all with -o json", left_out.len());
    let note = ["...", "...", &note].map(Cell::new);
    first.iter().map(Row::cells).chain([note]).chain(last.iter().map(Row::cells)).collect()
}

fn usage_cells(usage: &Usage) -> [Cell; 4] {
    let share = |share: usage::Share| format!("{} ({}%)", share.used.rounded(), share.percent);
    let name = printable(&usage.name).into_owned();
    [name, usage.allocatable.rounded(), share(usage.before), share(usage.after)].map(Cell::new)
}

impl<'a> Row<'a> {
    fn new(placement: &'a Placement) -> Self {
        let node = placement.node.as_deref().unwrap_or_default();
        let first_message = placement.first_message.as_deref();
        let nominated_node = placement.nominated_node.as_deref();
        Self { pod: placement.pod.key(), node, message: &placement.message, first_message, nominated_node }
    }

    fn cells(&self) -> [Cell; 3] {
        let node = if self.node.is_empty() { Cow::Borrowed("-") } else { printable(self.node) };
        let message = Cell::new(printable(self.message));
        let message = if has_colours(&io::stdout()) { message.fg(Color::Yellow) } else { message };
        [Cell::new(printable(&self.pod)), Cell::new(node), message]
    }
}

/// The percentile of the latencies, which are `sorted`.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

fn micros(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e7).round() / 10.0
}

#[expect(clippy::cast_precision_loss, reason = "a rate needs few digits")]
fn rate(count: usize, took: Duration) -> f64 {
    if took.is_zero() { 0.0 } else { (count as f64 / took.as_secs_f64() * 10.0).round() / 10.0 }
}

#[cfg(test)]
mod tests;
