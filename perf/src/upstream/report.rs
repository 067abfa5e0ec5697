//! The report of scheduler_perf's workloads.

use std::fmt::Write as _;

use serde::Serialize;

use super::{
    results::{Outcome, Phase, Run},
    workloads::Workload,
};
use crate::{
    report::tables::{ratio, table},
    schedulers::Scheduler,
};

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    schedulers: Vec<Scheduler>,
    rows: Vec<Row>,
    /// Workloads that cannot run with a scheduler in another process.
    skipped: Vec<Workload>,
    runs: Vec<Run>,
}

/// One measured operation of a workload, with each scheduler in the order of `Report::schedulers`.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Row {
    package: String,
    workload: String,
    /// Kubernetes' threshold in pods per second; 0 if there is none.
    threshold: f64,
    cells: Vec<Cell>,
    /// Ratio of Flotilla's pods per second to those of another scheduler.
    to_kube_scheduler: Option<f64>,
    to_ceiling: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Cell {
    Measured(Phase),
    Skipped,
    Failed,
    /// Not run, because the command was interrupted.
    Missing,
}

impl Report {
    pub(crate) fn new(schedulers: &[Scheduler], workloads: &[Workload], runs: Vec<Run>) -> Self {
        let (skipped, chosen): (Vec<&Workload>, Vec<&Workload>) =
            workloads.iter().partition(|workload| !workload.skip.is_empty());
        let rows = chosen.into_iter().flat_map(|workload| rows(schedulers, workload, &runs)).collect();
        let skipped = skipped.into_iter().cloned().collect();
        Self { schedulers: schedulers.to_vec(), rows, skipped, runs }
    }

    /// The table, and below it each skipped and failed run.
    pub(crate) fn text(&self) -> String {
        let names = |what: &'static str| self.schedulers.iter().map(move |one| format!("{} {what}", one.name()));
        let mut columns = vec!["package".to_owned(), "workload".to_owned()];
        columns.extend(names("pods/s"));
        columns.extend(["to kube-scheduler", "to ceiling"].map(str::to_owned));
        columns.extend(names("CPU s/1,000 pods").chain(names("MiB")));
        columns.push("threshold".to_owned());
        let mut table = table(&columns, 2..columns.len());
        for row in &self.rows {
            let cpu =
                |phase: &Phase| phase.cpu_per_thousand().map_or_else(|| "-".to_owned(), |cpu| format!("{cpu:.2}"));
            let words = [row.package.clone(), row.workload.clone()].into_iter().chain(row.texts(rate));
            let words = words.chain([ratio(row.to_kube_scheduler), ratio(row.to_ceiling)]).chain(row.texts(cpu));
            let words = words.chain(row.texts(|phase| format!("{:.0}", phase.peak_mib())));
            let threshold = if row.threshold > 0.0 { format!("{:.0}", row.threshold) } else { String::new() };
            table.add_row(words.chain([threshold]));
        }
        let mut text = format!("{table}\n");
        for line in self.remarks() {
            _ = writeln!(text, "{line}");
        }
        text
    }

    fn remarks(&self) -> Vec<String> {
        let name = |run: &Run| format!("{} {}, {}", run.package, run.workload, run.scheduler.name());
        let of_run = |run: &Run| match &run.outcome {
            Outcome::Measured { .. } => None,
            Outcome::Skipped { reason } => Some(format!("skipped: {}: {reason}", name(run))),
            Outcome::Failed { reason, logs } => {
                Some(format!("failed: {}: {reason}; logs are in {}", name(run), logs.display()))
            }
        };
        let of_workload = |one: &Workload| format!("skipped: {} {}: {}", one.package, one.workload, one.skip);
        self.skipped.iter().map(of_workload).chain(self.runs.iter().filter_map(of_run)).collect()
    }
}

impl Row {
    fn texts<'a>(&'a self, of: impl Fn(&Phase) -> String + 'a) -> impl Iterator<Item = String> + 'a {
        self.cells.iter().map(move |cell| match cell {
            Cell::Measured(phase) => of(phase),
            Cell::Skipped => "skipped".to_owned(),
            Cell::Failed => "failed".to_owned(),
            Cell::Missing => "-".to_owned(),
        })
    }
}

/// Rows of a workload: one per operation, or one if no scheduler measured any.
fn rows(schedulers: &[Scheduler], workload: &Workload, runs: &[Run]) -> Vec<Row> {
    let find = |scheduler: &Scheduler| {
        let is_its = |run: &&Run| run.package == workload.package && run.workload == workload.workload;
        runs.iter().filter(is_its).find(|run| run.scheduler == *scheduler).map(|run| &run.outcome)
    };
    let outcomes: Vec<Option<&Outcome>> = schedulers.iter().map(find).collect();
    if outcomes.iter().all(Option::is_none) {
        return Vec::new();
    }
    let measured = outcomes.iter().filter_map(|outcome| match outcome {
        Some(Outcome::Measured { phases }) => Some(phases.iter().map(|phase| phase.name.as_str()).collect::<Vec<_>>()),
        _ => None,
    });
    let names = measured.max_by_key(Vec::len).unwrap_or_default();
    let several = names.len() > 1;
    let names = if names.is_empty() { vec![""] } else { names };
    let row = |name: &str| {
        let cells: Vec<Cell> = outcomes.iter().map(|outcome| cell(*outcome, name)).collect();
        let operation = name.strip_prefix(&workload.workload).filter(|_| several).unwrap_or_default();
        Row {
            package: workload.package.clone(),
            workload: format!("{}{operation}", workload.workload),
            threshold: workload.threshold,
            to_kube_scheduler: ratio_to(schedulers, &cells, Scheduler::Stock),
            to_ceiling: ratio_to(schedulers, &cells, Scheduler::Ceiling),
            cells,
        }
    };
    names.into_iter().map(row).collect()
}

fn cell(outcome: Option<&Outcome>, name: &str) -> Cell {
    match outcome {
        Some(Outcome::Measured { phases }) => {
            phases.iter().find(|phase| phase.name == name).map_or(Cell::Missing, |phase| Cell::Measured(phase.clone()))
        }
        Some(Outcome::Skipped { .. }) => Cell::Skipped,
        Some(Outcome::Failed { .. }) => Cell::Failed,
        None => Cell::Missing,
    }
}

fn ratio_to(schedulers: &[Scheduler], cells: &[Cell], other: Scheduler) -> Option<f64> {
    let average = |wanted: Scheduler| {
        let index = schedulers.iter().position(|scheduler| *scheduler == wanted)?;
        match cells.get(index)? {
            Cell::Measured(phase) => phase.throughput.map(|throughput| throughput.average),
            _ => None,
        }
    };
    Some(average(Scheduler::Flotilla)? / average(other)?)
}

/// Average of SchedulingThroughput, or the pods and their duration if it was not sampled.
fn rate(phase: &Phase) -> String {
    phase.throughput.map_or_else(
        || format!("{} in {:.1} s", phase.pods, phase.seconds),
        |throughput| format!("{:.0}", throughput.average),
    )
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::PathBuf};

    use super::*;
    use crate::upstream::results::Throughput;

    const SCHEDULERS: [Scheduler; 3] = [Scheduler::Ceiling, Scheduler::Stock, Scheduler::Flotilla];

    fn workload(name: &str, threshold: f64, skip: &str) -> Workload {
        let (package, workload, skip) = ("misc".to_owned(), name.to_owned(), skip.to_owned());
        Workload { package, workload, threshold, skip, patterns: Vec::new() }
    }

    fn phase(name: &str, average: f64) -> Phase {
        Phase {
            name: name.to_owned(),
            throughput: (average > 0.0).then(|| Throughput { average, ..Throughput::default() }),
            seconds: 2.0,
            pods: 1000.0,
            cpu_s: BTreeMap::from([("process".to_owned(), 0.5)]),
            peak_bytes: BTreeMap::from([("process".to_owned(), 64.0 * 1024.0 * 1024.0)]),
        }
    }

    fn run(workload: &str, scheduler: Scheduler, outcome: Outcome) -> Run {
        Run { package: "misc".to_owned(), workload: workload.to_owned(), scheduler, seconds: 9.0, outcome }
    }

    fn measured(workload: &str, averages: [f64; 3]) -> Vec<Run> {
        let outcome = |average| Outcome::Measured { phases: vec![phase(&format!("{workload}/namespace-1"), average)] };
        SCHEDULERS.into_iter().zip(averages).map(|(one, average)| run(workload, one, outcome(average))).collect()
    }

    fn cells(report: &Report, start: &str) -> Vec<String> {
        let text = report.text();
        let line = text.lines().find(|line| line.contains(start)).unwrap_or_default();
        line.split('|').map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect()
    }

    #[test]
    fn a_row_has_the_throughput_of_each_scheduler_and_the_ratios_of_flotilla() {
        let report = Report::new(&SCHEDULERS, &[workload("A/B", 270.0, "")], measured("A/B", [1000.0, 400.0, 800.0]));
        let figures = ["1000", "400", "800", "2.00", "0.80", "0.50", "0.50", "0.50", "64", "64", "64", "270"];
        assert_eq!(cells(&report, "A/B"), [&["misc", "A/B"][..], &figures].concat());
    }

    #[test]
    fn a_failed_run_keeps_its_row_and_has_its_reason_below_the_table() {
        let mut runs = measured("A/B", [1000.0, 400.0, 0.0]);
        runs[2].outcome = Outcome::Failed { reason: "not scheduled".to_owned(), logs: PathBuf::from("logs") };
        let report = Report::new(&SCHEDULERS, &[workload("A/B", 0.0, "")], runs);
        assert_eq!(cells(&report, "| A/B")[4..7], ["failed", "-", "-"]);
        let text = report.text();
        assert!(text.ends_with("failed: misc A/B, flotilla: not scheduled; logs are in logs\n"), "{text}");
    }

    #[test]
    fn a_workload_without_two_samples_shows_its_pods_and_duration_and_has_no_ratio() {
        let report = Report::new(&SCHEDULERS, &[workload("A/B", 0.0, "")], measured("A/B", [0.0, 400.0, 0.0]));
        assert_eq!(cells(&report, "A/B")[2..7], ["1000 in 2.0 s", "400", "1000 in 2.0 s", "-", "-"]);
    }

    #[test]
    fn a_workload_that_cannot_run_externally_is_listed_with_its_reason_and_has_no_row() {
        let report = Report::new(&SCHEDULERS, &[workload("A/B", 0.0, "reason")], Vec::new());
        assert!(report.text().ends_with("skipped: misc A/B: reason\n"), "{}", report.text());
        assert!(report.rows.is_empty());
    }

    #[test]
    fn each_measured_operation_has_a_row() {
        let phases = vec![phase("A/B/first", 10.0), phase("A/B/second", 20.0)];
        let runs = vec![run("A/B", Scheduler::Flotilla, Outcome::Measured { phases })];
        let report = Report::new(&[Scheduler::Flotilla], &[workload("A/B", 0.0, "")], runs);
        let names: Vec<&str> = report.rows.iter().map(|row| row.workload.as_str()).collect();
        assert_eq!(names, ["A/B/first", "A/B/second"]);
    }

    #[test]
    fn a_workload_that_an_interrupt_left_out_has_no_row() {
        let report =
            Report::new(&SCHEDULERS, &[workload("A/B", 0.0, ""), workload("C/D", 0.0, "")], measured("A/B", [1.0; 3]));
        assert_eq!(report.rows.len(), 1);
    }

    #[test]
    fn the_json_has_rows_with_cells_by_scheduler_and_all_runs() {
        let report = Report::new(&SCHEDULERS, &[workload("A/B", 270.0, "")], measured("A/B", [1000.0, 400.0, 800.0]));
        let json = serde_json::to_value(report).expect("it is data");
        assert_eq!(json["schedulers"], serde_json::json!(["ceiling", "kube-scheduler", "flotilla"]));
        assert_eq!(json["rows"][0]["to_kube_scheduler"], 2.0);
        assert_eq!(json["rows"][0]["cells"][2]["measured"]["throughput"]["average"], 800.0);
        assert_eq!(json["runs"][0]["outcome"]["result"], "measured");
    }
}
