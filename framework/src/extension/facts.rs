//! Cluster-wide facts about one class.

use std::sync::Arc;

use crate::{
    devices::{facts::DeviceFacts, special::Extended},
    labels::LabelSelector,
    volumes::facts::{MAX_WEIGHT, VolumeFacts},
};

/// Cluster-wide facts about one class, which no single shard can know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// For each image of the class: ImageLocality's addition on a node with the image, in bytes scaled by the share of nodes that have it.
    pub image_contributions: Vec<i64>,
    /// The labels of the pod's namespace, sorted by key; empty for an unknown namespace.
    pub namespace_labels: Vec<(Arc<str>, Arc<str>)>,
    /// For each term of [`crate::class::PodAffinity::terms`]: the namespaces that its selector selects, sorted. Equal lists are shared.
    pub term_namespaces: Vec<Arc<[Arc<str>]>>,
    /// The topology keys by which existing or known pods repel this one: of the required anti-affinities that match it. Sorted.
    pub repelling_keys: Vec<Arc<str>>,
    /// The topology keys of other pods' preferred terms and required affinities that match this pod. Sorted.
    pub scoring_keys: Vec<Arc<str>>,
    /// The selector of the default spread constraints; everything if nothing selects the pod.
    pub default_selector: DefaultSelector,
    /// Facts from storage objects; `None` for a class without volumes that plugins read.
    pub volumes: Option<Arc<VolumeFacts>>,
    /// The resolved device claims; `None` without claims.
    pub devices: Option<DeviceFacts>,
}

impl Facts {
    /// The extended resources of the class that devices may provide.
    #[must_use]
    pub fn extended(&self) -> Option<&Extended> {
        let Some(DeviceFacts::Claims(claims)) = &self.devices else { return None };
        claims.extended.as_deref()
    }

    /// Whether these facts can be sent to a worker: they fit in a message, and have no devices, which workers do not know.
    #[must_use]
    pub fn is_sendable(&self) -> bool {
        self.devices.is_none()
            && self.volumes.as_ref().map_or(0, |volumes| volumes.weight()) + self.weight() <= MAX_WEIGHT
    }

    /// The approximate size in memory, in bytes. Equal lists of namespaces count once.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let mut lists: Vec<&Arc<[Arc<str>]>> = self.term_namespaces.iter().collect();
        lists.sort_unstable_by_key(|list| list.as_ptr().addr());
        lists.dedup_by(|one, other| Arc::ptr_eq(one, other));
        // The names themselves belong to the cluster state.
        16 * (self.term_namespaces.len() + lists.iter().map(|list| list.len()).sum::<usize>()) + self.weight_of_others()
    }

    /// An upper bound on the size in a message, in bytes, without volumes. Each list of namespaces counts for each term.
    #[must_use]
    pub fn weight(&self) -> usize {
        let names = |list: &Arc<[Arc<str>]>| list.iter().map(|name| name.len() + 8).sum::<usize>() + 8;
        self.term_namespaces.iter().map(names).sum::<usize>() + self.weight_of_others()
    }

    fn weight_of_others(&self) -> usize {
        let text = |text: &Arc<str>| text.len() + 8;
        let texts = |list: &[Arc<str>]| 8 + list.iter().map(text).sum::<usize>();
        let labels = self.namespace_labels.iter().map(|(key, value)| 8 + text(key) + text(value));
        let selector = match &self.default_selector.0 {
            LabelSelector::Nothing => 0,
            LabelSelector::Matching(requirements) => {
                requirements.iter().map(|requirement| 16 + text(&requirement.key) + texts(&requirement.values)).sum()
            }
        };
        labels.sum::<usize>()
            + texts(&self.repelling_keys)
            + texts(&self.scoring_keys)
            + 12 * self.image_contributions.len()
            + selector
            + self.devices.as_ref().map_or(0, DeviceFacts::bytes)
    }
}

/// The selector of a pod's services and controller; everything by default, which means none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DefaultSelector(pub LabelSelector);

impl Default for DefaultSelector {
    fn default() -> Self {
        Self(LabelSelector::EVERYTHING)
    }
}
