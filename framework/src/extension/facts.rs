//! What the whole cluster says about one class.
//!
//! Knows: which facts there are, and what they weigh. Must not know: who finds them out, or which plugin reads them.

use std::sync::Arc;

use crate::{
    devices::{facts::DeviceFacts, special::Extended},
    labels::LabelSelector,
    volumes::facts::{MAX_WEIGHT, VolumeFacts},
};

/// What the whole cluster says about one class: facts that no single shard can know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// For each of the class's images, in its order: what finding it on a node adds to ImageLocality's sum, in bytes
    /// scaled by the share of nodes that hold it; 0 where no node does.
    pub image_contributions: Vec<i64>,
    /// The labels of the pod's namespace, sorted by key; none where the namespace is not known.
    pub namespace_labels: Vec<(Arc<str>, Arc<str>)>,
    /// For each term of the pod's affinities, in the order of [`crate::class::PodAffinity::terms`]: the namespaces that
    /// its selector selects, sorted. Equal lists are one.
    pub term_namespaces: Vec<Arc<[Arc<str>]>>,
    /// The label keys by which pods that stand anywhere, or may, refuse this one: the keys of their required
    /// anti-affinity as far as it matches. Sorted.
    pub repelling_keys: Vec<Arc<str>>,
    /// The label keys by which such pods prefer to have this one near or far, or require it. Sorted.
    pub scoring_keys: Vec<Arc<str>>,
    /// Which pods default spread constraints count for this one; everything if nothing selects it.
    pub default_selector: DefaultSelector,
    /// What the objects of storage say; `None` for a class without volumes that any plugin reads.
    pub volumes: Option<Arc<VolumeFacts>>,
    /// What the pod's claims of devices come to; `None` where it has none.
    pub devices: Option<DeviceFacts>,
}

// === impl Facts ===

impl Facts {
    /// Whether any of it comes from objects that a plugin keeps.
    #[must_use]
    pub const fn come_from_objects(&self) -> bool {
        self.volumes.is_some() || self.devices.is_some()
    }

    /// The extended resources of the class that may come from devices.
    #[must_use]
    pub fn extended(&self) -> Option<&Extended> {
        let Some(DeviceFacts::Claims(claims)) = &self.devices else { return None };
        claims.extended.as_deref()
    }

    /// Whether these facts can be told to a worker: they are small enough for a message, and workers know what they are about,
    /// which of devices they do not.
    #[must_use]
    pub fn can_be_told(&self) -> bool {
        self.devices.is_none()
            && self.volumes.as_ref().map_or(0, |volumes| volumes.weight()) + self.weight() <= MAX_WEIGHT
    }

    /// About how many bytes they take. Equal lists of namespaces are one.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let mut lists: Vec<&Arc<[Arc<str>]>> = self.term_namespaces.iter().collect();
        lists.sort_unstable_by_key(|list| list.as_ptr().addr());
        lists.dedup_by(|one, other| Arc::ptr_eq(one, other));
        // The names themselves are the cluster's.
        16 * (self.term_namespaces.len() + lists.iter().map(|list| list.len()).sum::<usize>()) + self.weight_of_others()
    }

    /// At least as many bytes as they take in a message, those of volumes apart. Each list of namespaces is written out
    /// for each term.
    #[must_use]
    pub fn weight(&self) -> usize {
        let names = |list: &Arc<[Arc<str>]>| list.iter().map(|name| name.len() + 8).sum::<usize>() + 8;
        self.term_namespaces.iter().map(names).sum::<usize>() + self.weight_of_others()
    }

    /// Of all but the namespaces of terms.
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

/// The selector of the services and the controller of a pod; by default everything, which stands for none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DefaultSelector(pub LabelSelector);

impl Default for DefaultSelector {
    fn default() -> Self {
        Self(LabelSelector::EVERYTHING)
    }
}
