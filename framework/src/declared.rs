//! Kubelet features that pods or devices may require and nodes declare.

use serde::{Deserialize, Serialize};

/// In the order of their bits. Source: `k8s.io/component-helpers/nodedeclaredfeatures/features`, those of 1.37.2 with a positive
/// `InferForScheduling`, and the one that DynamicResources reads. Others never affect scheduling.
const NAMES: [&str; 4] = [
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
    "VolumeBindMountOptions",
    "DRAOptionalNodeOperations",
];

/// A set of kubelet features.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeclaredFeatures(u8);

impl DeclaredFeatures {
    /// Containers that restart all other containers of their pod.
    pub const RESTART_ALL_CONTAINERS: Self = Self(1);
    /// User namespaces with the host network.
    pub const USER_NAMESPACES_HOST_NETWORK: Self = Self(2);
    /// Options of bind mounts.
    pub const VOLUME_BIND_MOUNT_OPTIONS: Self = Self(4);
    /// Node operations of device drivers that can be skipped.
    pub const OPTIONAL_NODE_OPERATIONS: Self = Self(8);

    /// The known features among these names.
    #[must_use]
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let bit = |name: &str| NAMES.iter().position(|known| *known == name).map_or(0, |place| 1 << place);
        Self(names.into_iter().fold(0, |bits, name| bits | bit(name)))
    }

    /// Their names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.iter().enumerate().filter(move |(place, _)| self.0 & (1 << place) != 0).map(|(_, name)| *name)
    }

    /// The union with another set.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The features that another set lacks.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether it has all features of another set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        other.without(self).is_empty()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_is_its_name_and_unknown_names_are_passed_over() {
        let all = DeclaredFeatures::RESTART_ALL_CONTAINERS
            .with(DeclaredFeatures::USER_NAMESPACES_HOST_NETWORK)
            .with(DeclaredFeatures::VOLUME_BIND_MOUNT_OPTIONS)
            .with(DeclaredFeatures::OPTIONAL_NODE_OPERATIONS);
        assert_eq!(all.names().collect::<Vec<_>>(), NAMES);
        assert_eq!(DeclaredFeatures::named(NAMES.into_iter().chain(["InPlacePodResize"])), all);
        let two = all.without(DeclaredFeatures::named(["UserNamespacesHostNetworkSupport"]));
        assert_eq!(two.names().collect::<Vec<_>>(), [NAMES[0], NAMES[2], NAMES[3]]);
        assert!(two.without(all).is_empty() && !two.is_empty());
    }
}
