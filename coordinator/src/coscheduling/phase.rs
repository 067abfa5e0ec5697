//! The status of a PodGroup of `scheduling.x-k8s.io`, from its pods.
//!
//! Source: `Reconcile` in `pkg/controllers/podgroup_controller.go` of sigs.k8s.io/scheduler-plugins.

use serde::{Deserialize, Serialize};

/// The status that scheduler-plugins' controller writes. It does not set `scheduleStartTime`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    pub(super) phase: String,
    pub(super) occupied_by: String,
    pub(super) running: i32,
    pub(super) succeeded: i32,
    pub(super) failed: i32,
}

/// A pod of the group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Member {
    /// `status.phase`.
    pub(super) phase: String,
    /// The names in `metadata.ownerReferences`.
    pub(super) owners: Vec<String>,
}

/// The transitions until the status no longer changes: from no phase to `Pending`, `Scheduling`, then the counts.
const MOST_STEPS: usize = 4;

/// The status with these pods of the group's namespace, in their order.
pub(super) fn next<'a>(
    status: &Status,
    min_member: i32,
    namespace: &str,
    pods: impl Iterator<Item = &'a Member> + Clone,
) -> Status {
    let mut now = status.clone();
    for _ in 0..MOST_STEPS {
        let next = step(&now, min_member, namespace, pods.clone());
        if next == now {
            break;
        }
        now = next;
    }
    now
}

fn step<'a>(
    status: &Status,
    min_member: i32,
    namespace: &str,
    mut pods: impl Iterator<Item = &'a Member> + Clone,
) -> Status {
    let mut next = status.clone();
    let count = |phase: &str| number(pods.clone().filter(|pod| pod.phase == phase).count());
    let is_complete = number(pods.clone().count()) >= min_member;
    let phase = match &*status.phase {
        "Finished" | "Failed" => return next,
        "" => "Pending",
        "Pending" if is_complete => {
            let owners = pods.next().map(|pod| pod.owners.clone()).unwrap_or_default();
            if !owners.is_empty() {
                let mut owners: Vec<String> = owners.iter().map(|owner| format!("{namespace}/{owner}")).collect();
                owners.sort_unstable();
                next.occupied_by = owners.join(",");
            }
            "Scheduling"
        }
        "Pending" => "Pending",
        _ => {
            (next.running, next.succeeded, next.failed) = (count("Running"), count("Succeeded"), count("Failed"));
            let (running, succeeded, failed) = (next.running, next.succeeded, next.failed);
            if !is_complete {
                "Pending"
            } else if succeeded >= min_member {
                "Finished"
            } else if failed != 0 && failed + running + succeeded >= min_member {
                "Failed"
            } else if succeeded + running >= min_member {
                "Running"
            } else {
                "Scheduling"
            }
        }
    };
    phase.clone_into(&mut next.phase);
    next
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(phases: &[&str]) -> Vec<Member> {
        let owners = vec!["web-2".to_owned(), "web-1".to_owned()];
        phases.iter().map(|phase| Member { phase: (*phase).to_owned(), owners: owners.clone() }).collect()
    }

    fn of(phase: &str, running: i32, succeeded: i32, failed: i32) -> Status {
        Status { phase: phase.to_owned(), running, succeeded, failed, ..Status::default() }
    }

    #[test]
    fn the_phase_follows_the_pods_as_with_the_controller_of_scheduler_plugins() {
        let (pending, running, succeeded, failed) = ("Pending", "Running", "Succeeded", "Failed");
        for (phase, phases, expected) in [
            ("", &[][..], of("Pending", 0, 0, 0)),
            ("", &[pending, pending], of("Scheduling", 0, 0, 0)),
            ("Pending", &[pending], of("Pending", 0, 0, 0)),
            ("Pending", &[running, running], of("Running", 2, 0, 0)),
            ("Scheduling", &[running, pending], of("Scheduling", 1, 0, 0)),
            ("Scheduling", &[running], of("Pending", 1, 0, 0)),
            ("Running", &[running, succeeded], of("Running", 1, 1, 0)),
            ("Running", &[running, failed], of("Failed", 1, 0, 1)),
            ("Running", &[pending, failed], of("Scheduling", 0, 0, 1)),
            ("Running", &[succeeded, succeeded], of("Finished", 0, 2, 0)),
            ("Running", &[succeeded, succeeded, failed], of("Finished", 0, 2, 1)),
            ("Failed", &[running, running], of("Failed", 0, 0, 0)),
            ("Finished", &[], of("Finished", 0, 0, 0)),
        ] {
            let status = Status { phase: phase.to_owned(), ..Status::default() };
            let got = next(&status, 2, "n", pods(phases).iter());
            assert_eq!(Status { occupied_by: String::new(), ..got }, expected, "{phase} {phases:?}");
        }
    }

    #[test]
    fn the_owners_of_the_first_pod_occupy_the_group_once_it_is_complete() {
        let got = next(&Status::default(), 1, "n", pods(&["Pending"]).iter());
        assert_eq!((&*got.occupied_by, &*got.phase), ("n/web-1,n/web-2", "Scheduling"));
        let orphan = [Member { phase: "Pending".to_owned(), owners: Vec::new() }];
        assert_eq!(next(&Status::default(), 1, "n", orphan.iter()).occupied_by, "");
    }
}
