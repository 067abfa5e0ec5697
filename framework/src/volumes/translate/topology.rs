//! Zones and regions, by the keys of Kubernetes' own labels and by those of a driver.
//!
//! Knows: which of a volume's own keys a driver replaces, and what it adds of the volume's labels. Must not know: which
//! plugin the volume is of.
//!
//! Source: csi-translation-lib plugins/in_tree_volume.go and, for keys of regions, plugins/vsphere_volume.go.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::class::{NodeTerm, Requirement};

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";

/// Between the zones of a label that names several.
pub(super) const BETWEEN_ZONES: &str = "__";

type Labels = BTreeMap<String, String>;

/// By which keys a driver names zones and regions.
pub(super) enum Keys {
    /// A key for zones; regions keep Kubernetes' own.
    Zone(&'static str),
    /// A key for zones and one for regions.
    ZoneAndRegion(&'static str, &'static str),
}

impl Keys {
    /// Rewrites a node affinity to the driver's keys. Where it names no zone, the volume's labels do.
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

/// The keys for zone and region that a volume has: the beta ones only where they alone are there.
///
/// Source: `getTopologyLabel`.
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

/// Gives all requirements by a key another one. False, and nothing happens: they name no value at all.
///
/// Source: `getTopologyValues`, `replaceTopology`.
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

/// Adds a requirement of these values to every term, and to a new one where there is none. Values that are blank are none.
///
/// Source: `addTopology`, whose error for no value at all is ignored.
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
