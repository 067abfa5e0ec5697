//! The volumes that provisioners create.
//!
//! A volume has the driver of its class, the topology that the driver's CSINodes report, and the access modes of its claim.
//!
//! Source: `GenerateAccessibilityRequirements` in `pkg/controller/topology.go` of kubernetes-csi/external-provisioner.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_cluster::Cluster;
use flotilla_framework::{
    class::{NodeTerm, Requirement},
    node::NodeInfo,
    volumes::{
        objects::{Claim, StorageClass, TopologyTerm, Volume, VolumeSource},
        translate,
    },
};

/// The provisioner of classes with manually created volumes.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

const HOSTNAME: &str = "kubernetes.io/hostname";

/// Provisioners without a CSI driver that keep volumes on one node and say so in the volume's node affinity.
const ON_ONE_NODE: [&str; 3] = ["microk8s.io/hostpath", "openebs.io/local", "rancher.io/local-path"];

/// Label values of one place that a volume is accessible from, in the order of the driver's keys.
type Segment = Vec<(Arc<str>, Arc<str>)>;

/// What provisioners know about the cluster.
#[derive(Debug, Clone)]
pub(super) struct Provisioner {
    nodes: BTreeMap<Arc<str>, Arc<NodeInfo>>,
    /// The topology keys of each driver.
    keys: BTreeMap<Arc<str>, Vec<Arc<str>>>,
}

/// Whether a controller creates volumes of the class.
pub(super) fn provisions(class: &StorageClass) -> bool {
    !class.provisioner.is_empty() && &*class.provisioner != NO_PROVISIONER
}

impl Provisioner {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let nodes = cluster.nodes.iter().map(|node| (Arc::clone(&node.name), Arc::clone(node))).collect();
        Self { nodes, keys: cluster.topology_keys.clone() }
    }

    /// A node was removed.
    pub(super) fn forget_node(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    /// The volume for a claim; `node`: the node that the scheduler has selected. `None`: the class allows no topology of the cluster.
    pub(super) fn provision(
        &self,
        claim: &Claim,
        class: Option<&StorageClass>,
        node: Option<&Arc<str>>,
    ) -> Option<Volume> {
        let provisioner = class.map(|class| &*class.provisioner).unwrap_or_default();
        let driver: Arc<str> = translate::driver(provisioner).unwrap_or(provisioner).into();
        let hostname = [Arc::from(HOSTNAME)];
        let keys = match ON_ONE_NODE.contains(&provisioner) {
            true => &hostname[..],
            false => self.keys.get(&driver).map_or(&[][..], Vec::as_slice),
        };
        let node_affinity = match keys.is_empty() {
            true => None,
            false => {
                let allowed = class.map(|class| class.allowed_topologies.as_slice()).unwrap_or_default();
                let segment = match node.and_then(|node| self.nodes.get(node)) {
                    Some(node) => segment(node, keys),
                    None => self.segment_for(claim, keys, allowed)?,
                };
                (!segment.is_empty()).then(|| vec![term(segment)])
            }
        };
        let handle: Arc<str> = format!("pvc-{}", claim.uid).into();
        Some(Volume {
            name: format!("pvc-{}-{}", claim.namespace, claim.name).into(),
            uid: Arc::clone(&handle),
            storage_class: Arc::clone(&claim.storage_class),
            capacity: claim.requested.unwrap_or_default(),
            access_modes: claim.access_modes,
            is_block: claim.is_block,
            attributes_class: Arc::clone(&claim.attributes_class),
            node_affinity,
            source: VolumeSource::Csi { driver, handle },
            ..Volume::default()
        })
    }

    /// The place of a volume that is provisioned before a node is selected: one of all places, in turn for the claims of a StatefulSet.
    fn segment_for(&self, claim: &Claim, keys: &[Arc<str>], allowed: &[TopologyTerm]) -> Option<Segment> {
        let segments: BTreeSet<Segment> = self.nodes.values().map(|node| segment(node, keys)).collect();
        let is_complete = |segment: &Segment| segment.len() == keys.len();
        let is_allowed = |segment: &Segment| {
            let meets = |(key, values): &(Arc<str>, Vec<Arc<str>>)| {
                segment.iter().all(|(known, value)| known != key || values.contains(value))
            };
            allowed.is_empty() || allowed.iter().any(|term| term.iter().all(meets))
        };
        let mut segments: Vec<Segment> =
            segments.into_iter().filter(|segment| is_complete(segment) && is_allowed(segment)).collect();
        let (hash, offset) = turn(&claim.name);
        let turn = (u64::from(hash) + u64::from(offset)).checked_rem(segments.len() as u64)?;
        Some(segments.swap_remove(usize::try_from(turn).ok()?))
    }
}

fn segment(node: &NodeInfo, keys: &[Arc<str>]) -> Segment {
    keys.iter().filter_map(|key| Some((Arc::clone(key), node.label(key)?.into()))).collect()
}

fn term(segment: Segment) -> NodeTerm {
    let requirement = |(key, value)| Requirement { key, operator: "In".into(), values: vec![value] };
    NodeTerm { expressions: segment.into_iter().map(requirement).collect(), fields: Vec::new() }
}

/// The hash of a claim's base name, and its ordinal.
///
/// Source: `getPVCNameHashAndIndexOffset`.
fn turn(claim: &str) -> (u32, u32) {
    let numbered = claim.rsplit_once('-').and_then(|(base, number)| Some((base, number.parse::<u32>().ok()?)));
    let (base, ordinal) = match numbered {
        Some((base, ordinal)) => (base.rsplit_once('-').map_or(base, |(_, set)| set), ordinal),
        None => (claim, 0),
    };
    // FNV-1, not FNV-1a.
    let hash = base.bytes().fold(2_166_136_261_u32, |hash, byte| hash.wrapping_mul(16_777_619) ^ u32::from(byte));
    (hash, ordinal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_of_a_stateful_set_take_turns_and_those_of_one_pod_stay_together() {
        assert_eq!(turn("data-db-0"), (turn("logs-db-0").0, 0));
        assert_eq!(turn("data-db-4"), (turn("data-db-0").0, 4));
        assert_eq!(turn("media").1, 0);
    }
}
