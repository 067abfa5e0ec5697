//! The report: medians over rounds, and ratios within a round.

mod picture;
pub(crate) mod tables;

use serde::Serialize;

use crate::{controllers, measured::Measured, schedulers::Scheduler, shape::Shape, statistics::median};

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    pub(crate) summaries: Vec<Summary>,
    pub(crate) runs: Vec<Measured>,
}

/// One scheduler and shape: medians over the rounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) shape: Shape,
    pub(crate) scheduler: Scheduler,
    pub(crate) rounds: usize,
    pub(crate) pods_per_second: f64,
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
    pub(crate) p50_per_second: f64,
    pub(crate) p90_per_second: f64,
    pub(crate) p99_per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
    /// Ratio of pods per second to that of another scheduler in the same round; absent if that did not run.
    pub(crate) to_ceiling: Option<f64>,
    pub(crate) to_ceiling_with_events: Option<f64>,
    pub(crate) to_kube_scheduler: Option<f64>,
    /// CPU seconds per thousand pods and peak memory of each process.
    pub(crate) processes: Vec<Process>,
    /// CPU of the scheduler's processes divided by that of the API server and etcd.
    pub(crate) own_cpu_share: Option<f64>,
    /// Share of the machine's CPU used by other processes.
    pub(crate) elsewhere: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) cpu_s_per_thousand: f64,
    pub(crate) peak_bytes: u64,
}

impl Summary {
    /// The scheduler's processes.
    pub(crate) fn own(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(|process| is_own(&process.name))
    }
}

/// Processes common to all schedulers.
pub(crate) const SERVERS: [&str; 2] = ["kube-apiserver", "etcd"];
/// Processes that create the pods.
pub(crate) const LOAD: [&str; 2] = ["client", controllers::NAME];

impl Report {
    pub(crate) fn new(runs: Vec<Measured>) -> Self {
        let mut summaries = Vec::new();
        for shape in Shape::ALL {
            for scheduler in Scheduler::ALL {
                summaries.extend(summary(&runs, shape, scheduler));
            }
        }
        Self { summaries, runs }
    }
}

fn summary(all: &[Measured], shape: Shape, scheduler: Scheduler) -> Option<Summary> {
    let runs: Vec<&Measured> = all.iter().filter(|run| run.shape == shape && run.scheduler == scheduler).collect();
    let middle = |value: fn(&Measured) -> f64| median(&runs.iter().map(|run| value(run)).collect::<Vec<_>>());
    let rates: Vec<f64> = runs.iter().map(|run| run.rate.mean).collect();
    let shares: Vec<f64> = runs.iter().filter_map(|run| own_cpu_share(run)).collect();
    Some(Summary {
        shape,
        scheduler,
        rounds: runs.len(),
        pods_per_second: median(&rates)?,
        lowest: rates.iter().copied().min_by(f64::total_cmp)?,
        highest: rates.iter().copied().max_by(f64::total_cmp)?,
        p50_per_second: middle(|run| run.rate.p50)?,
        p90_per_second: middle(|run| run.rate.p90)?,
        p99_per_second: middle(|run| run.rate.p99)?,
        p50_ms: middle(|run| run.latency.p50_ms)?,
        p99_ms: middle(|run| run.latency.p99_ms)?,
        max_ms: middle(|run| run.latency.max_ms)?,
        to_ceiling: ratio(all, &runs, Scheduler::Ceiling),
        to_ceiling_with_events: ratio(all, &runs, Scheduler::CeilingWithEvents),
        to_kube_scheduler: ratio(all, &runs, Scheduler::Stock),
        processes: processes(&runs),
        own_cpu_share: median(&shares),
        elsewhere: middle(|run| run.elsewhere)?,
    })
}

/// Median of the ratios to another scheduler within a round. Rounds with unbound pods are excluded.
fn ratio(all: &[Measured], runs: &[&Measured], other: Scheduler) -> Option<f64> {
    let ratios: Vec<f64> = runs
        .iter()
        .filter_map(|run| {
            let same = |beside: &&Measured| {
                beside.scheduler == other && beside.shape == run.shape && beside.round == run.round
            };
            let beside = all.iter().find(same)?;
            (run.is_complete() && beside.is_complete()).then(|| run.rate.mean / beside.rate.mean)
        })
        .collect();
    median(&ratios)
}

fn processes(runs: &[&Measured]) -> Vec<Process> {
    let Some(first) = runs.first() else { return Vec::new() };
    let process = |name: &String| {
        let cpu: Vec<f64> = runs.iter().filter_map(|run| run.cpu_per_thousand(name)).collect();
        let peaks = runs.iter().filter_map(|run| run.processes.get(name)).map(|usage| usage.peak_bytes);
        Some(Process { name: name.clone(), cpu_s_per_thousand: median(&cpu)?, peak_bytes: peaks.max()? })
    };
    first.processes.keys().filter_map(process).collect()
}

fn own_cpu_share(run: &Measured) -> Option<f64> {
    let sum = |wanted: &dyn Fn(&str) -> bool| -> f64 {
        run.processes.iter().filter(|(name, _)| wanted(name)).map(|(_, usage)| usage.cpu_s).sum()
    };
    let servers = sum(&|name| SERVERS.contains(&name));
    (servers > 0.0).then(|| sum(&is_own) / servers)
}

fn is_own(process: &str) -> bool {
    !SERVERS.contains(&process) && !LOAD.contains(&process)
}

#[cfg(test)]
mod tests;
