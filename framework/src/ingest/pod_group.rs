//! Reads PodGroups of `scheduling.k8s.io` and of `scheduling.x-k8s.io`, and CompositePodGroups.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::scheduling::{v1alpha3, v1beta1 as api},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use serde::Deserialize;

use super::{
    Features, devices,
    fields::{IngestError, quantities, resources, text},
};
use crate::pod_group::{GroupApi, GroupCondition, PodGroup, Topology};

/// The condition that the scheduler writes.
pub const CONDITION: &str = "PodGroupInitiallyScheduled";

/// The spec of a PodGroup of `scheduling.x-k8s.io/v1alpha1`. `scheduleTimeoutSeconds` is not read: no pod waits with a reserved node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CoschedulingSpec {
    /// The pods that are placed together or not at all.
    pub min_member: Option<i32>,
    /// The free resources that the group needs.
    pub min_resources: Option<BTreeMap<String, Quantity>>,
}

/// Reads a pod group of `scheduling.x-k8s.io`. Its priority is that of its pods, which the caller knows.
///
/// # Errors
/// A missing name, namespace or UID; an invalid quantity.
pub fn coscheduling(metadata: &ObjectMeta, spec: &CoschedulingSpec) -> Result<PodGroup, IngestError> {
    let present = |field: &Option<String>, path| field.as_deref().map(text).ok_or(IngestError::Missing(path));
    let amounts = quantities(spec.min_resources.as_ref(), "spec.minResources")?;
    let amounts = resources(&amounts);
    Ok(PodGroup {
        namespace: present(&metadata.namespace, "metadata.namespace")?,
        name: present(&metadata.name, "metadata.name")?,
        uid: present(&metadata.uid, "metadata.uid")?,
        generation: metadata.generation.unwrap_or(0),
        api: GroupApi::Coscheduling,
        parent: None,
        created_s: created_s(metadata),
        // The API server rejects a number below 1, but an absent one counts as 0.
        min_count: Some(spec.min_member.and_then(|count| u32::try_from(count).ok()).unwrap_or(0)),
        priority: 0,
        disrupted_whole: false,
        condition: None,
        min_resources: (!amounts.is_nothing()).then(|| Box::new(amounts)),
        never_preempts: None,
        topology: Topology::Off,
        claims: Vec::new(),
    })
}

/// Reads a pod group of `scheduling.k8s.io`.
///
/// # Errors
/// A missing name, namespace or UID.
pub fn pod_group(group: &api::PodGroup, features: Features) -> Result<PodGroup, IngestError> {
    let present = |field: &Option<String>, path| field.as_deref().map(text).ok_or(IngestError::Missing(path));
    let metadata = &group.metadata;
    let gang = group.spec.scheduling_policy.gang.as_ref();
    Ok(PodGroup {
        namespace: present(&metadata.namespace, "metadata.namespace")?,
        name: present(&metadata.name, "metadata.name")?,
        uid: present(&metadata.uid, "metadata.uid")?,
        generation: metadata.generation.unwrap_or(0),
        api: GroupApi::Kubernetes,
        parent: group.spec.parent_composite_pod_group_name.as_deref().map(text).filter(|_| features.composite_groups),
        created_s: created_s(metadata),
        // The API server rejects a count below 1.
        min_count: gang.map(|gang| u32::try_from(gang.min_count).unwrap_or(0)),
        priority: group.spec.priority.unwrap_or(0),
        disrupted_whole: group.spec.disruption_mode.as_ref().is_some_and(|mode| mode.all.is_some()),
        condition: group.status.as_ref().and_then(condition),
        min_resources: None,
        never_preempts: never_preempts(group.spec.preemption_policy.as_deref(), features),
        topology: if features.topology_aware { topology(&group.spec) } else { Topology::Off },
        claims: if features.workload_claims { devices::of_group(group) } else { Vec::new() },
    })
}

/// Reads a composite pod group.
///
/// # Errors
/// A missing name, namespace or UID.
pub fn composite(group: &v1alpha3::CompositePodGroup, features: Features) -> Result<PodGroup, IngestError> {
    let present = |field: &Option<String>, path| field.as_deref().map(text).ok_or(IngestError::Missing(path));
    let (metadata, spec) = (&group.metadata, &group.spec);
    let gang = spec.scheduling_policy.gang.as_ref();
    let constraints = spec.scheduling_constraints.as_ref().and_then(|constraints| constraints.topology.as_ref());
    Ok(PodGroup {
        namespace: present(&metadata.namespace, "metadata.namespace")?,
        name: present(&metadata.name, "metadata.name")?,
        uid: present(&metadata.uid, "metadata.uid")?,
        generation: metadata.generation.unwrap_or(0),
        api: GroupApi::Composite,
        parent: spec.parent_composite_pod_group_name.as_deref().map(text),
        created_s: created_s(metadata),
        min_count: gang.map(|gang| u32::try_from(gang.min_group_count).unwrap_or(0)),
        priority: spec.priority.unwrap_or(0),
        disrupted_whole: spec.disruption_mode.as_ref().is_some_and(|mode| mode.all.is_some()),
        // kube-scheduler 1.37 writes no condition of a composite group.
        condition: None,
        min_resources: None,
        never_preempts: never_preempts(spec.preemption_policy.as_deref(), features),
        topology: key(constraints.and_then(|all| all.first()).map(|first| &*first.key)),
        claims: Vec::new(),
    })
}

fn created_s(metadata: &ObjectMeta) -> i64 {
    metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second())
}

fn never_preempts(policy: Option<&str>, features: Features) -> Option<bool> {
    features.group_preemption_policy.then(|| policy == Some("Never"))
}

fn key(key: Option<&str>) -> Topology {
    key.map_or(Topology::Unconstrained, |key| Topology::Key(text(key)))
}

/// Source: `getTopologyKey`, which reads the first constraint only.
fn topology(spec: &api::PodGroupSpec) -> Topology {
    let constraints = spec.scheduling_constraints.as_ref().and_then(|constraints| constraints.topology.as_ref());
    key(constraints.and_then(|all| all.first()).map(|first| &*first.key))
}

fn condition(status: &api::PodGroupStatus) -> Option<GroupCondition> {
    let condition = status.conditions.iter().flatten().find(|condition| condition.type_ == CONDITION)?;
    Some(GroupCondition {
        status: condition.status == "True",
        reason: text(&condition.reason),
        message: text(&condition.message),
        observed_generation: condition.observed_generation.unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: serde_json::Value) -> Result<PodGroup, IngestError> {
        pod_group(&serde_json::from_value(value).expect("a PodGroup"), Features::default())
    }

    #[test]
    fn the_fields_of_a_gang_and_their_defaults() {
        let metadata = serde_json::json!({"name": "g", "namespace": "n", "uid": "u", "generation": 2});
        let gang = read(serde_json::json!({
            "metadata": metadata,
            "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}, "priority": 7, "disruptionMode": {"all": {}}},
            "status": {"conditions": [
                {"type": "DisruptionTarget", "status": "True", "reason": "x", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": "m",
                 "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ]},
        }));
        let gang = gang.expect("sound");
        assert_eq!((&*gang.key(), gang.min_count, gang.priority, gang.generation), ("n/g", Some(3), 7, 2));
        assert!(gang.disrupted_whole);
        let condition = gang.condition.expect("a condition");
        assert_eq!((condition.status, &*condition.reason, condition.observed_generation), (false, "Unschedulable", 1));
        let basic = read(serde_json::json!({"metadata": metadata, "spec": {"schedulingPolicy": {"basic": {}}}}));
        let basic = basic.expect("sound");
        assert_eq!((basic.min_count, basic.priority, basic.condition, basic.disrupted_whole), (None, 0, None, false));
    }

    #[test]
    fn a_group_of_scheduler_plugins_has_a_minimum_of_pods_and_of_resources() {
        let metadata = ObjectMeta {
            name: Some("g".to_owned()),
            namespace: Some("n".to_owned()),
            uid: Some("u".to_owned()),
            ..ObjectMeta::default()
        };
        let read = |spec: serde_json::Value| {
            coscheduling(&metadata, &serde_json::from_value(spec).expect("a spec")).map_err(|error| error.to_string())
        };
        let group = read(serde_json::json!({
            "minMember": 3, "scheduleTimeoutSeconds": 10, "minResources": {"cpu": "1500m", "example.com/gpu": 2},
        }));
        let group = group.expect("sound");
        assert_eq!((group.api, group.min_count), (GroupApi::Coscheduling, Some(3)));
        let least = group.min_resources.expect("resources");
        assert_eq!((least.milli_cpu, least.get("example.com/gpu")), (1_500, 2));
        let empty = read(serde_json::json!({ "minResources": {} })).expect("sound");
        assert_eq!((empty.min_count, empty.min_resources), (Some(0), None));
        let error =
            read(serde_json::json!({ "minMember": 1, "minResources": {"cpu": "many"} })).expect_err("no amount");
        assert!(error.starts_with("spec.minResources[cpu]"), "{error}");
    }

    #[test]
    fn a_composite_group_is_a_gang_of_groups_and_pod_groups_have_parents_behind_the_gate() {
        let metadata = serde_json::json!({
            "name": "g", "namespace": "n", "uid": "u", "creationTimestamp": "2026-01-01T00:00:01Z",
        });
        let features = Features { composite_groups: true, topology_aware: true, ..Features::default() };
        let group = serde_json::from_value(serde_json::json!({"metadata": metadata, "spec": {
            "workloadRef": {"workloadName": "w", "templateName": "t"}, "parentCompositePodGroupName": "top",
            "schedulingPolicy": {"gang": {"minGroupCount": 2}}, "priority": 7, "disruptionMode": {"all": {}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
        }}));
        let group = composite(&group.expect("a CompositePodGroup"), features).expect("sound");
        assert_eq!((group.api, group.min_count, group.priority), (GroupApi::Composite, Some(2), 7));
        assert_eq!(group.parent.as_deref(), Some("top"));
        assert_eq!((group.disrupted_whole, group.created_s), (true, 1_767_225_601));
        assert_eq!(group.topology, Topology::Key("rack".into()));
        let leaf: api::PodGroup = serde_json::from_value(serde_json::json!({
            "metadata": metadata, "spec": {"parentCompositePodGroupName": "top", "schedulingPolicy": {"basic": {}}},
        }))
        .expect("a PodGroup");
        for (gate, expected) in [(true, Some("top")), (false, None)] {
            let read = pod_group(&leaf, Features { composite_groups: gate, ..features }).expect("sound");
            assert_eq!(read.parent.as_deref(), expected);
        }
    }

    #[test]
    fn a_group_without_a_name_is_none() {
        let nameless = read(serde_json::json!({"metadata": {"namespace": "n", "uid": "u"}, "spec": {}}));
        assert_eq!(nameless.unwrap_err(), IngestError::Missing("metadata.name"));
    }
}
