//! The report as tables.

use std::{fmt::Write as _, ops::Range};

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};

use super::{LOAD, Process, Report, SERVERS, Summary};
use crate::{measured::Measured, requests::Row, schedulers::Scheduler, shape::Shape};

/// Minimum of requests per pod for a row; the JSON output contains all requests.
const LEAST_SHARE: f64 = 0.01;

impl Report {
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
        let columns = [
            "shape",
            "scheduler",
            "rounds",
            "median",
            "lowest",
            "highest",
            "to ceiling",
            "to ceiling-events",
            "to kube-scheduler",
            "p50",
            "p90",
            "p99",
            "elsewhere",
        ];
        let mut table = table(&columns, 2..columns.len());
        for summary in &self.summaries {
            let rates = [summary.pods_per_second, summary.lowest, summary.highest].map(whole);
            let ratios = [summary.to_ceiling, summary.to_ceiling_with_events, summary.to_kube_scheduler].map(ratio);
            let seconds = [summary.p50_per_second, summary.p90_per_second, summary.p99_per_second].map(whole);
            let elsewhere = format!("{:.0} %", summary.elsewhere * 100.0);
            let row = names(summary).into_iter().chain([summary.rounds.to_string()]);
            table.add_row(row.chain(rates).chain(ratios).chain(seconds).chain([elsewhere]));
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

    /// Lists the schedulers side by side, so that requests of only one scheduler are visible.
    fn requests(&self) -> Table {
        let schedulers: Vec<Scheduler> =
            Scheduler::ALL.into_iter().filter(|one| self.runs.iter().any(|run| run.scheduler == *one)).collect();
        let mut columns = vec!["shape".to_owned(), "verb".to_owned(), "kind".to_owned()];
        for scheduler in &schedulers {
            columns.push(scheduler.name().to_owned());
            columns.extend(["KB in", "KB out", "ms"].map(str::to_owned));
        }
        let mut table = table(&columns, 3..columns.len());
        for shape in Shape::ALL {
            let runs: Vec<Option<&Measured>> =
                schedulers.iter().map(|scheduler| self.first_round(shape, *scheduler)).collect();
            for (verb, resource) in kinds(&runs) {
                let of = |run: &Option<&Measured>| {
                    let rows = run.map(|run| run.requests.as_slice()).unwrap_or_default();
                    cells(rows.iter().find(|row| row.verb == verb && row.resource == resource))
                };
                let words = [shape.name(), verb, resource].map(str::to_owned);
                table.add_row(words.into_iter().chain(runs.iter().flat_map(of)));
            }
        }
        table
    }

    fn first_round(&self, shape: Shape, scheduler: Scheduler) -> Option<&Measured> {
        self.runs.iter().find(|run| run.round == 1 && run.shape == shape && run.scheduler == scheduler)
    }

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

/// Kinds of requests with at least one per hundred pods in some run.
fn kinds<'a>(runs: &[Option<&'a Measured>]) -> Vec<(&'a str, &'a str)> {
    let mut found = Vec::new();
    for run in runs.iter().flatten() {
        let many = f64::from(run.size.pods) * LEAST_SHARE;
        for row in run.requests.iter().filter(|row| row.requests >= many || row.refused + row.watches_ended > 0.0) {
            if !found.contains(&(row.verb.as_str(), row.resource.as_str())) {
                found.push((&row.verb, &row.resource));
            }
        }
    }
    found
}

/// Requests and refused requests, or events and terminated slow watches; KB in and out, and the mean time.
fn cells(row: Option<&Row>) -> [String; 4] {
    let Some(row) = row else { return [const { String::new() }; 4] };
    let count = whole(row.requests);
    let count = match (row.refused, row.watches_ended) {
        (refused, _) if refused > 0.0 => format!("{count} ({} refused)", whole(refused)),
        (_, ended) if ended > 0.0 => format!("{count} ({} watches ended)", whole(ended)),
        _ => count,
    };
    let unless_zero = |value: f64, text: String| if value > 0.0 { text } else { String::new() };
    let kb = |bytes: f64| unless_zero(bytes, whole(bytes / 1000.0));
    [count, kb(row.request_bytes), kb(row.response_bytes), unless_zero(row.mean_ms, format!("{:.1}", row.mean_ms))]
}

fn names(summary: &Summary) -> [String; 2] {
    [summary.shape.name().to_owned(), summary.scheduler.name().to_owned()]
}

fn sum<'a>(processes: impl Iterator<Item = &'a Process>) -> f64 {
    processes.map(|process| process.cpu_s_per_thousand).sum()
}

/// Markdown table; `numbers` are the numeric columns.
pub(crate) fn table<T: ToString>(columns: &[T], numbers: Range<usize>) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(columns.iter().map(T::to_string));
    for column in table.column_iter_mut().skip(numbers.start).take(numbers.len()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

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

pub(crate) fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}
