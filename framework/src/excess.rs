//! Limits on the lists of a pod, beyond which scheduling it would cost too much time or memory.
//!
//! The API server bounds a pod only by 1.5 MiB, so one pod may have 300,000 affinity terms. The cost is known from the lists before
//! anything is prepared. The limits are far above common use; a pod beyond them is not scheduled.

use std::{collections::BTreeSet, sync::Arc};

use flotilla_planted::planted;

use crate::{
    class::{AffinityTerm, Class, Common, PodAffinity},
    labels::LabelSelector,
    plugins::inter_pod_affinity::selects_namespaces,
};

pub mod objects;

/// Terms in `podAffinity` or `podAntiAffinity`. Each is compared with each class in some 30 ns: 10,000 classes take 0.3 s. Usual: under 20.
pub const MAX_TERMS: usize = 1_024;

/// Spread constraints. Each counts on each node in some 10 ns: 5,000 nodes take 6 ms. Usual: fewer than 5.
pub const MAX_CONSTRAINTS: usize = 128;

/// Topology keys in an affinity or in all spread constraints. A node has 16 bytes for each: 10 MiB at 5,000 nodes. Usual: under 5.
pub const MAX_TOPOLOGY_KEYS: usize = 128;

/// Label selector requirements and values in an affinity or all spread constraints, and an affinity's namespaces. Each requirement in play
/// takes some 250 bytes: 4 MiB. Usual: under 100.
pub const MAX_SELECTED: usize = 16_384;

/// Requirements on node labels, with `nodeSelector`. Each takes some 5 ns on each node: 0.1 s for 5,000 nodes. Usual: under 100.
pub const MAX_NODE_REQUIREMENTS: usize = 4_096;

/// Values in them, such as node names. Unknown values take some 80 bytes: 5 MiB. Six times the nodes of the largest supported cluster.
pub const MAX_NODE_VALUES: usize = 32_768;

/// Tolerations. Each is compared with each taint of each taint set in some 10 ns: 1,000 sets of 5 taints take 50 ms. Usual: fewer than 50.
pub const MAX_TOLERATIONS: usize = 1_024;

/// Extended resources. Each is compared on each node in some 5 ns: 5,000 nodes take 25 ms. Usual: fewer than 10.
pub const MAX_RESOURCES: usize = 1_024;

/// Host ports. Each is compared with each used port in some 5 ns: 2.5 s for 5,000 nodes with 100 ports, once per class. Usual: under 20.
pub const MAX_PORTS: usize = 1_024;

/// Images, and volumes that plugins read. An image takes some 50 ns on each node: 0.25 s for 5,000 nodes. Usual: under 50 of each.
pub const MAX_IMAGES: usize = 1_024;

/// As [`MAX_IMAGES`].
pub const MAX_VOLUMES: usize = 1_024;

/// Device claims. Each is looked up in the pod's status, and has one bit of 64 in the state of an attempt. Usual: fewer than 10.
pub const MAX_CLAIMS: usize = 32;

/// Labels of a pod. Each that no selector reads takes some 250 bytes: 256 KiB. Usual: fewer than 50.
pub const MAX_LABELS: usize = 1_024;

/// Comparisons of an affinity's namespace selectors with namespaces: requirements and values of the different selectors, times the
/// namespaces. At some 15 ns each that is 8 ms, and the selected names take at most 8 MiB. At 10,000 namespaces, the most that Kubernetes
/// supports, 52 selectors of one requirement are within it.
pub const MAX_COMPARISONS: u64 = 1 << 19;

type TermsOf = fn(&PodAffinity) -> Terms<'_>;

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

/// The first field of a pod that is beyond its limit, independent of the cluster: path, size and limit.
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

fn size(selector: &LabelSelector) -> usize {
    match selector {
        LabelSelector::Nothing => 0,
        LabelSelector::Matching(requirements) => {
            requirements.iter().map(|requirement| 1 + requirement.values.len()).sum()
        }
    }
}

/// Comparisons with one namespace, for the affinity of a class that has more of them.
#[must_use]
pub fn comparisons(class: &Class) -> u64 {
    FIELDS.iter().map(|(_, terms)| of_selectors(&terms(&class.pod_affinity)).1).max().unwrap_or(0)
}

fn of_selectors(terms: &Terms<'_>) -> (usize, u64) {
    let selectors = terms.iter().filter(|term| selects_namespaces(term)).map(|term| &term.namespace_selector);
    let different: indexmap::IndexSet<&LabelSelector> = selectors.collect();
    (different.len(), different.iter().map(|selector| size(selector) as u64).sum())
}

/// Whether a class with these [`comparisons`] per namespace exceeds the limit at this number of namespaces.
#[must_use]
pub const fn is_over_namespaces(comparisons: u64, namespaces: usize) -> bool {
    comparisons.saturating_mul(namespaces as u64) > MAX_COMPARISONS
}

/// The field of a class that exceeds the limit at this number of namespaces.
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

/// Cuts a class that exceeds a limit, and returns the reason. A pending pod keeps only its namespace, because it is not scheduled. A bound
/// pod keeps its resources, and labels and host ports up to the limits; its affinities and constraints do not count.
#[must_use]
pub fn cut(class: Class, stands: bool) -> (Class, Option<Arc<str>>) {
    let Some(excess) = of_class(&class) else { return (class, None) };
    let cut = if stands {
        let mut labels = class.labels;
        labels.truncate(MAX_LABELS);
        let mut host_ports = class.common.host_ports.clone();
        host_ports.truncate(if planted("takes-ports-one-by-one") { usize::MAX } else { MAX_PORTS });
        let common = Common {
            host_ports,
            spread: Vec::new(),
            pod_affinity: PodAffinity::default(),
            node_selector: Vec::new(),
            required_terms: None,
            preferred_terms: Vec::new(),
            tolerations: Vec::new(),
            images: Vec::new(),
            ..Common::clone(&class.common)
        };
        Class { labels, common: Arc::new(common), ..class }
    } else {
        Class { namespace: class.namespace, ..Class::default() }
    };
    (cut, Some(excess.into()))
}

#[cfg(test)]
mod tests;
