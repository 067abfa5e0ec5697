//! Checks the API server's version and resources.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;

use super::{check::Check, rights::Right};

/// The Kubernetes minor version that Flotilla implements.
const MINOR: u32 = 37;
/// The supported minor versions of API servers, as in docs/reference/versions.md.
const OLDEST: u32 = 32;
const NEWEST: u32 = 38;

/// Resources that some supported API servers do not serve: the group, the resources, the versions that a coordinator reads, and the
/// consequence.
const OPTIONAL: [(&str, &[&str], &[&str], &str); 5] = [
    (
        "resource.k8s.io",
        &["resourceclaims", "resourceclaims/status", "deviceclasses", "resourceslices"],
        &["v1", "v1beta2", "v1beta1"],
        "pods with ResourceClaims are not scheduled",
    ),
    ("resource.k8s.io", &["devicetaintrules"], &["v1", "v1beta2", "v1alpha3"], "only drivers taint devices"),
    (
        "scheduling.k8s.io",
        &["podgroups", "podgroups/status"],
        &["v1beta1", "v1"],
        "only the feature gate GenericWorkload needs it",
    ),
    ("scheduling.k8s.io", &["compositepodgroups"], &["v1alpha3"], "only the feature gate CompositePodGroup needs it"),
    (
        "scheduling.x-k8s.io",
        &["podgroups", "podgroups/status"],
        &["v1alpha1"],
        "those of scheduling.x-k8s.io; only the plugin Coscheduling needs them",
    ),
];
/// A permission without a resource. The API server checks it since 1.36 when a claim's allocation or reservation changes.
const ONLY_A_RIGHT: (&str, &str) = ("resource.k8s.io", "resourceclaims/binding");

/// The version; `Err` if the API server does not answer, because no further check is possible.
pub(super) async fn version(client: &Client, place: &str) -> Result<Check, Check> {
    const NAME: &str = "API server";
    let version = client.apiserver_version().await.map_err(|error| {
        let next = "check --kubeconfig and --context, and that it can be reached from here";
        Check::failed(NAME, format!("{place} does not answer: {error}")).next(next)
    })?;
    let minor: Option<u32> = version.minor.trim_end_matches('+').parse().ok();
    Ok(judged(NAME, &version.git_version, minor))
}

fn judged(name: &'static str, version: &str, minor: Option<u32>) -> Check {
    match minor {
        Some(MINOR) => Check::passed(name, format!("{version}, the release that Flotilla answers as")),
        Some(OLDEST..MINOR) => {
            Check::passed(name, format!("{version} is supported; pods are scheduled as by kube-scheduler 1.{MINOR}"))
        }
        Some(NEWEST) => Check::passed(
            name,
            format!(
                "{version} is supported; pods are scheduled as by kube-scheduler 1.{MINOR}, without later features"
            ),
        ),
        Some(newer) if newer > NEWEST => {
            let what = format!("{version} is newer than 1.{NEWEST}, the newest supported API server");
            Check::failed(name, what).next("use a version of Flotilla that supports this release")
        }
        Some(_) => {
            let what = format!("{version} is older than 1.{OLDEST}, the oldest supported API server");
            Check::failed(name, what).next("upgrade the API servers first")
        }
        None => Check::unknown(name, format!("{version:?} is no version that can be compared with 1.{MINOR}")),
    }
}

/// Whether the API server serves every resource in a version that Flotilla reads. Also returns the rights to resources that are not served,
/// which have no effect.
pub(super) async fn resources(client: &Client, wanted: &BTreeSet<Right>) -> (Vec<Check>, BTreeSet<Right>) {
    const NAME: &str = "resources";
    let mut known = Known::default();
    let (mut checks, mut missing, mut count) = (Vec::new(), Vec::new(), BTreeSet::new());
    let (mut lacking, mut unusable): (BTreeMap<&str, Vec<&str>>, _) = (BTreeMap::new(), BTreeSet::new());
    for right in wanted {
        let (group, resource) = (right.group.as_str(), right.resource.as_str());
        // Without claims there is nothing to bind.
        let named = if (group, resource) == ONLY_A_RIGHT { "resourceclaims" } else { resource };
        let optional = OPTIONAL.iter().find(|(of, resources, ..)| *of == group && resources.contains(&named));
        let versions = optional.map_or(&["v1"][..], |(_, _, versions, _)| *versions);
        match known.serves(client, group, named, versions).await {
            Ok(true) => {
                count.extend((named == resource).then_some((group, resource)));
            }
            Ok(false) => match optional {
                Some((.., consequence)) => {
                    unusable.insert(right.clone());
                    let list = lacking.entry(*consequence).or_default();
                    // A subresource goes with its resource.
                    if !named.contains('/') && !list.contains(&named) {
                        list.push(named);
                    }
                }
                None => missing.push(format!("{resource} of {}v1", slashed(group))),
            },
            Err(error) => {
                checks.push(Check::unanswered(NAME, &error));
                break;
            }
        }
    }
    missing.dedup();
    let lacking = lacking.iter().map(|(consequence, list)| format!("{}: {consequence}", list.join(", ")));
    let lacking: Vec<String> = lacking.collect();
    let served = match missing.as_slice() {
        [] if lacking.is_empty() => {
            Check::passed(NAME, format!("all {} that a coordinator reads or writes are served", count.len()))
        }
        [] => {
            Check::passed(NAME, format!("all {} that a coordinator needs are served; not available here:", count.len()))
                .next(lacking.join("\n"))
        }
        missing => Check::failed(NAME, format!("not served: {}", missing.join(", ")))
            .next("see --runtime-config of the API server, or upgrade it"),
    };
    checks.insert(0, served);
    (checks, unusable)
}

/// The resources of the versions that were listed.
#[derive(Default)]
struct Known(BTreeMap<String, BTreeSet<String>>);

impl Known {
    /// Whether one of these versions of a group has a resource.
    async fn serves(
        &mut self,
        client: &Client,
        group: &str,
        resource: &str,
        versions: &[&str],
    ) -> Result<bool, kube::Error> {
        for version in versions {
            let api = format!("{}{version}", slashed(group));
            if !self.0.contains_key(&api) {
                let served = match group {
                    "" => client.list_core_api_resources(version).await,
                    _ => client.list_api_group_resources(&api).await,
                };
                let names = match served {
                    Ok(list) => list.resources.into_iter().map(|resource| resource.name).collect(),
                    Err(kube::Error::Api(status)) if status.code == 404 => BTreeSet::new(),
                    Err(error) => return Err(error),
                };
                self.0.insert(api.clone(), names);
            }
            if self.0.get(&api).is_some_and(|names| names.contains(resource)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn slashed(group: &str) -> String {
    if group.is_empty() { String::new() } else { format!("{group}/") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preflight::check::CheckResult;

    #[test]
    fn api_servers_from_1_32_to_1_38_are_supported() {
        for (minor, expected) in [
            (Some(31), CheckResult::Failed),
            (Some(32), CheckResult::Passed),
            (Some(36), CheckResult::Passed),
            (Some(37), CheckResult::Passed),
            (Some(38), CheckResult::Passed),
            (Some(39), CheckResult::Failed),
            (None, CheckResult::Unknown),
        ] {
            assert_eq!(judged("API server", "v1.x", minor).verdict, expected, "{minor:?}");
        }
    }

    #[test]
    fn the_optional_resources_are_in_the_manifest_of_the_rights() {
        let wanted =
            crate::preflight::rights::wanted("flotilla", &("n".to_owned(), "l".to_owned())).expect("a manifest");
        for (group, resources, ..) in OPTIONAL {
            for resource in resources {
                let is_there = wanted.iter().any(|right| right.group == group && right.resource == *resource);
                assert!(is_there, "{resource} of {group}");
            }
        }
        let (group, resource) = ONLY_A_RIGHT;
        assert!(wanted.iter().any(|right| right.group == group && right.resource == resource));
    }
}
