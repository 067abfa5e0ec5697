//! Translates zones and regions between Kubernetes' labels and a driver's keys.
//!
//! Source: csi-translation-lib plugins/in_tree_volume.go and, for region keys, plugins/vsphere_volume.go.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::class::{NodeTerm, Requirement};

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";

/// Separator of several zones in a label.
pub(super) const BETWEEN_ZONES: &str = "__";

type Labels = BTreeMap<String, String>;

pub(super) enum Keys {
    /// A zone key; regions keep Kubernetes' key.
    Zone(&'static str),
    /// A zone key and a region key.
    ZoneAndRegion(&'static str, &'static str),
}

impl Keys {
    /// Translates a node affinity to the driver's keys. If it has no zone, the volume's labels provide it.
    pub(super) fn translate(&self, terms: &mut Vec<NodeTerm>, labels: Option<&Labels>) {
        let label = |key: &str| Some(labels?.get(key)?.as_str());
        let (zone, region) = own_keys(terms, labels);
        match *self {
            Self::Zone(key) => {
                if !rename(terms, zone, key) {
                    add(terms, key, label(zone).into_iter().flat_map(|zones| zones.split(BETWEEN_ZONES)));
                }
                if region == BETA_REGION {
                    rename(terms, region, REGION);
                }
            }
            Self::ZoneAndRegion(zone_key, region_key) => {
                for (own, key) in [(zone, zone_key), (region, region_key)] {
                    if !rename(terms, own, key) {
                        add(terms, key, label(own));
                    }
                }
            }
        }
    }
}

/// Zone and region keys of a volume; the beta keys only if the others are missing. Source: `getTopologyLabel`.
fn own_keys(terms: &[NodeTerm], labels: Option<&Labels>) -> (&'static str, &'static str) {
    let in_terms = |key: &str| terms.iter().flat_map(|term| &term.expressions).any(|one| &*one.key == key);
    let in_labels = |key: &str| labels.is_some_and(|labels| labels.contains_key(key));
    let is_beta = match () {
        () if in_terms(ZONE) => false,
        () if in_terms(BETA_ZONE) => true,
        () => !in_labels(ZONE) && in_labels(BETA_ZONE),
    };
    if is_beta { (BETA_ZONE, BETA_REGION) } else { (ZONE, REGION) }
}

/// Renames the key of requirements. Returns false, without a change, if they have no values. Source: `getTopologyValues`,
/// `replaceTopology`.
fn rename(terms: &mut [NodeTerm], from: &str, to: &str) -> bool {
    let all = terms.iter_mut().flat_map(|term| &mut term.expressions);
    let found: Vec<&mut Requirement> = all.filter(|one| &*one.key == from).collect();
    if found.iter().all(|one| one.values.is_empty()) {
        return false;
    }
    for requirement in found {
        requirement.key = Arc::from(to);
    }
    true
}

/// Adds a requirement to every term, or to a new term. Blank values are ignored. Source: `addTopology`, whose error for no values is
/// ignored.
fn add<'a>(terms: &mut Vec<NodeTerm>, key: &str, values: impl IntoIterator<Item = &'a str>) {
    let values: BTreeSet<&str> = values.into_iter().map(str::trim).filter(|value| !value.is_empty()).collect();
    if values.is_empty() {
        return;
    }
    if terms.is_empty() {
        terms.push(NodeTerm::default());
    }
    let values: Vec<Arc<str>> = values.into_iter().map(Arc::from).collect();
    for term in terms {
        term.expressions.push(Requirement { key: key.into(), operator: "In".into(), values: values.clone() });
    }
}
