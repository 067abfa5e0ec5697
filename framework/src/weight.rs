//! The size of a class or node: an upper bound for messages to workers, and an estimate in memory.
//!
//! A message above 4 MiB ends the stream of every receiving worker. The coordinator evaluates a class above [`MAX_CLASS`] itself. Tests of
//! the wire crate compare these bounds with its encoding.

use std::sync::Arc;

use crate::{
    class::{AffinityTerm, Class, Common, NodeTerm, Owner, PodAffinity, Requirement, SpreadConstraint},
    devices::claimed::{ClaimSource, PodDevices},
    labels::LabelSelector,
    node::NodeInfo,
    resources::Resources,
    volumes::{
        mounts::{Disk, Mount, PodVolumes},
        node::NodeCsi,
        objects::InTree,
    },
};

/// The maximum weight of a class in a message: `RegisterClass` has the class and 20 bytes more. The part of a 1.5 MiB pod that
/// [`crate::excess`] keeps is below it: names of extended resources occur three times, 1 MiB in all, and the namespace in each of 2,048
/// affinity terms, 0.2 MiB.
pub const MAX_CLASS: usize = 3 << 20;

/// The maximum weight of a node in a message: `UpsertNode` has the node and some 20 bytes more. It contains data from the Node, its CSINode
/// and its VolumeAttachments. The API server bounds each object to 1.5 MiB, but not the number of VolumeAttachments.
pub const MAX_NODE: usize = 3 << 20;

/// The maximum weight of facts in a dry run, which also has 1.4 MiB of pods and some names: 3.4 MiB.
pub const MAX_TOLD: usize = 2 << 20;

#[derive(Debug, Clone, Copy)]
struct Measure {
    number: usize,
    text: usize,
    group: usize,
}

/// In a message: a number has its tag; a text and a group have a tag of two bytes and a length of five.
const WIRE: Measure = Measure { number: 11, text: 7, group: 7 };
/// In memory: a text has a reference of 16 bytes and two counters, a group a vector.
const MEMORY: Measure = Measure { number: 8, text: 32, group: 24 };

impl Class {
    /// An upper bound on the size of the class in a message, in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        WIRE.class(self)
    }

    /// The approximate size of the class in memory, in bytes. Shared texts count in full.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + size_of::<Common>() + MEMORY.class(self)
    }

    /// Whether the class can be sent to a worker.
    #[must_use]
    pub fn is_sendable(&self) -> bool {
        self.weight() <= MAX_CLASS
    }
}

impl NodeInfo {
    /// An upper bound on the size of the node in a message, in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        WIRE.node(self)
    }

    /// Whether the node can be sent to a worker.
    #[must_use]
    pub fn is_sendable(&self) -> bool {
        self.weight() <= MAX_NODE
    }
}

impl Measure {
    fn class(self, class: &Class) -> usize {
        let Class { namespace, labels: own_labels, common, terminating: _, volumes, fields, devices, within: _ } =
            class;
        let Common {
            requests,
            score_requests,
            accounted,
            nonzero_milli_cpu: _,
            nonzero_memory: _,
            node_name,
            resize_deferred: _,
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
        } = &**common;
        let fields = fields.iter().map(|(field, value)| self.group + self.text(&field.to_string()) + self.text(value));
        let fields: usize = fields.sum();
        let tolerations = tolerations.iter().map(|one| {
            self.group + self.text(&one.key) + self.text(&one.operator) + self.text(&one.value) + self.text(&one.effect)
        });
        let ports =
            host_ports.iter().map(|port| self.group + self.text(&port.ip) + self.text(&port.protocol) + self.number);
        let preferred = preferred_terms.iter().map(|(_, term)| self.group + self.number + self.node_term(term));
        let lists: usize =
            tolerations.chain(ports).chain(preferred).chain(spread.iter().map(|one| self.constraint(one))).sum();
        let required: usize = required_terms.iter().flatten().map(|term| self.node_term(term)).sum();
        let owner = owner.as_ref().map_or(0, |Owner { name, .. }| self.group + self.number + self.text(name));
        let features: usize = declared_features.names().map(|name| self.text(name)).sum();
        self.text(namespace)
            + self.labels(own_labels)
            + self.labels(node_selector)
            + [requests, score_requests, accounted].into_iter().map(|amounts| self.resources(amounts)).sum::<usize>()
            + node_name.as_deref().map_or(0, |text| self.text(text))
            + self.texts(images)
            + lists
            + required
            + self.affinity(pod_affinity)
            + owner
            + features
            + fields
            + volumes.as_deref().map_or(0, |volumes| self.pod_volumes(volumes))
            + devices.as_deref().map_or(0, |devices| self.pod_devices(devices))
            + 4 * self.number
            + 3 * self.group
    }

    fn node(self, node: &NodeInfo) -> usize {
        let NodeInfo {
            name,
            uid,
            labels,
            taints,
            unschedulable: _,
            resize_preemption_disabled: _,
            allocatable,
            allowed_pods: _,
            declared_features,
            images,
            csi,
            // Workers do not receive devices.
            devices: _,
        } = node;
        let taints = taints
            .iter()
            .map(|taint| self.group + self.text(&taint.key) + self.text(&taint.value) + self.text(&taint.effect));
        let images = images.iter().map(|(names, _)| self.group + self.texts(names) + self.number);
        let features = declared_features.names().map(|name| self.text(name));
        self.text(name)
            + self.text(uid)
            + self.labels(labels)
            + taints.chain(images).chain(features).sum::<usize>()
            + self.resources(allocatable)
            + csi.as_deref().map_or(0, |csi| self.node_csi(csi))
            + 2 * self.number
    }

    fn node_csi(self, csi: &NodeCsi) -> usize {
        let NodeCsi { drivers, migrated_plugins, attached } = csi;
        let drivers = drivers.iter().map(|(name, _)| self.group + self.text(name) + self.number);
        let attached = attached.iter().map(|one| self.group + self.text(&one.driver) + self.text(&one.handle));
        self.group + drivers.chain(attached).sum::<usize>() + self.texts(migrated_plugins)
    }

    fn pod_devices(self, devices: &PodDevices) -> usize {
        let PodDevices { owner, group, claims, containers, mapped, has_left: _, footprint: _ } = devices;
        let claims = claims.iter().map(|claim| {
            let name = match &claim.source {
                ClaimSource::Named(name) | ClaimSource::Generated(name) => self.text(name),
                ClaimSource::NotNeeded | ClaimSource::NotCreated | ClaimSource::Like(_) | ClaimSource::Unknown => 0,
            };
            let template = claim.template.as_ref().map_or(0, |template| self.text(template));
            2 * self.group + self.text(&claim.entry) + name + template + self.number
        });
        let containers = containers.iter().map(|container| {
            let requests = container.requests.iter().map(|(name, _)| self.group + self.text(name) + self.number);
            self.group + self.text(&container.name) + self.number + requests.sum::<usize>()
        });
        2 * self.group
            + self.text(&owner.name)
            + self.text(&owner.uid)
            + group.as_ref().map_or(0, |group| self.text(group))
            + claims.sum::<usize>()
            + containers.sum::<usize>()
            + self.texts(mapped)
            + self.number
    }

    fn text(self, text: &str) -> usize {
        text.len() + self.text
    }

    fn texts(self, list: &[Arc<str>]) -> usize {
        list.iter().map(|one| self.text(one)).sum()
    }

    fn labels(self, list: &[(Arc<str>, Arc<str>)]) -> usize {
        list.iter().map(|(key, value)| self.group + self.text(key) + self.text(value)).sum()
    }

    fn resources(self, amounts: &Resources) -> usize {
        self.group
            + 3 * self.number
            + amounts.scalars.iter().map(|(name, _)| self.group + self.text(name) + self.number).sum::<usize>()
    }

    fn node_term(self, term: &NodeTerm) -> usize {
        let requirement =
            |one: &Requirement| self.group + self.text(&one.key) + self.text(&one.operator) + self.texts(&one.values);
        self.group + self.group + term.expressions.iter().chain(&term.fields).map(requirement).sum::<usize>()
    }

    fn selector(self, selector: &LabelSelector) -> usize {
        let of = |requirements: &Vec<crate::labels::LabelRequirement>| {
            let each =
                requirements.iter().map(|one| self.group + self.text(&one.key) + self.number + self.texts(&one.values));
            each.sum::<usize>()
        };
        self.group
            + self.number
            + self.group
            + match selector {
                LabelSelector::Nothing => 0,
                LabelSelector::Matching(requirements) => of(requirements),
            }
    }

    fn constraint(self, constraint: &SpreadConstraint) -> usize {
        let selected = match &constraint.selector {
            Ok(known) => self.selector(known),
            Err(error) => self.text(error),
        };
        self.group + self.text(&constraint.topology_key) + selected + 5 * self.number
    }

    fn affinity(self, affinity: &PodAffinity) -> usize {
        let term = |term: &AffinityTerm| {
            let selectors = self.selector(&term.selector) + self.selector(&term.namespace_selector);
            // A preferred term has a weight and a frame around it.
            2 * self.group + self.number + selectors + self.texts(&term.namespaces) + self.text(&term.topology_key)
        };
        self.group
            + affinity.terms().map(term).sum::<usize>()
            + affinity.error.as_deref().map_or(0, |text| self.text(text))
    }

    fn pod_volumes(self, volumes: &PodVolumes) -> usize {
        let owner =
            volumes.owner.as_ref().map_or(0, |owner| self.group + self.text(&owner.name) + self.text(&owner.uid));
        let mounts = volumes.mounts.iter().map(|mount| {
            self.group
                + match mount {
                    Mount::Claim(name) | Mount::Ephemeral(name) | Mount::Csi(name) => self.text(name),
                    Mount::Inline(inline) => {
                        self.group
                            + inline.disk.as_ref().map_or(0, |disk| self.disk(disk))
                            + inline.in_tree.as_ref().map_or(0, |volume| self.in_tree(volume))
                    }
                }
        });
        self.group + owner + mounts.sum::<usize>()
    }

    fn disk(self, disk: &Disk) -> usize {
        self.group
            + self.number
            + match disk {
                Disk::GcePersistentDisk { name, .. } | Disk::Iscsi { iqn: name, .. } => self.text(name),
                Disk::AwsElasticBlockStore { volume } => self.text(volume),
                Disk::Rbd { monitors, pool, image, .. } => self.texts(monitors) + self.text(pool) + self.text(image),
            }
    }

    fn in_tree(self, volume: &InTree) -> usize {
        let InTree { plugin, driver, handle, node_affinity } = volume;
        let (Ok(handle) | Err(handle)) = handle;
        let terms: usize = node_affinity.iter().flatten().map(|term| self.node_term(term)).sum();
        3 * self.group + self.text(plugin) + self.text(driver) + self.text(handle) + terms
    }
}
