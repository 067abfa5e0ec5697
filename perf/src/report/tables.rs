//! The report as tables for people.
//!
//! Knows: columns. Must not know: how a figure is computed.

use std::{fmt::Write as _, ops::Range};

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};

use super::{LOAD, Process, Report, SERVERS, Summary};
use crate::measured::Measured;

/// The rows of requests that are shown for each run; JSON has all.
const REQUEST_ROWS: usize = 12;

impl Report {
    /// All tables, as text.
    pub(crate) fn tables(&self) -> String {
        let mut text = String::new();
        let parts = [
            ("Pods bound per second", self.rates()),
            ("From created to bound, in milliseconds", self.latencies()),
            ("CPU seconds per thousand pods", self.cpu()),
            ("Resident memory at most, in MiB", self.memory()),
            ("Requests at the API server in the first round", self.requests()),
        ];
        for (heading, table) in parts {
            _ = writeln!(text, "{heading}\n\n{table}\n");
        }
        for line in self.shortcomings() {
            _ = writeln!(text, "{line}");
        }
        text
    }

    fn rates(&self) -> Table {
        let mut table = table(&["shape", "scheduler", "rounds", "median", "lowest", "highest", "to ceiling", "to kube-scheduler"], 2..8);
        for summary in &self.summaries {
            table.add_row([
                summary.shape.name().to_owned(),
                summary.scheduler.name().to_owned(),
                summary.rounds.to_string(),
                whole(summary.pods_per_second),
                whole(summary.lowest),
                whole(summary.highest),
                ratio(summary.to_ceiling),
                ratio(summary.to_kube_scheduler),
            ]);
        }
        table
    }

    fn latencies(&self) -> Table {
        let mut table = table(&["shape", "scheduler", "p50", "p99", "max"], 2..5);
        for summary in &self.summaries {
            let values = [summary.p50_ms, summary.p99_ms, summary.max_ms].map(|value| format!("{value:.1}"));
            table.add_row(names(summary).into_iter().chain(values));
        }
        table
    }

    fn cpu(&self) -> Table {
        let columns =
            ["shape", "scheduler", "kube-apiserver", "etcd", "load", "scheduler's own", "to servers'", "of which"];
        let mut table = table(&columns, 2..7);
        for summary in &self.summaries {
            let servers = SERVERS.map(|name| sum(summary.processes.iter().filter(|process| process.name == name)));
            let load = sum(summary.processes.iter().filter(|process| LOAD.contains(&process.name.as_str())));
            let own = sum(summary.own());
            let figures = [servers[0], servers[1], load, own].map(|seconds| format!("{seconds:.2}"));
            let parts = summary.own().map(|process| format!("{} {:.2}", process.name, process.cpu_s_per_thousand));
            let rest = [ratio(summary.own_cpu_share), parts.collect::<Vec<_>>().join(", ")];
            table.add_row(names(summary).into_iter().chain(figures).chain(rest));
        }
        table
    }

    fn memory(&self) -> Table {
        let mut table = table(&["shape", "scheduler", "kube-apiserver", "etcd", "of the scheduler"], 2..4);
        for summary in &self.summaries {
            let mib = |process: &Process| process.peak_bytes >> 20;
            let server = |name: &str| summary.processes.iter().find(|process| process.name == name).map_or(0, mib);
            let own = summary.own().map(|process| format!("{} {}", process.name, mib(process)));
            let figures = SERVERS.map(|name| server(name).to_string());
            table.add_row(names(summary).into_iter().chain(figures).chain([own.collect::<Vec<_>>().join(", ")]));
        }
        table
    }

    fn requests(&self) -> Table {
        let columns = ["shape", "scheduler", "verb", "kind", "requests", "refused", "bytes in", "bytes out"];
        let mut table = table(&columns, 4..8);
        for run in self.runs.iter().filter(|run| run.round == 1) {
            for row in run.requests.iter().take(REQUEST_ROWS) {
                let values = [row.requests, row.refused, row.request_bytes, row.response_bytes].map(whole);
                let words = [run.shape.name(), run.scheduler.name(), &row.verb, &row.resource].map(str::to_owned);
                table.add_row(words.into_iter().chain(values));
            }
        }
        table
    }

    /// What a reader of the figures has to know of the runs.
    fn shortcomings(&self) -> Vec<String> {
        let run = |run: &Measured| format!("{}, round {}, {}", run.shape.name(), run.round, run.scheduler.name());
        let mut lines = Vec::new();
        for one in &self.runs {
            if !one.is_complete() {
                lines.push(format!("{}: only {} of {} pods were bound", run(one), one.rate.bound, one.size.pods));
            }
            lines.extend(one.misplaced.iter().map(|what| format!("{}: {what}", run(one))));
        }
        lines
    }
}

fn names(summary: &Summary) -> [String; 2] {
    [summary.shape.name().to_owned(), summary.scheduler.name().to_owned()]
}

fn sum<'a>(processes: impl Iterator<Item = &'a Process>) -> f64 {
    processes.map(|process| process.cpu_s_per_thousand).sum()
}

/// A table in the form of Markdown; these of its columns hold numbers.
fn table(columns: &[&str], numbers: Range<usize>) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(columns);
    for column in table.column_iter_mut().skip(numbers.start).take(numbers.len()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A number without decimals, in groups of three digits.
fn whole(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}
