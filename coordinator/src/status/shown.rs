//! The last observed state of pods without a node.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use flotilla_framework::class::{PodInfo, Scheduled};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Pod {
    /// The number of its pending period: a new one after it had a node, or was deleted, in between. Never 0.
    pub(super) wait: u64,
    /// Its `resourceVersion`; 0 if that is not a number.
    pub(super) version: u64,
    pub(super) condition: Option<Scheduled>,
}

impl Pod {
    /// Whether its condition has this reason and message already.
    pub(super) fn says(&self, reason: &str, message: &str) -> bool {
        let is =
            |condition: &Scheduled| !condition.status && &*condition.reason == reason && &*condition.message == message;
        self.condition.as_ref().is_some_and(is)
    }

    /// Whether its condition is `False` already, so that its transition time stays.
    pub(super) fn is_refused(&self) -> bool {
        self.condition.as_ref().is_some_and(|condition| !condition.status)
    }
}

/// All pods without a node. Some 150 B each; the UID and the condition are the machine's. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Shown {
    pods: Arc<Mutex<HashMap<Arc<str>, Pod>>>,
    waits: Arc<AtomicU64>,
}

impl Shown {
    pub(super) fn seen(&self, pod: &PodInfo, version: u64) {
        let mut pods = self.pods();
        if pod.node_name.is_some() || pod.finished {
            pods.remove(&pod.uid);
        } else {
            let known = pods.get(&pod.uid).filter(|_| !pod.deleting).map(|known| known.wait);
            let wait = known.unwrap_or_else(|| self.waits.fetch_add(1, Ordering::Relaxed) + 1);
            pods.insert(Arc::clone(&pod.uid), Pod { wait, version, condition: pod.condition.clone() });
        }
    }

    /// The version of a pod that became invalid.
    pub(super) fn changed(&self, uid: &str, version: u64) {
        if let Some(pod) = self.pods().get_mut(uid) {
            pod.version = version;
        }
    }

    pub(super) fn gone(&self, uid: &str) {
        self.pods().remove(uid);
    }

    /// The observed pod; `None`: it has a node, or does not exist.
    pub(super) fn get(&self, uid: &str) -> Option<Pod> {
        self.pods().get(uid).cloned()
    }

    /// The version of a pod; 0 if unknown.
    pub(super) fn version(&self, uid: &str) -> u64 {
        self.pods().get(uid).map_or(0, |pod| pod.version)
    }

    /// The number of a pod's pending period; 0: it has none.
    pub(super) fn wait(&self, uid: &str) -> u64 {
        self.pods().get(uid).map_or(0, |pod| pod.wait)
    }

    pub(super) fn written(&self, uid: &str, version: u64, condition: Scheduled) {
        if let Some(pod) = self.pods().get_mut(uid).filter(|pod| pod.version <= version) {
            (pod.version, pod.condition) = (version, Some(condition));
        }
    }

    /// A panic elsewhere leaves the locked data consistent: each change is one call.
    fn pods(&self) -> MutexGuard<'_, HashMap<Arc<str>, Pod>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use flotilla_framework::testing::pod;

    use super::*;

    fn condition(status: bool, message: &str) -> Scheduled {
        Scheduled { status, reason: Arc::from("Unschedulable"), message: Arc::from(message) }
    }

    #[test]
    fn a_pod_is_shown_until_it_has_a_node_or_is_gone_or_has_ended() {
        type End<'a> = &'a dyn Fn(&Shown);
        let waits = pod("web").build();
        let ends: [(&str, End<'_>); 3] = [
            ("a node", &|shown| shown.seen(&PodInfo { node_name: Some(Arc::from("n")), ..waits.clone() }, 8)),
            ("its end", &|shown| shown.seen(&PodInfo { finished: true, ..waits.clone() }, 8)),
            ("its removal", &|shown| shown.gone(&waits.uid)),
        ];
        for (name, end) in ends {
            let shown = Shown::default();
            shown.seen(&waits, 7);
            assert_eq!(shown.version(&waits.uid), 7);
            end(&shown);
            assert_eq!(shown.get(&waits.uid), None, "{name}");
            shown.written(&waits.uid, 9, condition(false, "late"));
            assert_eq!(shown.get(&waits.uid), None, "a late answer does not bring it back: {name}");
        }
    }

    #[test]
    fn an_answer_that_comes_after_the_watch_showed_something_newer_changes_nothing() {
        let shown = Shown::default();
        let mut waits = pod("web").build();
        waits.condition = Some(condition(false, "new"));
        shown.seen(&waits, 12);
        shown.written(&waits.uid, 11, condition(false, "old"));
        assert!(shown.get(&waits.uid).is_some_and(|pod| pod.says("Unschedulable", "new") && pod.version == 12));
        shown.written(&waits.uid, 13, condition(false, "newest"));
        assert!(shown.get(&waits.uid).is_some_and(|pod| pod.says("Unschedulable", "newest") && pod.version == 13));
    }

    #[test]
    fn the_wait_of_a_pod_is_another_one_once_it_was_going_or_gone_or_had_a_node() {
        let waits = pod("web").build();
        let with = |change: fn(&mut PodInfo)| {
            let mut pod = waits.clone();
            change(&mut pod);
            pod
        };
        for pod in [
            with(|pod| pod.node_name = Some(Arc::from("n"))),
            with(|pod| pod.finished = true),
            with(|pod| pod.deleting = true),
        ] {
            let shown = Shown::default();
            shown.seen(&waits, 7);
            let first = shown.wait(&waits.uid);
            shown.seen(&waits, 8);
            shown.written(&waits.uid, 9, condition(false, "no"));
            assert_eq!((shown.wait(&waits.uid), first > 0), (first, true), "it waits on");
            shown.seen(&pod, 10);
            assert_ne!(shown.wait(&waits.uid), first);
            shown.seen(&waits, 7);
            assert_ne!(shown.wait(&waits.uid), first);
        }
    }

    #[test]
    fn a_condition_that_was_true_begins_anew_when_it_becomes_false() {
        let of = |condition| Pod { wait: 1, version: 1, condition };
        assert!(!of(None).is_refused());
        assert!(!of(Some(condition(true, ""))).is_refused());
        assert!(of(Some(condition(false, ""))).is_refused());
        assert!(!of(Some(condition(true, "no"))).says("Unschedulable", "no"));
    }
}
