//! `/status`: the coordinator, its workers and its queues.

use std::{collections::BTreeMap, sync::Arc};

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use flotilla_machine::{
    event::WorkerId,
    machine::Machine,
    overview::{Overview, QuarantineView, WorkerView},
};
use flotilla_runtime::{
    driver::Handle,
    fanout::{Fanout, Rolled},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::headers::{NOSNIFF, TEXT};
use crate::{
    lease::{self, Leadership},
    metrics::{Buckets, Latency, Scheduled},
    watch::Watches,
};

/// The path.
pub const ROUTE: &str = "/status";

/// Maximum number of workers in an answer, some 300 bytes each, 80 KB in all; more are only counted.
const WORKERS: usize = 256;

/// The sources of answers.
#[derive(Clone)]
pub struct StatusSource {
    /// The machine.
    pub handle: Handle,
    /// The streams to the workers.
    pub fanout: Fanout,
    /// The watches; `None` without watches.
    pub watches: Option<Watches>,
    /// Whether this process leads, or the leader.
    pub leading: watch::Receiver<Leadership>,
    /// This process's identity in the election.
    pub identity: Arc<str>,
    /// Latency of scheduling.
    pub scheduled: Scheduled,
    /// Whether a flag names workers.
    pub expects_workers: bool,
}

/// The answer. All times are in milliseconds, up to now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CoordinatorStatus {
    /// The coordinator's version.
    pub version: String,
    /// Its identity in the election.
    pub identity: String,
    /// Whether it leads. A standby has the cluster state and no workers.
    pub leading: bool,
    /// The leader; absent if unknown or if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// Duration of the lead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leading_for_ms: Option<u64>,
    /// The epoch of the lead; 0 for a standby.
    pub epoch: u64,
    /// Time since the start.
    pub uptime_ms: u64,
    /// Whether its caches are synced.
    pub synced: bool,
    /// Resources without a complete initial list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlisted: Vec<String>,
    /// Number of nodes.
    pub nodes: u64,
    /// Number of changes of the cluster.
    pub revision: u64,
    /// The active configuration.
    pub configuration: ConfigurationStatus,
    /// The wanted workers, by address.
    pub workers: Vec<WorkerStatus>,
    /// Number of further workers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_workers: usize,
    /// Whether no flag names workers, so that this process evaluates all nodes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub evaluates_alone: bool,
    /// Number of pods by state.
    pub queue: QueueStatus,
    /// The classes with the most pending pods, most first; eight at most.
    pub classes: Vec<ClassStatus>,
    /// Number of decisions.
    pub decisions: DecisionStatus,
    /// Latency of decisions.
    #[serde(default)]
    pub latency: LatencyStatus,
    /// The slowest evaluations of the last five minutes, slowest first; eight at most.
    pub slowest_evaluations: Vec<EvaluationStatus>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The active configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationStatus {
    /// Number of configurations of this process.
    pub generation: u64,
    /// Number of workers that have acknowledged it.
    pub acknowledged_by: u64,
    /// The `schedulerName` of each profile.
    pub profiles: Vec<String>,
}

/// A worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerStatus {
    /// Its address.
    pub name: String,
    /// Whether it receives evaluations: it is connected, and has acknowledged configuration and shard.
    pub ready: bool,
    /// The reason if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Number of nodes in its shard.
    pub nodes: u32,
    /// The configuration it acknowledged last; 0: none.
    pub generation: u64,
    /// Number of unanswered evaluations and dry runs.
    pub in_flight: usize,
    /// Age of its oldest unanswered request, including the acknowledgement of a configuration.
    pub oldest_ms: u64,
    /// With unanswered requests: changes of the cluster sent to it since the state of its last message.
    pub revisions_behind: u64,
    /// Median of its last 256 round trips in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip_p50_us: Option<u64>,
    /// The 99th percentile likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip_p99_us: Option<u64>,
    /// Expiry of its certificate, in RFC 3339; absent in plaintext.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_not_after: Option<String>,
}

/// Number of pods by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatus {
    /// In activeQ.
    pub active: u64,
    /// In backoffQ.
    pub backing_off: u64,
    /// Unschedulable.
    pub unschedulable: u64,
    /// Gated.
    pub gated: u64,
    /// Binding volumes.
    pub preparing: u64,
    /// Being bound.
    pub binding: u64,
}

/// Equivalent pending pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassStatus {
    /// Their namespace.
    pub namespace: String,
    /// One of them.
    pub pod: String,
    /// Their profile.
    pub scheduler_name: String,
    /// In activeQ.
    pub active: usize,
    /// In backoffQ.
    pub backing_off: usize,
    /// Unschedulable.
    pub unschedulable: usize,
    /// Gated.
    pub gated: usize,
}

/// Number of decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionStatus {
    /// Since the start, with any outcome.
    pub total: u64,
    /// Pods placed.
    pub placed: u64,
    /// Pods without a feasible node.
    pub unschedulable: u64,
    /// Per second, over the last ten seconds.
    pub per_second: f64,
    /// Per second, since the start.
    pub per_second_since_start: f64,
    /// Failed binds since the start.
    pub bind_failures: u64,
}

/// Latency of scheduling since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LatencyStatus {
    /// All attempts: `scheduler_scheduling_attempt_duration_seconds`.
    pub attempts: BucketsStatus,
    /// Pods, from the queue to the bind over all attempts: `scheduler_pod_scheduling_sli_duration_seconds`.
    pub pods: BucketsStatus,
}

/// A histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BucketsStatus {
    /// Upper bounds in microseconds, rising; empty before the first observation.
    pub bounds_us: Vec<u64>,
    /// Cumulative counts by bound, and finally the total.
    pub counts: Vec<u64>,
}

/// A slow evaluation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvaluationStatus {
    /// The namespace of the class.
    pub namespace: String,
    /// The first pending pod of the class; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The class, as in the logs.
    pub class: u64,
    /// The profile.
    pub scheduler_name: String,
    /// From the request to the last answer.
    pub took_ms: u64,
    /// Time since its end.
    pub ago_ms: u64,
    /// The worker that answered last.
    pub last_worker: String,
}

pub(super) async fn serve(State(source): State<StatusSource>) -> Response {
    match source.handle.ask(Machine::overview).await {
        Ok(overview) => {
            let answer = source.answer(&overview);
            ([NOSNIFF, (header::CACHE_CONTROL, "no-store")], Json(answer)).into_response()
        }
        Err(stopped) => (StatusCode::SERVICE_UNAVAILABLE, [TEXT, NOSNIFF], format!("503: {stopped}\n")).into_response(),
    }
}

impl StatusSource {
    fn answer(&self, overview: &Overview) -> CoordinatorStatus {
        let leading = self.leading.borrow().clone();
        let leads = leading.epoch_at(lease::now()).is_some();
        let leader = match leading {
            Leadership::Following { holder } => holder,
            Leadership::Leading { .. } => leads.then(|| self.identity.to_string()),
        };
        let unlisted = self.watches.as_ref().map(Watches::unlisted).unwrap_or_default();
        let status = &overview.status;
        let mut workers = workers(self.fanout.roll(), overview);
        let more_workers = workers.len().saturating_sub(WORKERS);
        workers.truncate(WORKERS);
        CoordinatorStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            identity: self.identity.to_string(),
            leading: leads,
            leader,
            leading_for_ms: overview.leading_for_ms,
            epoch: status.epoch,
            uptime_ms: overview.uptime_ms,
            synced: status.synced != 0,
            unlisted: unlisted.into_iter().map(str::to_owned).collect(),
            nodes: status.nodes,
            revision: status.revision,
            configuration: ConfigurationStatus {
                generation: status.generation,
                acknowledged_by: status.workers_ready,
                profiles: overview.profiles.iter().map(ToString::to_string).collect(),
            },
            workers,
            more_workers,
            evaluates_alone: !self.expects_workers,
            queue: queue(overview),
            classes: classes(overview),
            decisions: decisions(overview),
            latency: latency(self.scheduled.latency()),
            slowest_evaluations: slowest(overview),
        }
    }
}

fn workers(roll: Vec<Rolled>, overview: &Overview) -> Vec<WorkerStatus> {
    let generation = overview.status.generation;
    let views: BTreeMap<WorkerId, &WorkerView> = overview.workers.iter().map(|view| (view.worker, view)).collect();
    let quarantined: BTreeMap<&str, &QuarantineView> =
        overview.quarantined.iter().map(|view| (&*view.name, view)).collect();
    let status = |rolled: Rolled| {
        let Rolled { address, stream, trouble } = rolled;
        let view = stream.as_ref().and_then(|stream| views.get(&stream.worker));
        let why = match (&stream, view) {
            (None, _) if let Some(view) = quarantined.get(&*address) => {
                let QuarantineView { left_ms, times, reason, .. } = view;
                Some(format!(
                    "in quarantine for {} s more; it was dropped {times} times, the last time because {reason}",
                    left_ms.div_ceil(1_000)
                ))
            }
            (None, _) => {
                Some(trouble.map_or_else(|| "not connected yet".to_owned(), |why| format!("not connected: {why}")))
            }
            (Some(_), None) => Some("connected, waiting for its shard".to_owned()),
            (Some(_), Some(WorkerView { owes_ms: Some(owes_ms), .. })) => {
                Some(format!("has not acknowledged configuration {generation} and its shard for {owes_ms} ms"))
            }
            (Some(_), Some(view)) => view
                .is_late
                .then(|| format!("has not answered for {} ms, and receives no requests until then", view.oldest_ms)),
        };
        let trips = stream.as_ref().and_then(|stream| stream.round_trip_us);
        let ends = stream.as_ref().and_then(|stream| stream.not_after_s);
        WorkerStatus {
            name: address.to_string(),
            ready: why.is_none(),
            why,
            version: stream.map(|stream| stream.version.to_string()),
            nodes: view.map_or(0, |view| view.nodes),
            generation: view.map_or(0, |view| view.generation),
            in_flight: view.map_or(0, |view| view.in_flight),
            oldest_ms: view.map_or(0, |view| view.oldest_ms.max(view.owes_ms.unwrap_or(0))),
            revisions_behind: view.map_or(0, |view| view.behind),
            round_trip_p50_us: trips.map(|[half, _]| half),
            round_trip_p99_us: trips.map(|[_, nearly_all]| nearly_all),
            certificate_not_after: ends.and_then(|end| Timestamp::from_second(end).ok()).map(|end| end.to_string()),
        }
    };
    roll.into_iter().map(status).collect()
}

fn queue(overview: &Overview) -> QueueStatus {
    let status = &overview.status;
    QueueStatus {
        active: status.pods_active,
        backing_off: status.pods_backoff,
        unschedulable: status.pods_unschedulable,
        gated: status.pods_gated,
        preparing: status.preparations,
        binding: status.binds_in_flight,
    }
}

fn classes(overview: &Overview) -> Vec<ClassStatus> {
    let class = |class: &flotilla_machine::overview::ClassView| ClassStatus {
        namespace: class.namespace.to_string(),
        pod: class.pod.to_string(),
        scheduler_name: class.scheduler_name.to_string(),
        active: class.active,
        backing_off: class.backing_off,
        unschedulable: class.unschedulable,
        gated: class.gated,
    };
    overview.classes.iter().map(class).collect()
}

fn decisions(overview: &Overview) -> DecisionStatus {
    let status = &overview.status;
    let seconds = (overview.uptime_ms as f64 / 1_000.0).max(1.0);
    DecisionStatus {
        total: status.decisions,
        placed: status.placed,
        unschedulable: status.unschedulable,
        per_second: overview.decisions_per_second,
        per_second_since_start: status.decisions as f64 / seconds,
        bind_failures: status.bind_failures,
    }
}

fn latency(latency: Latency) -> LatencyStatus {
    let status = |Buckets { bounds_us, counts }| BucketsStatus { bounds_us, counts };
    LatencyStatus { attempts: status(latency.attempts), pods: status(latency.pods) }
}

fn slowest(overview: &Overview) -> Vec<EvaluationStatus> {
    let evaluation = |slow: &flotilla_machine::recent::SlowEvaluation| EvaluationStatus {
        namespace: slow.namespace.to_string(),
        pod: slow.pod.as_deref().map(str::to_owned),
        class: slow.class.0,
        scheduler_name: slow.scheduler_name.to_string(),
        took_ms: slow.took_ms,
        ago_ms: overview.uptime_ms.saturating_sub(slow.at_ms),
        last_worker: slow.last_worker.to_string(),
    };
    overview.slowest.iter().map(evaluation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flotilla_runtime::fanout::Stream;

    fn view(worker: u64, owes_ms: Option<u64>) -> WorkerView {
        WorkerView {
            worker: WorkerId(worker),
            name: "a".into(),
            nodes: 5,
            generation: 2,
            owes_ms,
            is_late: worker == 4,
            in_flight: 1,
            oldest_ms: 3,
            behind: 4,
        }
    }

    #[test]
    fn a_worker_is_ready_or_says_why_it_is_not() {
        let stream = |worker| Stream {
            worker: WorkerId(worker),
            version: "1".into(),
            not_after_s: Some(0),
            round_trip_us: Some([200, 900]),
        };
        let rolled = |stream: Option<Stream>, trouble: Option<&str>| Rolled {
            address: "a:1".into(),
            stream,
            trouble: trouble.map(str::to_owned),
        };
        let mut overview =
            Overview { workers: vec![view(1, None), view(2, Some(700)), view(4, None)], ..Overview::default() };
        overview.status.generation = 3;
        for (rolled, expected) in [
            (rolled(Some(stream(1)), Some("before")), None),
            (rolled(Some(stream(2)), None), Some("has not acknowledged configuration 3 and its shard for 700 ms")),
            (rolled(Some(stream(4)), None), Some("has not answered for 3 ms, and receives no requests until then")),
            (rolled(Some(stream(9)), None), Some("connected, waiting for its shard")),
            (rolled(None, None), Some("not connected yet")),
            (rolled(None, Some("refused")), Some("not connected: refused")),
        ] {
            let told = workers(vec![rolled], &overview);
            assert_eq!((told[0].why.as_deref(), told[0].ready), (expected, expected.is_none()));
        }
        let told = workers(vec![rolled(Some(stream(2)), None)], &overview);
        assert_eq!((told[0].oldest_ms, told[0].round_trip_p99_us), (700, Some(900)));
        assert_eq!(told[0].certificate_not_after.as_deref(), Some("1970-01-01T00:00:00Z"));
        overview.quarantined.push(QuarantineView {
            name: "a:1".into(),
            left_ms: 19_001,
            times: 3,
            reason: "it lied".to_owned(),
        });
        let told = workers(vec![rolled(None, Some("refused"))], &overview);
        let expected = "in quarantine for 20 s more; it was dropped 3 times, the last time because it lied";
        assert_eq!(told[0].why.as_deref(), Some(expected));
    }
}
