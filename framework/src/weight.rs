//! How many bytes a class takes at most when it is said to a worker.
//!
//! A message has 4 MiB at most, and one that is larger ends the stream of every worker that is to be told. What weighs more
//! than [`MAX_CLASS`] is not said: the coordinator judges it.
//!
//! Knows: every list of a class. Must not know: how it is written on a wire; the crate that does compares both in its tests.

use std::sync::Arc;

use crate::{
    class::{AffinityTerm, Class, NodeTerm, Owner, PodAffinity, Requirement, SpreadConstraint},
    labels::LabelSelector,
    resources::Resources,
    volumes::{
        mounts::{Disk, Mount, PodVolumes},
        objects::InTree,
    },
};

/// The most that a class may weigh to be told: `RegisterClass` has the class and 20 bytes more. What [`crate::excess`] leaves
/// of a pod of 1.5 MiB is below it: names of extended resources come three times, 1 MiB in all, and the namespace in each of
/// 2,048 affinity terms, 0.2 MiB.
pub const MAX_CLASS: usize = 3 << 20;

/// The most that facts may weigh to be told with a dry run, which has 1.4 MiB of pods and some names besides: 3.4 MiB.
pub const MAX_TOLD: usize = 2 << 20;

/// A number with its tag.
const NUMBER: usize = 11;
/// What is around a text or a message: a tag of two bytes and a length of five.
const FRAME: usize = 7;

// === impl Class ===

impl Class {
    /// An upper bound on the bytes that the class takes.
    #[must_use]
    pub fn weight(&self) -> usize {
        let Self {
            namespace,
            labels: own_labels,
            requests,
            score_requests,
            accounted,
            nonzero_milli_cpu: _,
            nonzero_memory: _,
            node_name,
            node_selector,
            required_terms,
            preferred_terms,
            tolerations,
            host_ports,
            declared_features,
            images,
            spread,
            pod_affinity,
            owner,
            terminating: _,
            volumes,
            unbuilt,
        } = self;
        let tolerations = tolerations
            .iter()
            .map(|one| FRAME + text(&one.key) + text(&one.operator) + text(&one.value) + text(&one.effect));
        let ports = host_ports.iter().map(|port| FRAME + text(&port.ip) + text(&port.protocol) + NUMBER);
        let preferred = preferred_terms.iter().map(|(_, term)| FRAME + NUMBER + node_term(term));
        let lists: usize = tolerations.chain(ports).chain(preferred).chain(spread.iter().map(constraint)).sum();
        let required: usize = required_terms.iter().flatten().map(node_term).sum();
        let owner = owner.as_ref().map_or(0, |Owner { name, .. }| FRAME + NUMBER + text(name));
        let features: usize = declared_features.names().map(text).sum();
        text(namespace)
            + labels(own_labels)
            + labels(node_selector)
            + [requests, score_requests, accounted].into_iter().map(resources).sum::<usize>()
            + node_name.as_deref().map_or(0, text)
            + texts(images)
            + lists
            + required
            + affinity(pod_affinity)
            + owner
            + features
            + volumes.as_deref().map_or(0, pod_volumes)
            + unbuilt.len() * NUMBER
            + 4 * NUMBER
            + 3 * FRAME
    }

    /// Whether the class can be told to a worker.
    #[must_use]
    pub fn can_be_told(&self) -> bool {
        self.weight() <= MAX_CLASS
    }
}

fn text(text: &str) -> usize {
    text.len() + FRAME
}

fn texts(list: &[Arc<str>]) -> usize {
    list.iter().map(|one| text(one)).sum()
}

fn labels(list: &[(Arc<str>, Arc<str>)]) -> usize {
    list.iter().map(|(key, value)| FRAME + text(key) + text(value)).sum()
}

fn resources(amounts: &Resources) -> usize {
    FRAME + 3 * NUMBER + amounts.scalars.iter().map(|(name, _)| FRAME + text(name) + NUMBER).sum::<usize>()
}

fn node_term(term: &NodeTerm) -> usize {
    let requirement = |one: &Requirement| FRAME + text(&one.key) + text(&one.operator) + texts(&one.values);
    FRAME + FRAME + term.expressions.iter().chain(&term.fields).map(requirement).sum::<usize>()
}

fn selector(selector: &LabelSelector) -> usize {
    let of = |requirements: &Vec<crate::labels::LabelRequirement>| {
        let each = requirements.iter().map(|one| FRAME + text(&one.key) + NUMBER + texts(&one.values));
        each.sum::<usize>()
    };
    FRAME
        + NUMBER
        + FRAME
        + match selector {
            LabelSelector::Nothing => 0,
            LabelSelector::Matching(requirements) => of(requirements),
        }
}

fn constraint(constraint: &SpreadConstraint) -> usize {
    let selected = match &constraint.selector {
        Ok(known) => selector(known),
        Err(error) => text(error),
    };
    FRAME + text(&constraint.topology_key) + selected + 5 * NUMBER
}

fn affinity(affinity: &PodAffinity) -> usize {
    let term = |term: &AffinityTerm| {
        let selectors = selector(&term.selector) + selector(&term.namespace_selector);
        // A preferred one has a weight and a frame around it.
        2 * FRAME + NUMBER + selectors + texts(&term.namespaces) + text(&term.topology_key)
    };
    FRAME + affinity.terms().map(term).sum::<usize>() + affinity.error.as_deref().map_or(0, text)
}

fn pod_volumes(volumes: &PodVolumes) -> usize {
    let owner = volumes.owner.as_ref().map_or(0, |owner| FRAME + text(&owner.name) + text(&owner.uid));
    let mounts = volumes.mounts.iter().map(|mount| {
        FRAME
            + match mount {
                Mount::Claim(name) | Mount::Ephemeral(name) | Mount::Csi(name) => text(name),
                Mount::Inline(inline) => {
                    FRAME + inline.disk.as_ref().map_or(0, disk) + inline.in_tree.as_ref().map_or(0, in_tree)
                }
            }
    });
    FRAME + owner + mounts.sum::<usize>()
}

fn disk(disk: &Disk) -> usize {
    FRAME
        + NUMBER
        + match disk {
            Disk::GcePersistentDisk { name, .. } | Disk::Iscsi { iqn: name, .. } => text(name),
            Disk::AwsElasticBlockStore { volume } => text(volume),
            Disk::Rbd { monitors, pool, image, .. } => texts(monitors) + text(pool) + text(image),
        }
}

fn in_tree(volume: &InTree) -> usize {
    let InTree { plugin, driver, handle, node_affinity } = volume;
    let (Ok(handle) | Err(handle)) = handle;
    let terms: usize = node_affinity.iter().flatten().map(node_term).sum();
    3 * FRAME + text(plugin) + text(driver) + text(handle) + terms
}
