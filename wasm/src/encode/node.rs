//! Encodes a node.

use flotilla_framework::{
    snapshot::{ScalarColumn, Slot, Snapshot, Values},
    symbols::Symbol,
};

use super::wire;
use crate::args::NodeField;

/// `Node`.
const METADATA: u32 = 1;
const SPEC: u32 = 2;
const STATUS: u32 = 3;
/// `ObjectMeta`.
const NAME: u32 = 1;
const LABELS: u32 = 11;
/// `NodeSpec`.
const UNSCHEDULABLE: u32 = 4;
const TAINTS: u32 = 5;
/// `NodeStatus`.
const ALLOCATABLE: u32 = 2;
const IMAGES: u32 = 8;

pub(crate) struct Nodes<'a> {
    nodes: &'a Snapshot,
    is_named: bool,
    has_taints: bool,
    is_unschedulable: bool,
    has_images: bool,
    has_capacity: bool,
    /// The visible labels, sorted by key.
    labels: Vec<(&'a str, Values<'a, Symbol>)>,
    /// The visible extended resources, sorted by name.
    scalars: Vec<(&'a str, &'a ScalarColumn)>,
    resources: [bool; 4],
}

const RESOURCES: [&str; 4] = ["cpu", "ephemeral-storage", "memory", "pods"];

impl<'a> Nodes<'a> {
    pub(crate) fn new(nodes: &'a Snapshot, fields: &[NodeField]) -> Self {
        let has = |field: &NodeField| fields.contains(field);
        let all = |field: &NodeField, one: bool| has(field) || one;
        let shows_label = |key: &str| all(&NodeField::Labels, has(&NodeField::Label(key.to_owned())));
        let shows_resource = |name: &str| all(&NodeField::Allocatable, has(&NodeField::Resource(name.to_owned())));
        let mut labels: Vec<_> = nodes
            .label_columns()
            .map(|(key, column)| (nodes.symbols.text(key), column))
            .filter(|(key, _)| shows_label(key))
            .collect();
        labels.sort_unstable_by_key(|(key, _)| *key);
        let mut scalars: Vec<_> = nodes.accounts.scalars().filter(|(name, _)| shows_resource(name)).collect();
        scalars.sort_unstable_by_key(|(name, _)| *name);
        let resources = RESOURCES.map(shows_resource);
        Self {
            nodes,
            is_named: has(&NodeField::Name),
            has_taints: has(&NodeField::Taints),
            is_unschedulable: has(&NodeField::Unschedulable),
            has_images: has(&NodeField::Images),
            has_capacity: resources.contains(&true) || !scalars.is_empty(),
            labels,
            scalars,
            resources,
        }
    }

    pub(crate) fn name(&self, slot: Slot) -> &'a str {
        self.nodes.symbols.text(self.nodes.name(slot))
    }

    pub(crate) fn write(&self, slot: Slot, out: &mut Vec<u8>) {
        let nodes = self.nodes;
        wire::message(METADATA, out, |out| {
            if self.is_named {
                wire::text(NAME, self.name(slot), out);
            }
            for (key, column) in &self.labels {
                let value = column.get(slot);
                if value != Symbol::NONE {
                    wire::entry(LABELS, key, nodes.symbols.text(value), out);
                }
            }
        });
        let taints = if self.has_taints { nodes.taints(nodes.taint_set(slot)) } else { &[] };
        let unschedulable = self.is_unschedulable && nodes.unschedulable(slot);
        if unschedulable || !taints.is_empty() {
            wire::message(SPEC, out, |out| {
                wire::number(UNSCHEDULABLE, i64::from(unschedulable), out);
                for taint in taints {
                    wire::message(TAINTS, out, |out| {
                        wire::text(1, &taint.key, out);
                        wire::text(2, &taint.value, out);
                        wire::text(3, &taint.effect, out);
                    });
                }
            });
        }
        let images = if self.has_images { nodes.images(slot) } else { &[] };
        if self.has_capacity || !images.is_empty() {
            wire::message(STATUS, out, |out| self.write_status(slot, images, out));
        }
    }

    fn write_status(&self, slot: Slot, images: &[Symbol], out: &mut Vec<u8>) {
        let (accounts, at) = (&self.nodes.accounts, slot as usize);
        let amounts = [
            wire::cpu(accounts.allocatable_milli_cpu[at]),
            accounts.allocatable_ephemeral_storage[at].to_string(),
            accounts.allocatable_memory[at].to_string(),
            accounts.allowed_pods[at].to_string(),
        ];
        for ((name, amount), _) in RESOURCES.into_iter().zip(&amounts).zip(self.resources).filter(|(_, shown)| *shown) {
            wire::quantity(ALLOCATABLE, name, amount, out);
        }
        for (name, column) in &self.scalars {
            let amount = column.allocatable(slot);
            if amount != 0 {
                wire::quantity(ALLOCATABLE, name, &amount.to_string(), out);
            }
        }
        // Sorted by name, because symbol numbers differ between processes.
        let mut names: Vec<&str> = images.iter().map(|&name| self.nodes.symbols.text(name)).collect();
        names.sort_unstable();
        for name in names {
            wire::message(IMAGES, out, |out| wire::text(1, name, out));
        }
    }
}
