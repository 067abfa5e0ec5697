//! State of a cluster, and checks that hold for every scheduler.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use anyhow::Context as _;
use flotilla_control_plane::ControlPlane;
use k8s_openapi::{
    api::{
        core::v1::{Node, Pod},
        events::v1::Event,
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::MicroTime},
};
use kube::{Api, ResourceExt as _, api::ListParams};
use serde_json::Value;

use crate::fleet::{node_of, phase};

/// All nodes and pods.
#[derive(Debug)]
pub struct Census {
    /// Nodes, unordered.
    pub nodes: Vec<Node>,
    /// Pods of all namespaces, unordered.
    pub pods: Vec<Pod>,
}

impl Census {
    /// Lists nodes and pods.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn take(cluster: &ControlPlane) -> anyhow::Result<Self> {
        let everything = ListParams::default();
        // Pods first, so that the list of nodes contains their nodes unless deleted.
        let pods = Api::<Pod>::all(cluster.client()).list(&everything).await.context("cannot list the pods")?;
        let nodes = Api::<Node>::all(cluster.client()).list(&everything).await.context("cannot list the nodes")?;
        Ok(Self { nodes: nodes.items, pods: pods.items })
    }

    /// Sorted names of pending pods.
    #[must_use]
    pub fn waiting(&self) -> Vec<String> {
        let without = self.pods.iter().filter(|pod| !has_ended(pod) && node_of(pod).is_none());
        let mut names: Vec<String> = without.map(Pod::name_any).collect();
        names.sort();
        names
    }

    /// Running pods of a node, unordered.
    pub fn on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Pod> {
        self.pods.iter().filter(move |pod| node_of(pod) == Some(node) && !has_ended(pod))
    }

    /// Overcommitted or unknown nodes with pods, one line each.
    #[must_use]
    pub fn overfull(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for node in &self.nodes {
            let name = node.name_any();
            let room = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
            for resource in ["cpu", "memory", "pods"] {
                let Some(room) = room.and_then(|room| room.get(resource)).and_then(thousandths) else { continue };
                let used: i128 = self.on(&name).map(|pod| requested(pod, resource)).sum();
                if used > room {
                    lines.push(format!("{name} has {room}/1000 {resource}, its pods ask for {used}/1000"));
                }
            }
        }
        let known: BTreeSet<String> = self.nodes.iter().map(Node::name_any).collect();
        let homeless = self.pods.iter().filter(|pod| node_of(pod).is_some_and(|node| !known.contains(node)));
        lines.extend(homeless.map(|pod| format!("{} is on {:?}, which is gone", pod.name_any(), node_of(pod))));
        lines
    }
}

/// Pods without exactly one `Scheduled` event for their node.
///
/// With `some_are_lost` a missing event is accepted: a coordinator killed after a bind does not send it.
///
/// # Errors
/// The API server does not answer.
pub async fn misreported(cluster: &ControlPlane, some_are_lost: bool) -> anyhow::Result<Vec<String>> {
    let events = events(cluster, "Scheduled").await?;
    let census = Census::take(cluster).await?;
    let mut wrong = Vec::new();
    for pod in census.pods.iter().filter(|pod| node_of(pod).is_some()) {
        let (name, uid) = (pod.name_any(), pod.uid());
        let about: Vec<&str> = events
            .iter()
            .filter(|event| event.regarding.as_ref().is_some_and(|regarding| regarding.uid == uid))
            .filter_map(|event| event.note.as_deref())
            .collect();
        let there = format!(" to {}", node_of(pod).unwrap_or("no node"));
        let missing = about.is_empty() && !some_are_lost;
        if missing || about.len() > 1 || about.iter().any(|note| !note.ends_with(&there)) {
            wrong.push(format!("{name} is on {:?}, and its events say {about:?}", node_of(pod)));
        }
    }
    Ok(wrong)
}

/// Number of `FailedScheduling` events by pod.
///
/// # Errors
/// The API server does not answer.
pub async fn refusals(cluster: &ControlPlane) -> anyhow::Result<BTreeMap<String, i32>> {
    let mut times = BTreeMap::new();
    for event in events(cluster, "FailedScheduling").await? {
        let pod = event.regarding.and_then(|regarding| regarding.name).unwrap_or_default();
        *times.entry(pod).or_default() += event.series.map_or(1, |series| series.count);
    }
    Ok(times)
}

async fn events(cluster: &ControlPlane, reason: &str) -> anyhow::Result<Vec<Event>> {
    let about = ListParams::default().fields(&format!("reason={reason}"));
    Ok(Api::<Event>::all(cluster.client()).list(&about).await.context("cannot list the events")?.items)
}

/// Number of committed bindings by pod. Requires the audit log.
///
/// # Errors
/// The audit log is not readable.
pub fn bindings(cluster: &ControlPlane) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut taken = BTreeMap::new();
    for entry in audited(cluster)? {
        let about = &entry["objectRef"];
        if about["subresource"] == "binding" && entry["responseStatus"]["code"] == 201 {
            *taken.entry(about["name"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        }
    }
    Ok(taken)
}

/// Longest time between two successive bindings, as received by the API server.
///
/// # Errors
/// The audit log is not readable.
pub fn longest_pause(cluster: &ControlPlane) -> anyhow::Result<Duration> {
    let mut received = Vec::new();
    for entry in audited(cluster)? {
        if entry["objectRef"]["subresource"] == "binding" && entry["responseStatus"]["code"] == 201 {
            let at: MicroTime = serde_json::from_value(entry["requestReceivedTimestamp"].clone())?;
            received.push(at.0.as_microsecond());
        }
    }
    received.sort_unstable();
    let pauses = received.windows(2).map(|two| two[1].abs_diff(two[0]));
    Ok(Duration::from_micros(pauses.max().unwrap_or_default()))
}

/// Pods that ever had a condition `PodScheduled` with status `False`. Requires the audit log with requests.
///
/// # Errors
/// The audit log is not readable.
pub fn said_unscheduled(cluster: &ControlPlane) -> anyhow::Result<BTreeSet<String>> {
    let says_so = |condition: &Value| condition["type"] == "PodScheduled" && condition["status"] == "False";
    let mut pods = BTreeSet::new();
    for entry in audited(cluster)? {
        let about = &entry["objectRef"];
        let conditions = entry["requestObject"]["status"]["conditions"].as_array();
        if about["resource"] == "pods"
            && about["subresource"] == "status"
            && conditions.into_iter().flatten().any(says_so)
        {
            pods.insert(about["name"].as_str().unwrap_or_default().to_owned());
        }
    }
    Ok(pods)
}

/// Forbidden requests of a user, one line each. Requires the audit log.
///
/// # Errors
/// The audit log is not readable.
pub fn forbidden(cluster: &ControlPlane, user: &str) -> anyhow::Result<Vec<String>> {
    let refused = |entry: &Value| entry["user"]["username"] == user && entry["responseStatus"]["code"] == 403;
    let refused = audited(cluster)?.into_iter().filter(refused);
    Ok(refused.map(|entry| format!("{} {}", entry["verb"], entry["requestURI"])).collect())
}

/// Lines of the audit log; a killed API server leaves the last one incomplete.
pub(crate) fn audited(cluster: &ControlPlane) -> anyhow::Result<Vec<Value>> {
    let path = cluster.audit_log();
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

pub(crate) fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Requests of a pod's containers in thousandths; for `pods` the result is one pod.
pub(crate) fn requested(pod: &Pod, resource: &str) -> i128 {
    if resource == "pods" {
        return 1000;
    }
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let requests = containers.filter_map(|container| container.resources.as_ref()?.requests.as_ref());
    requests.filter_map(|requests| requests.get(resource).and_then(thousandths)).sum()
}

/// A quantity in thousandths, in the tests' formats: whole numbers, `m`, `Mi` and `Gi`.
pub(crate) fn thousandths(quantity: &Quantity) -> Option<i128> {
    let digits = quantity.0.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match &quantity.0[digits.len()..] {
        "" => 1000,
        "m" => 1,
        "k" => 1_000_000,
        "Mi" => 1000 << 20,
        "Gi" => 1000 << 30,
        _ => return None,
    };
    digits.parse::<i128>().ok().map(|amount| amount * factor)
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn census(nodes: &[&str], pods: &[(&str, &str, &str)]) -> Census {
        let node = |name: &&str| {
            let room = json!({ "cpu": "1", "memory": "1Gi", "pods": "3" });
            from_value(json!({ "metadata": { "name": name }, "status": { "allocatable": room } })).expect("a node")
        };
        let pod = |(name, node, cpu): &(&str, &str, &str)| {
            let container = json!({ "name": "main", "resources": { "requests": { "cpu": cpu } } });
            let spec = json!({ "nodeName": (!node.is_empty()).then_some(node), "containers": [container] });
            from_value(json!({ "metadata": { "name": name }, "spec": spec })).expect("a pod")
        };
        Census { nodes: nodes.iter().map(node).collect(), pods: pods.iter().map(pod).collect() }
    }

    #[test]
    fn a_node_is_overfull_by_what_its_pods_ask_for_or_by_their_number() {
        let fits = census(&["a"], &[("x", "a", "500m"), ("y", "a", "500m"), ("z", "", "4")]);
        assert_eq!((fits.overfull(), fits.waiting()), (vec![], vec!["z".to_owned()]));
        let full = census(&["a"], &[("x", "a", "500m"), ("y", "a", "501m")]);
        assert_eq!(full.overfull(), ["a has 1000/1000 cpu, its pods ask for 1001/1000"]);
        let many = census(&["a"], &["w", "x", "y", "z"].map(|name| (name, "a", "1m")));
        assert_eq!(many.overfull(), ["a has 3000/1000 pods, its pods ask for 4000/1000"]);
    }

    #[test]
    fn a_pod_whose_node_is_gone_is_told() {
        assert_eq!(census(&["a"], &[("x", "b", "1m")]).overfull(), ["x is on Some(\"b\"), which is gone"]);
    }

    #[test]
    fn amounts_are_read_as_the_tests_write_them() {
        let read = |text: &str| thousandths(&Quantity(text.to_owned()));
        assert_eq!((read("8"), read("250m"), read("1Gi")), (Some(8000), Some(250), Some(1_073_741_824_000)));
        assert_eq!(read("1.5"), None);
    }
}
