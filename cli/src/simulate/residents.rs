//! The pods on the nodes of a simulated cluster, and what becomes of those that make room for others.
//!
//! Knows: that a controller makes a pod anew. Must not know: who makes room for whom.

use std::{collections::BTreeSet, sync::Arc};

use flotilla_cluster::Cluster;
use flotilla_framework::{class::PodInfo, map::Map};
use flotilla_machine::{action::Preemption, event::Event};

use super::ledger::Ledger;

/// The pods on all nodes, by namespace and name; looked up only, as each placement adds one.
pub(super) struct Residents {
    pods: Map<(Arc<str>, Arc<str>), Arc<PodInfo>>,
    /// The UIDs of pods that a controller makes anew.
    controlled: BTreeSet<Arc<str>>,
    ledger: Ledger,
    made: u64,
}

fn key(pod: &PodInfo) -> (Arc<str>, Arc<str>) {
    (Arc::clone(&pod.class.namespace), Arc::clone(&pod.name))
}

impl Residents {
    pub(super) fn new(cluster: &Cluster, ledger: Ledger) -> Self {
        Self {
            pods: cluster.bound.iter().map(|pod| (key(pod), Arc::clone(pod))).collect(),
            controlled: cluster.controlled.clone(),
            ledger,
            made: 0,
        }
    }

    /// A pod has come to a node.
    pub(super) fn add(&mut self, pod: &Arc<PodInfo>) {
        self.pods.insert(key(pod), Arc::clone(pod));
    }

    /// Deletes the pods that make room, and makes those anew that have a controller. What to tell of it.
    pub(super) fn replace(&mut self, preemption: &Preemption) -> Vec<Event> {
        let uid = Arc::clone(&preemption.preemptor.uid);
        let mut events = vec![Event::Preempted { uid, id: preemption.id, failure: None }];
        for victim in &preemption.victims {
            let key = (Arc::clone(&victim.pod.namespace), Arc::clone(&victim.pod.name));
            let Some(pod) = self.pods.swap_remove(&key) else { continue };
            self.ledger.evicted(&pod, preemption);
            events.push(Event::PodDeleted { uid: Arc::clone(&pod.uid) });
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
                let anew = Arc::new(anew);
                self.controlled.insert(uid);
                self.ledger.add(&anew);
                events.push(Event::PodApplied(anew));
            }
        }
        events
    }
}
