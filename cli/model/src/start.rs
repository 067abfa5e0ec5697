//! The cluster at the start: without the pods that controllers create later.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use flotilla_cluster::{Cluster, lifecycle::Key};
use flotilla_framework::{
    class::PodInfo,
    map::{Map, Set},
    volumes::objects::{Claim, StorageObject},
};

use crate::world::key;

/// A cluster before the first decision.
#[derive(Debug)]
pub struct Start<'a> {
    /// The cluster. Its pending pods are those that exist at the start.
    pub cluster: Cow<'a, Cluster>,
    pub(crate) later: Later,
}

/// The pods that are created later.
#[derive(Debug, Default)]
pub(crate) struct Later {
    /// The next pods of ordered StatefulSets, each with its claims.
    pub(crate) ordered: BTreeMap<Key, (Arc<PodInfo>, Vec<Claim>)>,
    /// The pods that are created after everything else has happened, in input order.
    pub(crate) last: Vec<Arc<PodInfo>>,
}

impl<'a> Start<'a> {
    /// Separates the pods that are created later.
    ///
    /// Source: `processReplica` in `pkg/controller/statefulset/stateful_set_control.go`. A pod is created when all pods before it are ready.
    #[must_use]
    pub fn of(cluster: &'a Cluster) -> Self {
        let waiting = waiting(cluster);
        let last = &cluster.lifecycle.last;
        if waiting.is_empty() && last.is_empty() {
            return Self { cluster: Cow::Borrowed(cluster), later: Later::default() };
        }
        let mut start = cluster.clone();
        let mut later = Later::default();
        start.pending.retain(|pod| {
            let key = key(pod);
            if waiting.contains(&key) {
                later.ordered.insert(key, (Arc::clone(pod), Vec::new()));
                return false;
            }
            let is_last = last.contains(&key);
            later.last.extend(is_last.then(|| Arc::clone(pod)));
            !is_last
        });
        let of = claims_of(cluster, &later);
        start.storage.retain(|object| {
            let StorageObject::Claim(claim) = object else { return true };
            let pod = of.get(&(Arc::clone(&claim.namespace), Arc::clone(&claim.name)));
            let Some((_, claims)) = pod.and_then(|pod| later.ordered.get_mut(pod)) else { return true };
            claims.push(claim.clone());
            false
        });
        Self { cluster: Cow::Owned(start), later }
    }
}

/// The new pods of ordered StatefulSets with a pod before them that is not ready.
fn waiting(cluster: &Cluster) -> Set<Key> {
    let sequences = &cluster.lifecycle.sequences;
    let mut waiting = Set::default();
    if sequences.iter().all(|sequence| sequence.new.is_empty()) {
        return waiting;
    }
    let is_ready = |pod: &PodInfo| !cluster.lifecycle.pods.get(&pod.uid).is_some_and(|facts| facts.is_unready);
    let bound = cluster.bound.iter().map(|pod| (key(pod), pod.deleting || is_ready(pod)));
    let pending = cluster.pending.iter().map(|pod| (key(pod), false));
    let ready: Map<Key, bool> = bound.chain(pending).collect();
    for sequence in sequences {
        let mut are_ready = true;
        for key in &sequence.pods {
            if !are_ready && sequence.new.contains(key) {
                waiting.insert(key.clone());
            }
            // A pod that is left out of the cluster does not stop the next one.
            are_ready &= ready.get(key).copied().unwrap_or(true);
        }
    }
    waiting
}

/// The pod of each claim that is created with its pod.
fn claims_of(cluster: &Cluster, later: &Later) -> Map<Key, Key> {
    let mut of = Map::default();
    let templates: Set<&Key> = cluster.lifecycle.sequences.iter().flat_map(|sequence| &sequence.claims).collect();
    for (key, (pod, _)) in &later.ordered {
        for (name, is_ephemeral) in pod.class.volumes.iter().flat_map(|volumes| volumes.claims()) {
            let claim = (Arc::clone(&key.0), Arc::clone(name));
            if is_ephemeral || templates.contains(&claim) {
                of.insert(claim, key.clone());
            }
        }
    }
    of
}
