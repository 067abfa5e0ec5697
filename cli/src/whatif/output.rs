//! The answer as text.

use std::io::{self, Write};

use comfy_table::Cell;

use super::{
    Format,
    compare::{Answer, Bottleneck, Change, Resource, Row, Share, Totals, Zone},
    drains::Drain,
};
use crate::{
    groups::GroupResult,
    output::{json, printable, table, yaml},
    rollouts::Rollout,
};

const MOST_ROWS: usize = 100;
const MOST_NAMES: usize = 5;
const OF_ZONES: [&str; 3] = ["cpu", "memory", "pods"];

impl Answer {
    pub(super) fn print(&self, format: Format, out: &mut dyn Write) -> io::Result<()> {
        match format {
            Format::Table => self.print_table(out),
            Format::Json => json(self, out),
            Format::Yaml => yaml(self, out),
            // The page is written elsewhere.
            Format::Html => Ok(()),
        }
    }

    fn print_table(&self, out: &mut dyn Write) -> io::Result<()> {
        for change in &self.changes {
            writeln!(out, "{}", printable(change))?;
            let drain = self.drains.iter().find(|drain| drain.message == *change);
            for cause in drain.into_iter().flat_map(Drain::causes) {
                writeln!(out, "  {}", printable(&cause))?;
            }
        }
        self.removal.iter().try_for_each(|removal| removal.print(out))?;
        for line in Rollout::lines(&self.rollouts).into_iter().chain(GroupResult::lines(&self.groups)) {
            writeln!(out, "{}", printable(&line))?;
        }
        self.print_pods(out)?;
        if !self.preemptions.is_empty() {
            let cells = self
                .preemptions
                .iter()
                .take(MOST_ROWS)
                .map(|one| [&one.pod, &one.node, &one.by].map(|text| Cell::new(printable(text))));
            writeln!(out, "{}\n", table(["PREEMPTED", "ON", "BY"], cells).trim_fmt())?;
        }
        let difference =
            |name: &str, of: fn(&Totals) -> usize| format!("{name} {}", arrow(of(&self.before), of(&self.after)));
        let totals = [
            difference("nodes", |totals| totals.nodes),
            difference("pods", |totals| totals.pods),
            difference("pending", |totals| totals.pending),
        ];
        writeln!(out, "{}\n", totals.join(", "))?;
        let rows = self.resources.iter().map(resource_cells);
        writeln!(out, "{}", table(["RESOURCE", "ALLOCATABLE", "USED BEFORE", "USED AFTER"], rows).trim_fmt())?;
        if !self.zones.is_empty() {
            writeln!(
                out,
                "\n{}",
                table(["ZONE", "NODES", "CPU", "MEMORY", "PODS"], self.zones.iter().map(zone_cells)).trim_fmt()
            )?;
        }
        self.bottleneck.iter().try_for_each(|bottleneck| print_bottleneck(bottleneck, out))
    }

    /// Prints the pods with another outcome. Pods that only change from one simulated node to another are counted.
    fn print_pods(&self, out: &mut dyn Write) -> io::Result<()> {
        let (elsewhere, pods): (Vec<&Row>, Vec<&Row>) =
            self.pods.iter().partition(|row| row.change == Change::Elsewhere);
        let (waiting, pods): (Vec<&Row>, Vec<&Row>) = pods.into_iter().partition(|row| row.change == Change::Waiting);
        if !self.changes.is_empty() {
            writeln!(out)?;
        }
        if pods.is_empty() {
            writeln!(out, "no placement differs")?;
        } else {
            let shown = pods.iter().take(MOST_ROWS).map(|row| cells(row));
            writeln!(out, "{}", table(["POD", "CHANGE", "BEFORE", "AFTER", "MESSAGE"], shown).trim_fmt())?;
            if pods.len() > MOST_ROWS {
                writeln!(out, "... and {} more pods; -o json has them all", pods.len() - MOST_ROWS)?;
            }
        }
        match elsewhere.len() {
            0 => {}
            1 => writeln!(out, "1 pod that has no node yet would go to another one; -o json has it")?,
            count => writeln!(out, "{count} pods that have no node yet would go to others; -o json has them")?,
        }
        if !waiting.is_empty() {
            let cells = waiting
                .iter()
                .take(MOST_ROWS)
                .map(|row| [&row.pod, &row.message].map(|text| Cell::new(printable(text))));
            writeln!(out, "\n{}", table(["STILL PENDING", "MESSAGE"], cells).trim_fmt())?;
            if waiting.len() > MOST_ROWS {
                writeln!(out, "... and {} more pods; -o json has them all", waiting.len() - MOST_ROWS)?;
            }
        }
        writeln!(out)
    }
}

fn print_bottleneck(bottleneck: &Bottleneck, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nfirst bottleneck: {} stays pending", printable(&bottleneck.pod))?;
    if !bottleneck.message.is_empty() {
        writeln!(out, "  {}", printable(&bottleneck.message))?;
    }
    if let Some(refusal) = bottleneck.refusals.first().filter(|refusal| !refusal.lacks.is_empty()) {
        writeln!(
            out,
            "  the nearest misses lack {}: {}",
            printable(&refusal.lacks),
            printable(&names(&refusal.nearest))
        )?;
    }
    bottleneck.advice.iter().try_for_each(|advice| writeln!(out, "  {}", printable(advice)))
}

pub(crate) fn names(all: &[String]) -> String {
    let shown = all[..all.len().min(MOST_NAMES)].join(", ");
    if all.len() > MOST_NAMES { format!("{shown} and {} more", all.len() - MOST_NAMES) } else { shown }
}

fn arrow<T: ToString + PartialEq>(before: T, after: T) -> String {
    if before == after { before.to_string() } else { format!("{} -> {}", before.to_string(), after.to_string()) }
}

fn cells(row: &Row) -> [Cell; 5] {
    let node = |node: &Option<String>| node.as_deref().map_or("-", |node| node).to_owned();
    let (before, after) = (node(&row.before), node(&row.after));
    [row.pod.as_str(), row.change.word(), &before, &after, &row.message].map(|text| Cell::new(printable(text)))
}

fn used(share: &Share) -> String {
    format!("{} ({}%)", share.used.rounded(), share.percent)
}

fn resource_cells(resource: &Resource) -> [Cell; 4] {
    let Resource { name, before, after } = resource;
    let allocatable = arrow(before.allocatable.rounded(), after.allocatable.rounded());
    [printable(name).into_owned(), allocatable, used(before), used(after)].map(Cell::new)
}

fn zone_cells(zone: &Zone) -> [Cell; 5] {
    let percent = |name: &str| {
        let resource = zone.resources.iter().find(|resource| resource.name == name);
        resource.map_or_else(
            || "-".to_owned(),
            |resource| arrow(format!("{}%", resource.before.percent), format!("{}%", resource.after.percent)),
        )
    };
    let [cpu, memory, pods] = OF_ZONES.map(percent);
    [printable(&zone.zone).into_owned(), arrow(zone.nodes_before, zone.nodes_after), cpu, memory, pods].map(Cell::new)
}
