//! What of a pod is more than is tried: lists so long that judging the pod would cost the other pods their time, or the
//! process its memory.
//!
//! The API server bounds a pod by its bytes alone, 1.5 MiB as it is stored, so that one pod may have 300,000 affinity
//! terms. What a pod costs is known from its lists before anything is prepared for it. The bounds are far above what
//! people and controllers write; beyond them a pod is not tried.
//!
//! Knows: the bounds with their arithmetic, and the words for a pod that is beyond them. Must not know: who holds such a
//! pod back, or any plugin.

use std::{collections::BTreeSet, sync::Arc};

use flotilla_planted::planted;

use crate::{
    class::{AffinityTerm, Class, PodAffinity},
    labels::LabelSelector,
    plugins::inter_pod_affinity::selects_namespaces,
};

pub mod objects;

/// How many terms `podAffinity` and `podAntiAffinity` may have, each. Each term is compared with each class of pods, in
/// some 30 ns: 10,000 classes take 0.3 s, once. Pods that people write have fewer than 20.
pub const MAX_TERMS: usize = 1_024;

/// How many spread constraints. Each counts on each node, in some 10 ns: 5,000 nodes take 6 ms. Pods have fewer than 5.
pub const MAX_CONSTRAINTS: usize = 128;

/// How many different topology keys an affinity or all spread constraints may name. For each key a node has a row of 16
/// bytes: 10 MiB at 5,000 nodes. Pods name fewer than 5.
pub const MAX_TOPOLOGY_KEYS: usize = 128;

/// How many requirements and values the label selectors of an affinity or of all spread constraints may have, and how many
/// namespaces an affinity may name. Each requirement comes into play with some 250 bytes: 4 MiB. Pods have fewer than 100.
pub const MAX_SELECTED: usize = 16_384;

/// How many requirements on node labels, `nodeSelector` included. Each is asked of each node, in some 5 ns: 5,000 nodes
/// take 0.1 s. Pods have fewer than 100.
pub const MAX_NODE_REQUIREMENTS: usize = 4_096;

/// How many values these requirements may name, such as the nodes by name. They are looked up, and those that no node has are
/// kept with some 80 bytes: 5 MiB. It is six times the nodes of the largest cluster that Kubernetes supports.
pub const MAX_NODE_VALUES: usize = 32_768;

/// How many tolerations. Each is compared with each taint of each set of taints, in some 10 ns: 1,000 sets of 5 taints take
/// 50 ms. Pods have fewer than 50.
pub const MAX_TOLERATIONS: usize = 1_024;

/// How many extended resources. Each is compared on each node, in some 5 ns: 5,000 nodes take 25 ms. Pods name fewer than
/// 10.
pub const MAX_RESOURCES: usize = 1_024;

/// How many host ports. Each is compared with each port in use on each node, in some 5 ns: 5,000 nodes with 100 ports take
/// 2.5 s, once for each class. Pods have fewer than 20.
pub const MAX_PORTS: usize = 1_024;

/// How many images, and how many volumes that plugins read. An image is looked up among those of each node, in some 50 ns:
/// 5,000 nodes take 0.25 s. Pods have fewer than 50 of each.
pub const MAX_IMAGES: usize = 1_024;

/// As [`MAX_IMAGES`].
pub const MAX_VOLUMES: usize = 1_024;

/// How many claims of devices. Each is looked up among those of its pod's status, and kept with the state of an attempt by its
/// place, of which 64 have a bit. Pods have fewer than 10.
pub const MAX_CLAIMS: usize = 32;

/// How many labels a pod may have. Each that no selector reads is kept with some 250 bytes: 256 KiB. Pods have fewer than
/// 50.
pub const MAX_LABELS: usize = 1_024;

/// How often the namespace selectors of an affinity may be compared with a namespace: their requirements and values, each
/// different selector once, times the namespaces. At some 15 ns each that is 8 ms, and the names that they select take at
/// most 8 MiB. At 10,000 namespaces, the most that Kubernetes supports, 52 selectors of one requirement are within it.
pub const MAX_COMPARISONS: u64 = 1 << 19;

/// Those terms of a pod that are of one kind.
type TermsOf = fn(&PodAffinity) -> Terms<'_>;

/// A pod's affinity, its anti-affinity, and where they stand in its specification.
const FIELDS: [(&str, TermsOf); 2] = [
    ("spec.affinity.podAffinity", |affinity| Terms { required: &affinity.required, preferred: &affinity.preferred }),
    ("spec.affinity.podAntiAffinity", |affinity| Terms {
        required: &affinity.required_anti,
        preferred: &affinity.preferred_anti,
    }),
];

struct Terms<'a> {
    required: &'a [AffinityTerm],
    preferred: &'a [(i32, AffinityTerm)],
}

impl<'a> Terms<'a> {
    fn iter(&self) -> impl Iterator<Item = &'a AffinityTerm> + use<'a> {
        self.required.iter().chain(self.preferred.iter().map(|(_, term)| term))
    }
}

/// What is too large about a pod, whatever the cluster is: the field, how large it is, and the bound. The first of several.
#[must_use]
pub fn of_class(class: &Class) -> Option<String> {
    let of_fields = || FIELDS.iter().find_map(|(field, terms)| of_terms(field, &terms(&class.pod_affinity)));
    of_fields().or_else(|| of_spread(class)).or_else(|| of_lists(class))
}

fn of_terms(field: &str, terms: &Terms<'_>) -> Option<String> {
    beyond(field, terms.iter().count(), "terms", MAX_TERMS).or_else(|| {
        let keys: BTreeSet<&str> = terms.iter().map(|term| &*term.topology_key).collect();
        beyond(field, keys.len(), "different topology keys", MAX_TOPOLOGY_KEYS)
            .or_else(|| {
                let names = terms.iter().map(|term| term.namespaces.len()).sum();
                beyond(field, names, "names of namespaces", MAX_SELECTED)
            })
            .or_else(|| beyond(field, selected(terms.iter().map(|term| &term.selector)), SELECTED, MAX_SELECTED))
            .or_else(|| {
                let of_namespaces = terms.iter().map(|term| &term.namespace_selector);
                beyond(field, selected(of_namespaces), SELECTED, MAX_SELECTED)
            })
    })
}

const SELECTED: &str = "requirements and values in its selectors";

fn of_spread(class: &Class) -> Option<String> {
    let field = "spec.topologySpreadConstraints";
    let keys: BTreeSet<&str> = class.spread.iter().map(|constraint| &*constraint.topology_key).collect();
    let selectors = class.spread.iter().filter_map(|constraint| constraint.selector.as_ref().ok());
    beyond(field, class.spread.len(), "constraints", MAX_CONSTRAINTS)
        .or_else(|| beyond(field, keys.len(), "different topology keys", MAX_TOPOLOGY_KEYS))
        .or_else(|| beyond(field, selected(selectors), SELECTED, MAX_SELECTED))
}

fn of_lists(class: &Class) -> Option<String> {
    let preferred = class.preferred_terms.iter().map(|(_, term)| term);
    let terms = class.required_terms.iter().flatten().chain(preferred);
    let requirements: usize = terms.clone().map(|term| 1 + term.expressions.len() + term.fields.len()).sum();
    let values = terms.flat_map(|term| term.expressions.iter().chain(&term.fields)).map(|one| one.values.len()).sum();
    let volumes = class.volumes.as_ref().map_or(0, |volumes| volumes.mounts.len());
    let claims = class.devices.as_ref().map_or(0, |devices| devices.claims.len());
    let resources = class.requests.scalars.len().max(class.score_requests.scalars.len());
    [
        ("spec.nodeSelector", class.node_selector.len(), "labels", MAX_NODE_REQUIREMENTS),
        ("spec.affinity.nodeAffinity", requirements, "terms and requirements", MAX_NODE_REQUIREMENTS),
        ("spec.affinity.nodeAffinity", values, "values", MAX_NODE_VALUES),
        ("spec.tolerations", class.tolerations.len(), "tolerations", MAX_TOLERATIONS),
        ("spec.containers", resources, "extended resources", MAX_RESOURCES),
        ("spec.containers", class.host_ports.len(), "host ports", MAX_PORTS),
        ("spec.containers", class.images.len(), "images", MAX_IMAGES),
        ("spec.volumes", volumes, "volumes", MAX_VOLUMES),
        ("spec.resourceClaims", claims, "claims", MAX_CLAIMS),
        ("metadata.labels", class.labels.len(), "labels", MAX_LABELS),
    ]
    .into_iter()
    .find_map(|(field, size, what, limit)| beyond(field, size, what, limit))
}

fn beyond(field: &str, size: usize, what: &str, limit: usize) -> Option<String> {
    (size > limit).then(|| format!("{field} has {size} {what}, the limit is {limit}"))
}

fn selected<'a>(selectors: impl Iterator<Item = &'a LabelSelector>) -> usize {
    selectors.map(size).sum()
}

/// The requirements and values of a selector.
fn size(selector: &LabelSelector) -> usize {
    match selector {
        LabelSelector::Nothing => 0,
        LabelSelector::Matching(requirements) => {
            requirements.iter().map(|requirement| 1 + requirement.values.len()).sum()
        }
    }
}

/// How often the affinity of a class that has most of it compares one namespace.
#[must_use]
pub fn comparisons(class: &Class) -> u64 {
    FIELDS.iter().map(|(_, terms)| of_selectors(&terms(&class.pod_affinity)).1).max().unwrap_or(0)
}

/// How many different namespace selectors there are, and how many requirements and values they have together.
fn of_selectors(terms: &Terms<'_>) -> (usize, u64) {
    let selectors = terms.iter().filter(|term| selects_namespaces(term)).map(|term| &term.namespace_selector);
    let different: indexmap::IndexSet<&LabelSelector> = selectors.collect();
    (different.len(), different.iter().map(|selector| size(selector) as u64).sum())
}

/// Whether a class of so many [`comparisons`] with one namespace is beyond the bound with so many namespaces.
#[must_use]
pub const fn is_over_namespaces(comparisons: u64, namespaces: usize) -> bool {
    comparisons.saturating_mul(namespaces as u64) > MAX_COMPARISONS
}

/// What is too large about a class with so many namespaces.
#[must_use]
pub fn over_namespaces(class: &Class, namespaces: usize) -> Option<String> {
    FIELDS.iter().find_map(|(field, terms)| {
        let (selectors, of_one) = of_selectors(&terms(&class.pod_affinity));
        is_over_namespaces(of_one, namespaces).then(|| {
            let all = of_one.saturating_mul(namespaces as u64);
            format!(
                "{field} has {selectors} different namespaceSelectors over {namespaces} namespaces, which is {all} \
                 comparisons, the limit is {MAX_COMPARISONS}"
            )
        })
    })
}

/// Cuts a class down that is beyond a bound, and says what is. Of a pod that has no node nothing is left, for it is not
/// tried. One that is on a node keeps the resources that it takes there; what it wishes of other pods does not count, nor do labels
/// and host ports beyond the bound.
#[must_use]
pub fn cut(class: Class, stands: bool) -> (Class, Option<Arc<str>>) {
    let Some(excess) = of_class(&class) else { return (class, None) };
    let cut = if stands {
        let mut labels = class.labels;
        labels.truncate(MAX_LABELS);
        let mut host_ports = class.host_ports;
        host_ports.truncate(if planted("takes-ports-one-by-one") { usize::MAX } else { MAX_PORTS });
        Class {
            labels,
            host_ports,
            spread: Vec::new(),
            pod_affinity: PodAffinity::default(),
            node_selector: Vec::new(),
            required_terms: None,
            preferred_terms: Vec::new(),
            tolerations: Vec::new(),
            images: Vec::new(),
            ..class
        }
    } else {
        Class { namespace: class.namespace, ..Class::default() }
    };
    (cut, Some(excess.into()))
}

#[cfg(test)]
mod tests;
