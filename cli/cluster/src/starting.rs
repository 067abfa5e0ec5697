//! Pods that are on a node but do not start there, for reasons that no scheduler reads.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    class::PodInfo,
    volumes::objects::{AccessModes, BindingMode, Claim, StorageClass, StorageObject, Volume, VolumeSource},
};

use super::Cluster;

const OS_LABEL: &str = "kubernetes.io/os";
/// The provisioner of classes with manually created volumes.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// A pod that does not start on its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotStarting {
    /// `namespace/name`.
    pub pod: String,
    /// The node.
    pub node: Arc<str>,
    /// Why, and the next step.
    pub reason: String,
}

/// The storage objects that decide.
struct Stored<'a> {
    claims: BTreeMap<(&'a str, &'a str), &'a Claim>,
    volumes: BTreeMap<&'a str, &'a Volume>,
    classes: BTreeMap<&'a str, &'a StorageClass>,
}

/// The bound pods of a cluster that do not start, by node and name. `is_scheduled`: whether a scheduler chose the pod's node, so that the
/// node of its claims is chosen too.
pub fn not_starting(cluster: &Cluster, is_scheduled: impl Fn(&PodInfo) -> bool) -> Vec<NotStarting> {
    let stored = Stored::new(cluster);
    let mut users: BTreeMap<(&str, &str), Vec<&Arc<PodInfo>>> = BTreeMap::new();
    let mut found = Vec::new();
    for pod in &cluster.bound {
        let Some(node) = &pod.node_name else { continue };
        found.extend(other_system(cluster, pod, node));
        for (name, _) in pod.class.volumes.iter().flat_map(|volumes| volumes.claims()) {
            let Some(claim) = stored.claims.get(&(&*pod.class.namespace, &**name)) else { continue };
            let known = users.entry((&claim.namespace, &claim.name)).or_default();
            if !known.iter().any(|other| other.uid == pod.uid) {
                known.push(pod);
            }
            if !is_scheduled(pod) {
                found.extend(stored.waits(pod, node, claim));
            }
        }
    }
    for (key, pods) in users {
        let Some(claim) = stored.claims.get(&key) else { continue };
        found.extend(stored.shared(claim, &pods));
    }
    found.sort_by(|left, right| (&left.node, &left.pod).cmp(&(&right.node, &right.pod)));
    found
}

/// Source: `rejectPodAdmissionBasedOnOSField` in `pkg/kubelet/lifecycle/predicate.go`.
fn other_system(cluster: &Cluster, pod: &PodInfo, node: &Arc<str>) -> Option<NotStarting> {
    let wanted = cluster.systems.get(&pod.uid)?;
    let place = cluster.nodes.binary_search_by(|known| known.name.cmp(node)).ok()?;
    let found = cluster.nodes.get(place)?.label(OS_LABEL)?;
    (*found != **wanted).then(|| {
        let reason = format!(
            "its spec.os.name is {wanted}, and the node has {OS_LABEL}={found}, so the kubelet rejects it; add \
             `nodeSelector: {{{OS_LABEL}: {wanted}}}`"
        );
        NotStarting { pod: pod.key(), node: Arc::clone(node), reason }
    })
}

impl<'a> Stored<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        let mut stored = Self { claims: BTreeMap::new(), volumes: BTreeMap::new(), classes: BTreeMap::new() };
        for object in &cluster.storage {
            match object {
                StorageObject::Claim(claim) => _ = stored.claims.insert((&*claim.namespace, &*claim.name), claim),
                StorageObject::Volume(volume) => _ = stored.volumes.insert(&*volume.name, volume),
                StorageObject::StorageClass(class) => _ = stored.classes.insert(&*class.name, class),
                _ => {}
            }
        }
        stored
    }

    /// A pod with `spec.nodeName` whose claim waits for a scheduler.
    ///
    /// Source: `isDelayBindingMode` in `pkg/controller/volume/persistentvolume`: the controller waits for the annotation
    /// `volume.kubernetes.io/selected-node`, which only a scheduler sets.
    fn waits(&self, pod: &PodInfo, node: &Arc<str>, claim: &Claim) -> Option<NotStarting> {
        let class = self.classes.get(&*claim.storage_class)?;
        let is_late = class.binding_mode == Some(BindingMode::WaitForFirstConsumer);
        if !is_late || claim.bind_completed || !claim.volume_name.is_empty() || claim.selected_node.is_some() {
            return None;
        }
        // A volume that is reserved for the claim is bound without a scheduler.
        let is_promised = self.volumes.values().any(|volume| {
            volume.claim.as_ref().is_some_and(|known| known.namespace == claim.namespace && known.name == claim.name)
        });
        (!is_promised).then(|| NotStarting {
            pod: pod.key(),
            node: Arc::clone(node),
            reason: format!(
                "its spec.nodeName bypasses the scheduler, and no other component selects the node of claim {} of class \
                 {} (WaitForFirstConsumer); write `nodeSelector: {{kubernetes.io/hostname: {node}}}` instead",
                claim.name, class.name
            ),
        })
    }

    /// The pods that cannot use a claim at the same time as another one.
    fn shared(&self, claim: &Claim, pods: &[&Arc<PodInfo>]) -> Vec<NotStarting> {
        let mut pods: Vec<&Arc<PodInfo>> = pods.to_vec();
        // The pod that started first has the volume.
        pods.sort_by_key(|pod| pod.started_ns.unwrap_or(i64::MAX));
        let Some((first, others)) = pods.split_first() else { return Vec::new() };
        let Some(holder) = &first.node_name else { return Vec::new() };
        let volume = self.volumes.get(&*claim.volume_name).copied();
        let modes = volume.map_or(claim.access_modes, |volume| volume.access_modes);
        let is_single = claim.access_modes.contains(AccessModes::READ_WRITE_ONCE_POD);
        let is_attached = self.is_attached(claim, volume);
        let reason = |node: &Arc<str>| {
            if is_single {
                // Source: `checkVolumeAccessModes` of the kubelet's volume manager.
                return Some(format!(
                    "its claim {} is ReadWriteOncePod, and {} on {holder} uses it; delete that pod, or use another claim",
                    claim.name,
                    first.key()
                ));
            }
            // Source: `IsMultiAttachAllowed` in `pkg/controller/volume/attachdetach/util`.
            let is_shared = [AccessModes::READ_WRITE_MANY, AccessModes::READ_ONLY_MANY].into_iter();
            let is_exclusive = is_attached
                && modes != AccessModes::default()
                && !is_shared.into_iter().any(|mode| modes.contains(mode));
            (is_exclusive && node != holder).then(|| {
                format!(
                    "its claim {} is ReadWriteOnce, and {} on {holder} uses it: the volume is attached to one node at a \
                     time; use ReadWriteMany, a claim for each pod, or affinity between the pods",
                    claim.name,
                    first.key()
                )
            })
        };
        let found = others.iter().filter_map(|pod| {
            let node = pod.node_name.as_ref()?;
            Some(NotStarting { pod: pod.key(), node: Arc::clone(node), reason: reason(node)? })
        });
        found.collect()
    }

    /// Whether the volume of a claim is attached to nodes, as far as the objects show: it has a CSI driver, or a provisioner creates it.
    fn is_attached(&self, claim: &Claim, volume: Option<&Volume>) -> bool {
        match volume {
            Some(volume) => matches!(volume.source, VolumeSource::Csi { .. } | VolumeSource::InTree(_)),
            None => self
                .classes
                .get(&*claim.storage_class)
                .is_some_and(|class| !class.provisioner.is_empty() && &*class.provisioner != NO_PROVISIONER),
        }
    }
}

#[cfg(test)]
mod tests;
