//! The kinds that the model serves.

#[derive(Debug)]
struct About {
    kind: &'static str,
    api_version: &'static str,
    plural: &'static str,
    is_namespaced: bool,
    has_status: bool,
}

/// Name, group and version, plural, whether it is namespaced, and whether it has a status subresource.
macro_rules! kinds {
    ($($kind:ident $name:literal $api_version:literal $plural:literal $is_namespaced:literal $has_status:literal;)*) => {
        /// Kind of objects.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "each is the kind of that name")]
        pub enum Kind {
            $($kind),*
        }

        const ABOUT: [About; Kind::COUNT] = [$(About {
            kind: $name,
            api_version: $api_version,
            plural: $plural,
            is_namespaced: $is_namespaced,
            has_status: $has_status,
        }),*];

        impl Kind {
            /// All kinds.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$kind),*];
            /// Number of kinds.
            pub const COUNT: usize = [$($name),*].len();
        }
    };
}

kinds! {
    Pod "Pod" "v1" "pods" true true;
    Node "Node" "v1" "nodes" false true;
    Namespace "Namespace" "v1" "namespaces" false true;
    Service "Service" "v1" "services" true true;
    ReplicationController "ReplicationController" "v1" "replicationcontrollers" true true;
    ReplicaSet "ReplicaSet" "apps/v1" "replicasets" true true;
    StatefulSet "StatefulSet" "apps/v1" "statefulsets" true true;
    PodDisruptionBudget "PodDisruptionBudget" "policy/v1" "poddisruptionbudgets" true true;
    PodGroup "PodGroup" "scheduling.k8s.io/v1beta1" "podgroups" true true;
    CompositePodGroup "CompositePodGroup" "scheduling.k8s.io/v1alpha3" "compositepodgroups" true true;
    PersistentVolumeClaim "PersistentVolumeClaim" "v1" "persistentvolumeclaims" true true;
    PersistentVolume "PersistentVolume" "v1" "persistentvolumes" false true;
    StorageClass "StorageClass" "storage.k8s.io/v1" "storageclasses" false false;
    CsiDriver "CSIDriver" "storage.k8s.io/v1" "csidrivers" false false;
    CsiStorageCapacity "CSIStorageCapacity" "storage.k8s.io/v1" "csistoragecapacities" true false;
    CsiNode "CSINode" "storage.k8s.io/v1" "csinodes" false false;
    VolumeAttachment "VolumeAttachment" "storage.k8s.io/v1" "volumeattachments" false true;
    ResourceClaim "ResourceClaim" "resource.k8s.io/v1" "resourceclaims" true true;
    DeviceClass "DeviceClass" "resource.k8s.io/v1" "deviceclasses" false false;
    ResourceSlice "ResourceSlice" "resource.k8s.io/v1" "resourceslices" false false;
    DeviceTaintRule "DeviceTaintRule" "resource.k8s.io/v1" "devicetaintrules" false true;
    Lease "Lease" "coordination.k8s.io/v1" "leases" true false;
    Event "Event" "events.k8s.io/v1" "events" true false;
    EndpointSlice "EndpointSlice" "discovery.k8s.io/v1" "endpointslices" true false;
    Secret "Secret" "v1" "secrets" true false;
    ConfigMap "ConfigMap" "v1" "configmaps" true false;
    PriorityClass "PriorityClass" "scheduling.k8s.io/v1" "priorityclasses" false false;
}

impl Kind {
    const fn about(self) -> &'static About {
        &ABOUT[self as usize]
    }

    /// Index for tables by kind.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Name, such as `Pod`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.about().kind
    }

    /// Group and version, such as `apps/v1`.
    #[must_use]
    pub const fn api_version(self) -> &'static str {
        self.about().api_version
    }

    /// Plural in paths, such as `pods`.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        self.about().plural
    }

    /// Whether it is namespaced.
    #[must_use]
    pub const fn is_namespaced(self) -> bool {
        self.about().is_namespaced
    }

    /// Whether it has a status subresource.
    #[must_use]
    pub const fn has_status(self) -> bool {
        self.about().has_status
    }

    /// Kind of a plural in a group and version.
    #[must_use]
    pub fn of(api_version: &str, plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.plural() == plural && kind.api_version() == api_version)
    }

    /// Resource name in messages, such as `replicasets.apps`.
    #[must_use]
    pub fn resource(self) -> String {
        match self.api_version().split_once('/') {
            Some((group, _)) => format!("{}.{group}", self.plural()),
            None => self.plural().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_found_by_its_path_and_has_its_own_place() {
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!((kind.index(), Kind::of(kind.api_version(), kind.plural())), (place, Some(kind)));
        }
        assert_eq!(Kind::of("apps/v1", "pods"), None);
        assert_eq!(Kind::ReplicaSet.resource(), "replicasets.apps");
    }

    #[test]
    fn every_kind_that_a_coordinator_watches_is_served() {
        for (name, path) in flotilla_encoding::testing::KINDS {
            let (api_version, plural) = path.rsplit_once('/').expect("a path of a collection");
            let api_version = api_version.trim_start_matches("/apis/").trim_start_matches("/api/");
            assert_eq!(Kind::of(api_version, plural).map(Kind::name), Some(name), "{path}");
        }
    }
}
