//! Problems of a running Flotilla, with the next step for each.

use flotilla_coordinator::serve::status::{CoordinatorStatus, WorkerStatus};
use jiff::Timestamp;
use serde::Serialize;

use super::{report::Report, text::span};

/// A worker lags if it owes an answer for longer: an answer takes milliseconds, and after 3 s the coordinator closes the connection.
const LAG_MS: u64 = 2_000;
/// A certificate with less time left was not renewed in time: renewal is due at two thirds of its life of one week.
const ENDING_S: i64 = 24 * 3_600;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Problem {
    /// The problem.
    pub(crate) what: String,
    /// The next step.
    pub(crate) next: String,
    /// Pods are not scheduled, or too slowly.
    pub(crate) severe: bool,
}

fn severe(what: impl Into<String>, next: impl Into<String>) -> Problem {
    Problem { what: what.into(), next: next.into(), severe: true }
}

fn mild(what: impl Into<String>, next: impl Into<String>) -> Problem {
    Problem { what: what.into(), next: next.into(), severe: false }
}

/// All problems, the most severe first.
pub(super) fn problems(report: &Report, now: Timestamp) -> Vec<Problem> {
    let mut problems: Vec<Problem> = lead(report).into_iter().collect();
    for answer in &report.coordinators {
        if let Some(error) = &answer.error {
            let next = "see that it runs, and that you may ask it: docs/reference/endpoints.md; or name it with --coordinator URL";
            problems.push(severe(format!("{} cannot be asked: {error}", answer.name), next));
        }
    }
    if let Some(leader) = report.leader() {
        problems.extend(of_leader(leader));
        problems.extend(leader.workers.iter().filter_map(|worker| of_worker(worker, leader)));
        problems.extend(leader.workers.iter().filter_map(|worker| of_certificate(worker, now)));
    }
    problems.sort_by_key(|problem| !problem.severe);
    problems
}

fn lead(report: &Report) -> Option<Problem> {
    let leaders: Vec<&str> =
        report.statuses().filter(|status| status.leading).map(|status| status.identity.as_str()).collect();
    match leaders.as_slice() {
        [_] => return None,
        [] => {}
        several => {
            let what = format!("several coordinators lead: {}", several.join(", "));
            return Some(severe(what, "check that all of them use the same Lease: --leader-elect-resource-name"));
        }
    }
    if let Some(lease) = report.lease.as_ref().filter(|lease| lease.is_expired()) {
        let ago = span(u64::try_from(lease.renewed_ms_ago.unwrap_or(0)).unwrap_or(0));
        let what = format!("no coordinator leads: {} renewed last {ago} ago, none has taken over", lease.identity);
        return Some(severe(what, "start a coordinator, or read the log of one that runs"));
    }
    let leader = report.statuses().find_map(|status| status.leader.clone());
    let leader = leader.or_else(|| report.lease.as_ref().map(|lease| lease.identity.clone()));
    match leader {
        // The missing answer is reported separately.
        Some(_) if report.statuses().next().is_none() => None,
        Some(leader) => {
            let what = format!("{leader} leads, and was not asked; only it knows the state of the workers");
            Some(severe(what, "name it with --coordinator, or leave --coordinator out"))
        }
        None => {
            let why = report.lease_error.as_deref().unwrap_or("no coordinator knows a leader");
            Some(severe(format!("no leader is known: {why}"), "start a coordinator, or read the log of one that runs"))
        }
    }
}

/// Problems of the leader, or of all workers.
fn of_leader(leader: &CoordinatorStatus) -> Vec<Problem> {
    let mut problems = Vec::new();
    if !leader.synced {
        let what = match leader.unlisted.as_slice() {
            [] => "the leader has not seen the whole cluster yet".to_owned(),
            missing => format!("the leader has not seen the whole cluster yet: it lists {}", missing.join(", ")),
        };
        problems.push(severe(what, "wait; if it stays so, read its log, and check its rights with flotilla preflight"));
    }
    let ready = leader.workers.iter().filter(|worker| worker.ready).count();
    if leader.workers.is_empty() && !leader.evaluates_alone {
        let next =
            "start workers; the leader finds them by --workers, or by the EndpointSlices of the Service of workers";
        problems.push(severe("no workers are known, so the leader evaluates all nodes", next));
    } else if ready == 0 && !leader.workers.is_empty() {
        let what = format!("none of {} workers is ready, so the leader evaluates all nodes", leader.workers.len());
        problems.push(severe(what, "the reasons are below"));
    }
    if leader.more_workers > 0 {
        let next = "look at flotilla_workers_ready of its /metrics for all of them";
        problems.push(mild(format!("{} more workers are not shown", leader.more_workers), next));
    }
    problems
}

fn of_worker(worker: &WorkerStatus, leader: &CoordinatorStatus) -> Option<Problem> {
    let name = &worker.name;
    if worker.oldest_ms > LAG_MS {
        let what = format!("worker {name} lags: it has owed an answer for {}", span(worker.oldest_ms));
        return Some(severe(what, "see that its processor is not throttled, and read its log"));
    }
    if let Some(why) = &worker.why {
        let next = "read its log; it is tried again until it is removed";
        return Some(mild(format!("worker {name} is not ready: {why}"), next));
    }
    let version = worker.version.as_ref().filter(|version| **version != leader.version)?;
    let what = format!("worker {name} is version {version}, and the leader is {}", leader.version);
    Some(mild(what, "roll both out in the same version"))
}

fn of_certificate(worker: &WorkerStatus, now: Timestamp) -> Option<Problem> {
    let end: Timestamp = worker.certificate_not_after.as_ref()?.parse().ok()?;
    let left_s = end.as_second() - now.as_second();
    if left_s > ENDING_S {
        return None;
    }
    let what = format!("the certificate of worker {} ends at {end}", worker.name);
    Some(mild(what, "see why it is not renewed: docs/concepts/transport.md"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{live::Holder, status::report::Answer};

    fn worker() -> WorkerStatus {
        WorkerStatus { name: "w".into(), ready: true, version: Some("1".into()), ..WorkerStatus::default() }
    }

    fn leader(workers: Vec<WorkerStatus>) -> CoordinatorStatus {
        let (identity, leader) = ("me".to_owned(), Some("me".to_owned()));
        CoordinatorStatus {
            version: "1".into(),
            identity,
            leader,
            leading: true,
            synced: true,
            workers,
            ..CoordinatorStatus::default()
        }
    }

    fn holder(ago: i64) -> Result<Holder, String> {
        Ok(Holder { identity: "other".into(), renewed_ms_ago: Some(ago), lease_ms: Some(15_000), ..Holder::default() })
    }

    fn judged(lease: Result<Holder, String>, status: Option<CoordinatorStatus>) -> (bool, String) {
        let error = status.is_none().then(|| "refused".to_owned());
        let answer = Answer { name: "url".into(), status, error };
        let report = Report::new(lease, vec![answer], Timestamp::UNIX_EPOCH);
        let first = report.problems.first().map(|problem| problem.what.clone()).unwrap_or_default();
        (report.healthy, first)
    }

    #[test]
    fn each_way_of_being_ill_is_named_and_only_some_change_the_exit_code() {
        let lagging = WorkerStatus { oldest_ms: 2_500, ..worker() };
        let away = WorkerStatus { ready: false, why: Some("not connected: refused".into()), ..worker() };
        let ending = WorkerStatus { certificate_not_after: Some("1970-01-01T10:00:00Z".into()), ..worker() };
        let other = WorkerStatus { version: Some("2".into()), ..worker() };
        let follower = CoordinatorStatus { leading: false, leader: Some("other".into()), ..leader(vec![]) };
        let lost = CoordinatorStatus { leading: false, leader: None, ..leader(vec![]) };
        let unsynced = CoordinatorStatus { synced: false, unlisted: vec!["pods".into()], ..leader(vec![worker()]) };
        for (lease, status, healthy, what) in [
            (holder(1), Some(leader(vec![worker()])), true, ""),
            (Err("no right".into()), Some(leader(vec![worker()])), true, ""),
            (holder(1), Some(leader(vec![])), false, "no workers are known, so the leader evaluates all nodes"),
            (holder(1), Some(CoordinatorStatus { evaluates_alone: true, ..leader(vec![]) }), true, ""),
            (
                holder(1),
                Some(leader(vec![away.clone()])),
                false,
                "none of 1 workers is ready, so the leader evaluates all nodes",
            ),
            (holder(1), Some(leader(vec![worker(), away])), true, "worker w is not ready: not connected: refused"),
            (holder(1), Some(leader(vec![worker(), lagging])), false, "worker w lags: it has owed an answer for 2.5 s"),
            (holder(1), Some(leader(vec![ending])), true, "the certificate of worker w ends at 1970-01-01T10:00:00Z"),
            (holder(1), Some(leader(vec![other])), true, "worker w is version 2, and the leader is 1"),
            (holder(1), Some(unsynced), false, "the leader has not seen the whole cluster yet: it lists pods"),
            (
                holder(1),
                Some(follower),
                false,
                "other leads, and was not asked; only it knows the state of the \
            workers",
            ),
            (holder(60_000), None, false, "no coordinator leads: other renewed last 60.0 s ago, none has taken over"),
            (holder(1), None, false, "url cannot be asked: refused"),
            (Err("there is no Lease".into()), Some(lost), false, "no leader is known: there is no Lease"),
        ] {
            assert_eq!(judged(lease, status), (healthy, what.to_owned()));
        }
    }
}
