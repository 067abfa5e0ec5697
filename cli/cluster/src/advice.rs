//! Inputs that are no Kubernetes objects, and the command that makes objects of them.

use super::kinds::{self, Unknown};

/// The error for a kind that other programs read.
pub(super) fn of_kind(api_version: Option<&str>, kind: &str) -> Option<Unknown> {
    let text = match (api_version.map(kinds::group)?, kind) {
        ("kustomize.config.k8s.io", _) => {
            "a Kustomization names files and has no objects; expected Kubernetes objects, such as those of \
             `kubectl kustomize DIRECTORY | flotilla ... -f -`"
        }
        ("kubescheduler.config.k8s.io", "KubeSchedulerConfiguration") => {
            "a KubeSchedulerConfiguration is no object of a cluster; use --config FILE"
        }
        _ => return None,
    };
    Some(Unknown { field: "kind", text: text.to_owned() })
}
