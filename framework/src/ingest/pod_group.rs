//! Reads PodGroups.

use k8s_openapi::api::scheduling::v1beta1 as api;

use super::fields::{IngestError, text};
use crate::pod_group::{GroupCondition, PodGroup};

/// The condition that the scheduler writes.
pub const CONDITION: &str = "PodGroupInitiallyScheduled";

/// Reads a pod group.
///
/// # Errors
/// A missing name, namespace or UID.
pub fn pod_group(group: &api::PodGroup) -> Result<PodGroup, IngestError> {
    let present = |field: &Option<String>, path| field.as_deref().map(text).ok_or(IngestError::Missing(path));
    let metadata = &group.metadata;
    let gang = group.spec.scheduling_policy.gang.as_ref();
    Ok(PodGroup {
        namespace: present(&metadata.namespace, "metadata.namespace")?,
        name: present(&metadata.name, "metadata.name")?,
        uid: present(&metadata.uid, "metadata.uid")?,
        generation: metadata.generation.unwrap_or(0),
        // The API server rejects a count below 1.
        min_count: gang.map(|gang| u32::try_from(gang.min_count).unwrap_or(0)),
        priority: group.spec.priority.unwrap_or(0),
        disrupted_whole: group.spec.disruption_mode.as_ref().is_some_and(|mode| mode.all.is_some()),
        condition: group.status.as_ref().and_then(condition),
    })
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
        pod_group(&serde_json::from_value(value).expect("a PodGroup"))
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
    fn a_group_without_a_name_is_none() {
        let nameless = read(serde_json::json!({"metadata": {"namespace": "n", "uid": "u"}, "spec": {}}));
        assert_eq!(nameless.unwrap_err(), IngestError::Missing("metadata.name"));
    }
}
