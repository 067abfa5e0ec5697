//! Pods that quotas refuse. Their controllers try again to create them.
//!
//! Source: `manageReplicas` in `pkg/controller/replicaset/replica_set.go`.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_cluster::{Cluster, Quotas, lifecycle::Key};
use flotilla_framework::{class::PodInfo, map::Map};

use crate::{
    report::{NotCreated, PodRef},
    world::key,
};

/// The quotas, and the refused pods in the order of their first attempts, each with the error.
#[derive(Clone)]
pub(crate) struct Refused {
    quotas: Quotas,
    pods: Map<Key, (Arc<PodInfo>, String)>,
}

impl Refused {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        Self { quotas: cluster.lifecycle.quotas.clone(), pods: Map::default() }
    }

    /// Charges a pod to the quotas, or keeps it for the next attempt. Returns whether it is refused.
    pub(crate) fn is_refused(&mut self, pod: &Arc<PodInfo>) -> bool {
        let charged = self.quotas.charge(pod);
        let refusal = charged.err().map(|refusal| (key(pod), (Arc::clone(pod), refusal)));
        let is_refused = refusal.is_some();
        self.pods.extend(refusal);
        is_refused
    }

    /// All refused pods, for another attempt.
    pub(crate) fn take(&mut self) -> Vec<Arc<PodInfo>> {
        std::mem::take(&mut self.pods).into_iter().map(|(_, (pod, _))| pod).collect()
    }

    /// Releases the charge of a pod that is deleted, or not created yet.
    pub(crate) fn release(&mut self, pod: &PodInfo) {
        self.quotas.release(pod);
    }

    /// Gives a new pod the charge of the one that it replaces.
    pub(crate) fn copy(&mut self, from: &Arc<str>, to: &Arc<str>) {
        self.quotas.copy(from, to);
    }

    /// The refused pod of a key, with the error.
    pub(crate) fn get(&self, key: &Key) -> Option<PodRef> {
        let (pod, refusal) = self.pods.get(key)?;
        Some(PodRef { refusal: Some(refusal.clone()), ..PodRef::of(pod) })
    }

    /// The refused pods by controller, without those that are reported elsewhere, each with its first error.
    pub(crate) fn report(
        &self,
        is_reported: impl Fn(&Key) -> bool,
        controller: impl Fn(&PodInfo) -> String,
    ) -> Vec<NotCreated> {
        let mut of: BTreeMap<String, NotCreated> = BTreeMap::new();
        for (_, (pod, refusal)) in self.pods.iter().filter(|(key, _)| !is_reported(key)) {
            let name = controller(pod);
            let new = || NotCreated { of: name.clone(), pods: 0, waits_for: None, refusal: Some(refusal.clone()) };
            of.entry(name.clone()).or_insert_with(new).pods += 1;
        }
        of.into_values().collect()
    }
}
