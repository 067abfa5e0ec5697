//! Checks the API server's version and resources.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;

use super::{check::Check, rights::Right};

/// The Kubernetes minor version that Flotilla implements.
const MINOR: u32 = 37;
/// A resource behind a feature gate: group, version and gate.
const GATED: (&str, &str, &str) = ("scheduling.k8s.io", "v1beta1", "GenericWorkload");
/// A permission without a resource. The API server checks it when a claim's allocation or reservation changes.
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

/// Kubernetes' version skew policy: a scheduler is not newer than its API server, and at most one minor version older.
fn judged(name: &'static str, version: &str, minor: Option<u32>) -> Check {
    match minor {
        Some(MINOR) => Check::passed(name, format!("{version}, the release that Flotilla answers as")),
        Some(newer) if newer == MINOR + 1 => {
            Check::passed(name, format!("{version}; Flotilla answers as 1.{MINOR}, and knows nothing that came later"))
        }
        Some(newer) if newer > MINOR => {
            let what =
                format!("{version} is more than one minor version newer than 1.{MINOR}, which Flotilla answers as");
            Check::failed(name, what).next("use a version of Flotilla that answers as this release")
        }
        Some(_) => {
            let what =
                format!("{version} is older than 1.{MINOR}, which Flotilla answers as; no scheduler may be newer");
            Check::failed(name, what).next("upgrade the API servers first")
        }
        None => Check::unknown(name, format!("{version:?} is no version that can be compared with 1.{MINOR}")),
    }
}

/// Whether the API server serves every resource in the version that Flotilla reads.
pub(super) async fn resources(client: &Client, wanted: &BTreeSet<Right>) -> Vec<Check> {
    const NAME: &str = "resources";
    let mut groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for right in wanted.iter().filter(|right| (&*right.group, &*right.resource) != ONLY_A_RIGHT) {
        groups.entry(&right.group).or_default().insert(&right.resource);
    }
    let (mut checks, mut missing, mut count) = (Vec::new(), Vec::new(), 0);
    for (group, resources) in groups {
        let is_gated = group == GATED.0;
        let version = if is_gated { GATED.1 } else { "v1" };
        let served = match group {
            "" => client.list_core_api_resources(version).await,
            group => client.list_api_group_resources(&format!("{group}/{version}")).await,
        };
        let served: BTreeSet<String> = match served {
            Ok(list) => list.resources.into_iter().map(|resource| resource.name).collect(),
            Err(kube::Error::Api(status)) if status.code == 404 => BTreeSet::new(),
            Err(error) => {
                checks.push(Check::unanswered(NAME, &error));
                continue;
            }
        };
        let lacking: Vec<&str> = resources.iter().copied().filter(|resource| !served.contains(*resource)).collect();
        count += resources.len() - lacking.len();
        let named = |resource: &&str| format!("{resource} of {}{version}", slashed(group));
        if !lacking.is_empty() && is_gated {
            let what = format!("{group}/{version} is not served; only the feature gate {} needs it", GATED.2);
            checks.push(Check::unknown(NAME, what));
        } else {
            missing.extend(lacking.iter().map(named));
        }
    }
    checks.insert(
        0,
        match missing.as_slice() {
            [] => Check::passed(NAME, format!("all {count} that a coordinator reads or writes are served")),
            missing => Check::failed(NAME, format!("not served: {}", missing.join(", ")))
                .next("see --runtime-config of the API server, or upgrade it"),
        },
    );
    checks
}

fn slashed(group: &str) -> String {
    if group.is_empty() { String::new() } else { format!("{group}/") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preflight::check::CheckResult;

    #[test]
    fn a_scheduler_is_never_newer_than_its_api_server_and_one_minor_version_older_at_most() {
        for (minor, expected) in [
            (Some(36), CheckResult::Failed),
            (Some(37), CheckResult::Passed),
            (Some(38), CheckResult::Passed),
            (Some(39), CheckResult::Failed),
            (None, CheckResult::Unknown),
        ] {
            assert_eq!(judged("API server", "v1.x", minor).verdict, expected, "{minor:?}");
        }
    }
}
