//! The API versions in which kinds are read and written.
//!
//! A watch tries the versions of its kind until the API server serves one. Writers use the version of the watch, so that no field is lost
//! between a read and a write.
//!
//! Source: k8s.io/dynamic-resource-allocation `client/client.go`, which also tries the next version after a 404.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Versions of ResourceClaims, DeviceClasses and ResourceSlices.
pub(crate) const DEVICES: &[&str] = &["resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1"];
/// Versions of DeviceTaintRules.
pub(crate) const TAINT_RULES: &[&str] = &["resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"];
/// Versions of PodGroups. v1beta1 is that of Kubernetes 1.37; v1 is expected later.
pub(crate) const POD_GROUPS: &[&str] = &["scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1"];

/// The index of the version that the API server serves, among the versions of a kind. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Served(Arc<AtomicUsize>);

impl Served {
    /// The version among `versions`; the last one if there are fewer.
    pub(crate) fn of(&self, versions: &[&'static str]) -> &'static str {
        let index = self.0.load(Ordering::Relaxed);
        versions.get(index).or_else(|| versions.last()).copied().unwrap_or_default()
    }

    /// Continues with the next of `versions`, after the last one with the first.
    pub(crate) fn try_next(&self, versions: &[&str]) {
        let next = (self.0.load(Ordering::Relaxed) + 1) % versions.len().max(1);
        self.0.store(next, Ordering::Relaxed);
    }
}

/// The versions that watches share with writers. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Versions {
    /// Among [`DEVICES`].
    pub(crate) claims: Served,
    /// Among [`POD_GROUPS`].
    pub(crate) groups: Served,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_is_tried_in_turn() {
        let served = Served::default();
        let tried: Vec<_> = (0..4)
            .map(|_| {
                let version = served.of(DEVICES);
                served.try_next(DEVICES);
                version
            })
            .collect();
        let first = "resource.k8s.io/v1";
        assert_eq!(tried, [first, "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1", first]);
    }

    #[test]
    fn a_kind_of_one_version_stays_in_it() {
        let served = Served::default();
        served.try_next(&[]);
        assert_eq!((served.of(&[]), served.of(&["v1"])), ("", "v1"));
    }
}
