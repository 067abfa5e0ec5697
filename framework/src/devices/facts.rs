//! Claims of a class of pods, evaluated independently of nodes.

use std::sync::Arc;

use super::{
    footprint::Footprint,
    model::{allocation::Allocation, claim::DeviceClaim, class::DeviceClass, request::ClaimSpec},
    special::{Extended, Served, UNNAMED},
};
use crate::class::{Class, NodeTerm};

/// PreFilter result for the claims.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DeviceFacts {
    /// No node is feasible; the reason.
    Refuse(Arc<str>),
    /// The claims cannot be evaluated; the error.
    Fail(Arc<str>),
    /// The claims are evaluated on each node.
    Claims(Arc<Claims>),
}

/// Claims of a class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Claims {
    /// In the pod's order.
    pub claims: Vec<ClaimFact>,
    /// Classes of the unallocated claims, unique, sorted by name.
    pub classes: Vec<Arc<DeviceClass>>,
    /// Extended resources that devices may provide.
    pub extended: Option<Arc<Extended>>,
    /// Namespace of the pods, if they have such resources.
    pub namespace: Arc<str>,
    /// Requests of the pods, to which their devices add amounts, if DRANodeAllocatableResources is on.
    pub requests: Option<Requests>,
}

/// Requests of pods to which their devices add amounts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Requests {
    /// Requests without the devices.
    pub footprint: Arc<Footprint>,
    /// The claim of each entry of `spec.resourceClaims` that has one, by index in [`Claims::claims`].
    pub entries: Vec<(Arc<str>, usize)>,
}

/// State of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClaimFact {
    /// Allocated.
    Allocated {
        /// Nodes that can use its devices; `None`: all.
        nodes: Option<Vec<NodeTerm>>,
        /// Whether its devices failed to become ready.
        has_failed: bool,
        /// Whether only nodes that declare DRAOptionalNodeOperations can use its devices.
        skips_operations: bool,
        /// Score of the selected alternatives.
        score: i64,
        /// Its devices, if DRANodeAllocatableResources is on.
        devices: Option<Arc<ClaimDevices>>,
    },
    /// Not allocated.
    Unallocated {
        /// Its label in error texts.
        label: Arc<str>,
        /// Its spec.
        spec: Arc<ClaimSpec>,
    },
}

/// Devices of an allocated claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ClaimDevices {
    /// `namespace/name` of the claim.
    pub label: Arc<str>,
    /// The allocation.
    pub allocation: Arc<Allocation>,
    /// A device maps to an amount of a node's resource, and another pod has the claim.
    pub is_taken: bool,
}

impl ClaimDevices {
    /// Name of the claim.
    #[must_use]
    pub fn name(&self) -> &str {
        name_of(&self.label)
    }
}

/// The name in a label of a claim: `namespace/name`, or a placeholder.
pub(crate) fn name_of(label: &str) -> &str {
    label.split_once('/').map_or(label, |(_, name)| name)
}

/// Encloses the index of a claim without a name in the class.
const NAMELESS: char = '\u{1}';

/// Placeholder for the name of a claim, by its index in the pod. [`with_claim_names`] replaces it.
pub(crate) fn nameless(place: usize) -> String {
    format!("{NAMELESS}{place}{NAMELESS}")
}

/// The message about a class as a message about one of its pods: with the names of the pod's claims. `whole` has all fields of the pod.
#[must_use]
pub fn with_claim_names(message: String, whole: &Class) -> String {
    if !message.contains(NAMELESS) {
        return message;
    }
    let names = whole.devices.iter().flat_map(|devices| devices.names()).enumerate();
    names.fold(message, |message, (place, (name, _))| {
        message.replace(&nameless(place), &format!("{}/{name}", whole.namespace))
    })
}

impl Claims {
    /// The class with this name.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<Arc<DeviceClass>> {
        let known = self.classes.iter().find(|class| &*class.name == name);
        known.or_else(|| self.behind().find(|class| &*class.name == name)).cloned()
    }

    fn behind(&self) -> impl Iterator<Item = &Arc<DeviceClass>> {
        self.extended.iter().flat_map(|extended| &extended.resources).filter_map(|(_, class)| class.as_ref())
    }

    /// Unallocated claims and their indices, as input of the search. The claim for extended resources from devices is last.
    #[must_use]
    pub fn unallocated(&self, served: Served) -> Vec<DeviceClaim> {
        let unallocated = self.claims.iter().filter_map(|claim| match claim {
            // A placeholder without a namespace is used unchanged.
            ClaimFact::Unallocated { label, spec } => {
                Some(DeviceClaim { name: Arc::clone(label), spec: Arc::clone(spec), ..DeviceClaim::default() })
            }
            ClaimFact::Allocated { .. } => None,
        });
        let special = self.extended.as_ref().and_then(|extended| extended.claimed(served));
        let special = special.map(|(spec, _)| DeviceClaim {
            namespace: Arc::clone(&self.namespace),
            name: UNNAMED.into(),
            spec,
            ..DeviceClaim::default()
        });
        unallocated.chain(special).collect()
    }
}

impl DeviceFacts {
    /// Approximate bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Refuse(text) | Self::Fail(text) => text.len(),
            // The specs are shared with the claims.
            Self::Claims(claims) => size_of::<Claims>() + claims.claims.len() * size_of::<ClaimFact>(),
        }
    }
}
