//! The pods on the nodes of a simulated cluster, and the recreation of preempted ones.

use std::{collections::BTreeSet, sync::Arc};

use flotilla_cluster::Cluster;
use flotilla_framework::{class::PodInfo, map::Map};
use flotilla_machine::{action::Preemption, event::Event};

use crate::ledger::Ledger;

/// All bound pods by namespace and name. A hash map suffices for lookups.
pub(super) struct Residents {
    pods: Map<(Arc<str>, Arc<str>), Arc<PodInfo>>,
    /// The UIDs of pods that a controller recreates.
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

    pub(super) fn add(&mut self, pod: &Arc<PodInfo>) {
        self.pods.insert(key(pod), Arc::clone(pod));
    }

    /// Deletes the victims and recreates those with a controller. Returns the events.
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
