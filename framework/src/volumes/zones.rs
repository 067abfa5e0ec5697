//! Zones in a volume's labels. Source: `VolumeZone.getPVTopologies`.

use std::sync::Arc;

use super::{facts::ZoneLabel, objects::Volume};
use crate::labels::value;

/// Zone and region labels in upstream's order.
pub(crate) const KEYS: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// Zones and regions in a volume's labels. A label with an empty entry is skipped.
pub(crate) fn of_volume(volume: &Volume) -> impl Iterator<Item = ZoneLabel> {
    KEYS.into_iter().filter_map(|key| {
        let listed = value(&volume.labels, key)?;
        let mut values: Vec<Arc<str>> = listed.split("__").map(|zone| zone.trim().into()).collect();
        values.sort_unstable();
        values.dedup();
        values.iter().all(|zone| !zone.is_empty()).then(|| ZoneLabel { key: key.into(), values })
    })
}
