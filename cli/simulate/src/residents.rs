//! The pods on the nodes of a simulated cluster, and the recreation of preempted ones.

use std::{collections::BTreeSet, sync::Arc};

use flotilla_cluster::Cluster;
use flotilla_framework::{class::PodInfo, map::Map};
use flotilla_machine::action::Preemption;

/// A change of a pod.
pub(super) enum Change {
    Create { pod: Arc<PodInfo> },
    Delete { pod: Arc<PodInfo> },
}

/// All bound pods by namespace and name. A hash map suffices for lookups.
pub(super) struct Controllers {
    pods: Map<(Arc<str>, Arc<str>), Arc<PodInfo>>,
    /// The UIDs of pods that a controller recreates.
    controlled: BTreeSet<Arc<str>>,
    made: u64,
}

fn key(pod: &PodInfo) -> (Arc<str>, Arc<str>) {
    (Arc::clone(&pod.class.namespace), Arc::clone(&pod.name))
}

impl Controllers {
    pub(super) fn new(cluster: &Cluster, _: &[Arc<str>]) -> Self {
        Self {
            pods: cluster.bound.iter().map(|pod| (key(pod), Arc::clone(pod))).collect(),
            controlled: cluster.controlled.clone(),
            made: 0,
        }
    }

    pub(super) fn bind(&mut self, pod: &Arc<PodInfo>) {
        self.pods.insert(key(pod), Arc::clone(pod));
    }

    pub(super) fn step(&mut self) -> Vec<Change> {
        Vec::new()
    }

    /// Deletes the victims and recreates those with a controller.
    pub(super) fn preempt(&mut self, preemption: &Preemption) -> Vec<Change> {
        let mut changes = Vec::new();
        for victim in &preemption.victims {
            let key = (Arc::clone(&victim.pod.namespace), Arc::clone(&victim.pod.name));
            let Some(pod) = self.pods.swap_remove(&key) else { continue };
            changes.push(Change::Delete { pod: Arc::clone(&pod) });
            if self.controlled.contains(&pod.uid) {
                self.made += 1;
                let uid: Arc<str> = format!("{}#{}", pod.uid, self.made).into();
                let anew = PodInfo {
                    uid: Arc::clone(&uid),
                    node_name: None,
                    nominated_node_name: None,
                    started_ns: None,
                    condition: None,
                    ..PodInfo::clone(&pod)
                };
                self.controlled.insert(uid);
                changes.push(Change::Create { pod: Arc::new(anew) });
            }
        }
        changes
    }
}
