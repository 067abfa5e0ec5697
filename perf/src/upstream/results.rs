//! Results of one workload with one scheduler.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitStatus,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::schedulers::Scheduler;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Run {
    pub(crate) package: String,
    pub(crate) workload: String,
    pub(crate) scheduler: Scheduler,
    /// Duration with the start and the end of the API server.
    pub(crate) seconds: f64,
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "result")]
pub(crate) enum Outcome {
    /// One phase per measured operation of the workload.
    Measured { phases: Vec<Phase> },
    /// The scheduler does not support the workload.
    Skipped { reason: String },
    /// The pods were not scheduled in time, or a process failed.
    Failed { reason: String, logs: PathBuf },
}

/// Measurements of one operation.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Phase {
    pub(crate) name: String,
    /// SchedulingThroughput in pods per second: average and percentiles. Absent if pods were bound in less than two samples of a second.
    pub(crate) throughput: Option<Throughput>,
    /// SchedulingDuration: from the first creation to the end of the operation.
    pub(crate) seconds: f64,
    /// Pods bound in all namespaces during the operation.
    pub(crate) pods: f64,
    /// CPU seconds during the operation, by process.
    pub(crate) cpu_s: BTreeMap<String, f64>,
    /// Maximum resident memory from the start of each process to the end of the operation.
    pub(crate) peak_bytes: BTreeMap<String, f64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Throughput {
    pub(crate) average: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
}

impl Run {
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed { .. })
    }

    pub(crate) fn line(&self) -> String {
        let result = match &self.outcome {
            Outcome::Measured { phases } => phases.iter().map(Phase::line).collect::<Vec<_>>().join("; "),
            Outcome::Skipped { reason } => format!("skipped: {reason}"),
            Outcome::Failed { reason, logs } => format!("failed: {reason}; logs are in {}", logs.display()),
        };
        format!("{result} ({:.0} s)", self.seconds)
    }
}

impl Outcome {
    /// Names the timeout as the reason of a failure, unless the harness has reported it.
    pub(crate) fn explain_timeout(&mut self, timeout: Duration) {
        if let Self::Failed { reason, .. } = self
            && !reason.contains("timed out")
        {
            *reason = format!("timed out after {} s: {reason}", timeout.as_secs());
        }
    }
}

impl Phase {
    /// CPU seconds of all processes per thousand pods.
    pub(crate) fn cpu_per_thousand(&self) -> Option<f64> {
        (self.pods > 0.0).then(|| self.cpu_s.values().sum::<f64>() * 1000.0 / self.pods)
    }

    /// Sum of the maximum memory of all processes.
    pub(crate) fn peak_mib(&self) -> f64 {
        self.peak_bytes.values().sum::<f64>() / f64::from(1 << 20)
    }

    fn line(&self) -> String {
        let rate = self.throughput.map_or_else(
            || "no SchedulingThroughput".to_owned(),
            |throughput| format!("{:.1} pods/s", throughput.average),
        );
        format!("{rate}, {} pods in {:.1} s, {:.0} MiB", self.pods, self.seconds, self.peak_mib())
    }
}

#[derive(Deserialize)]
struct Items {
    #[serde(default, rename = "dataItems")]
    items: Option<Vec<Item>>,
}

#[derive(Deserialize)]
struct Item {
    data: Option<BTreeMap<String, f64>>,
    labels: Option<BTreeMap<String, String>>,
}

/// Parses the file of scheduler_perf's results. Metrics of kube-scheduler's process are absent there.
pub(crate) fn parse(text: &str) -> serde_json::Result<Vec<Phase>> {
    let items: Items = serde_json::from_str(text)?;
    let mut phases: Vec<Phase> = Vec::new();
    for Item { data, labels } in items.items.unwrap_or_default() {
        let (data, labels) = (data.unwrap_or_default(), labels.unwrap_or_default());
        let (value, label) = (|key: &str| data.get(key).copied(), |key: &str| labels.get(key).cloned());
        let name = label("Name").unwrap_or_default();
        let index = phases.iter().position(|phase| phase.name == name).unwrap_or_else(|| {
            phases.push(Phase { name, ..Phase::default() });
            phases.len() - 1
        });
        let phase = &mut phases[index];
        match label("Metric").as_deref() {
            Some("SchedulingThroughput") => phase.throughput = throughput(&data),
            Some("SchedulingDuration") => phase.seconds = value("Duration").unwrap_or_default(),
            Some("SchedulerUsage") => {
                let process = label("process").unwrap_or_default();
                phase.pods = value("Pods").unwrap_or_default();
                phase.cpu_s.insert(process.clone(), value("CPUSeconds").unwrap_or_default());
                phase.peak_bytes.insert(process, value("PeakBytes").unwrap_or_default());
            }
            _ => {}
        }
    }
    Ok(phases)
}

fn throughput(data: &BTreeMap<String, f64>) -> Option<Throughput> {
    let value = |key: &str| data.get(key).copied();
    Some(Throughput {
        average: value("Average")?,
        p50: value("Perc50")?,
        p90: value("Perc90")?,
        p95: value("Perc95")?,
        p99: value("Perc99")?,
    })
}

#[derive(Deserialize)]
struct Reported {
    event: String,
    why: String,
}

/// The failed or skipped workload in the harness's report; `None` if it reports neither.
pub(crate) fn reported(report: &str, logs: &Path) -> Option<Outcome> {
    let lines = report.lines().filter_map(|line| serde_json::from_str::<Reported>(line).ok());
    let outcome = |Reported { event, why: reason }: Reported| match event.as_str() {
        "failed" => Some(Outcome::Failed { reason, logs: logs.to_owned() }),
        "skipped" => Some(Outcome::Skipped { reason }),
        _ => None,
    };
    lines.filter_map(outcome).next_back()
}

/// Reason of a failure that the harness did not report.
pub(crate) fn last_error(output: &str, status: ExitStatus) -> String {
    const SIGNS: [&str; 4] = ["panic: ", "FATAL ERROR:", "ERROR:", ".go:"];
    let lines: Vec<&str> = output.lines().map(str::trim).collect();
    let find = |sign: &&str| lines.iter().position(|line| line.contains(*sign));
    let index = SIGNS.iter().find_map(find).unwrap_or_else(|| lines.len().saturating_sub(1));
    // The text of an error may begin on the next line.
    let count = 1 + usize::from(lines.get(index).is_some_and(|line| line.ends_with(':')));
    let words: Vec<&str> = lines.into_iter().skip(index).take(count).collect();
    format!("the benchmark program ended with {status}: {}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    const RESULTS: &str = r#"{"version": "v1", "dataItems": [
        {"data": {"Average": 812.5, "AverageThreshold": 270, "Perc50": 800, "Perc90": 900, "Perc95": 901, "Perc99": 902},
         "unit": "pods/s", "labels": {"Metric": "SchedulingThroughput", "Name": "A/B/namespace-2", "process": "not applicable"}},
        {"data": {"Max": 5}, "unit": "MB", "labels": {"Metric": "heap_memory_usage", "Name": "A/B/namespace-2"}},
        {"data": {"Duration": 4}, "unit": "s", "labels": {"Metric": "SchedulingDuration", "Name": "A/B/namespace-2"}},
        {"data": {"CPUSeconds": 1, "PeakBytes": 2097152, "Pods": 2000}, "unit": "s",
         "labels": {"Metric": "SchedulerUsage", "Name": "A/B/namespace-2", "process": "coordinator"}},
        {"data": {"CPUSeconds": 2, "PeakBytes": 1048576, "Pods": 2000}, "unit": "s",
         "labels": {"Metric": "SchedulerUsage", "Name": "A/B/namespace-2", "process": "worker-0"}},
        {"data": null, "unit": "", "labels": {"Metric": "not applicable", "Name": "A/B/namespace-3"}}
    ]}"#;

    #[test]
    fn the_usage_of_a_scheduler_is_that_of_all_its_processes() {
        let phases = parse(RESULTS).expect("it is valid");
        let phase = &phases[0];
        assert_eq!((phase.cpu_per_thousand(), phase.peak_mib(), phase.seconds), (Some(1.5), 3.0, 4.0));
        assert_eq!(phase.throughput.map(|throughput| (throughput.average, throughput.p99)), Some((812.5, 902.0)));
    }

    #[test]
    fn an_operation_without_two_samples_has_no_throughput() {
        let phases = parse(RESULTS).expect("it is valid");
        assert_eq!(phases.len(), 2);
        assert_eq!((phases[1].throughput, phases[1].cpu_per_thousand()), (None, None));
        assert!(phases[1].line().starts_with("no SchedulingThroughput"), "{}", phases[1].line());
        assert!(parse(r#"{"version": "v1", "dataItems": null}"#).expect("it is valid").is_empty());
    }

    #[test]
    fn the_report_says_why_a_workload_was_skipped_or_failed() {
        let logs = Path::new("logs");
        let line = |event: &str| format!("{{\"test\":\"T\",\"event\":\"{event}\",\"why\":\"because\"}}\n");
        let reason = "because".to_owned();
        let failed = Outcome::Failed { reason: reason.clone(), logs: logs.to_owned() };
        assert_eq!(reported(&line("failed"), logs), Some(failed));
        assert_eq!(reported(&line("skipped"), logs), Some(Outcome::Skipped { reason }));
        assert_eq!(reported(&line("started"), logs), None);
    }

    #[test]
    fn a_timeout_is_named_once_as_the_reason_of_a_failure() {
        let explained = |reason: &str| {
            let mut outcome = Outcome::Failed { reason: reason.to_owned(), logs: PathBuf::new() };
            outcome.explain_timeout(Duration::from_secs(20));
            outcome
        };
        let expected = |reason: &str| Outcome::Failed { reason: reason.to_owned(), logs: PathBuf::new() };
        assert_eq!(explained("no API server"), expected("timed out after 20 s: no API server"));
        assert_eq!(explained("timed out after the 20s"), expected("timed out after the 20s"));
    }

    #[test]
    fn a_panic_explains_a_failure_better_than_the_last_line() {
        let status = ExitStatus::from_raw(2 << 8);
        let output = "goos: linux\npanic: test timed out after 20m\nexit\n";
        assert!(last_error(output, status).ends_with(": panic: test timed out after 20m"));
        let output = "util.go:116: FATAL ERROR:\n    start apiserver: no port\nFAIL\n";
        assert!(last_error(output, status).ends_with("FATAL ERROR: start apiserver: no port"));
        assert!(last_error("one\nlast\n", status).ends_with(": last"));
    }
}
