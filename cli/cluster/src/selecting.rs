//! The kinds that select pods.

use flotilla_framework::{
    class::OwnerKind,
    excess::objects,
    ingest::selectors::{controller_selector, map_selector},
    labels::LabelSelector,
};
use flotilla_machine::event::SelectingKind;
use flotilla_objects::Object;
use k8s_openapi::{
    api::{
        apps::v1::{ReplicaSet, StatefulSet},
        core::v1::{ReplicationController, Service},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::defaults;

/// An object that selects pods.
pub trait Selecting: Object {
    /// The name of the kind.
    const NAME: &'static str;
    /// The kind.
    const KIND: SelectingKind;

    /// The metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// Sets the API server's defaults.
    fn fill_in(&mut self) {}

    /// The pod selector.
    fn selector(&self) -> LabelSelector;

    /// Why the selector exceeds its limits.
    fn excess(&self) -> Option<String>;
}

impl Selecting for Service {
    const NAME: &'static str = "Service";
    const KIND: SelectingKind = SelectingKind::Service;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn selector(&self) -> LabelSelector {
        map_selector(self.spec.as_ref().and_then(|spec| spec.selector.as_ref()))
    }

    fn excess(&self) -> Option<String> {
        objects::of_map(self.spec.as_ref().and_then(|spec| spec.selector.as_ref()))
    }
}

impl Selecting for ReplicationController {
    const NAME: &'static str = "ReplicationController";
    const KIND: SelectingKind = SelectingKind::Controller(OwnerKind::ReplicationController);

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn fill_in(&mut self) {
        defaults::replication_controller(self);
    }

    fn selector(&self) -> LabelSelector {
        map_selector(self.spec.as_ref().and_then(|spec| spec.selector.as_ref()))
    }

    fn excess(&self) -> Option<String> {
        objects::of_map(self.spec.as_ref().and_then(|spec| spec.selector.as_ref()))
    }
}

impl Selecting for ReplicaSet {
    const NAME: &'static str = "ReplicaSet";
    const KIND: SelectingKind = SelectingKind::Controller(OwnerKind::ReplicaSet);

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn selector(&self) -> LabelSelector {
        controller_selector(Some(&self.spec.selector))
    }

    fn excess(&self) -> Option<String> {
        objects::of_selector(Some(&self.spec.selector))
    }
}

impl Selecting for StatefulSet {
    const NAME: &'static str = "StatefulSet";
    const KIND: SelectingKind = SelectingKind::Controller(OwnerKind::StatefulSet);

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn selector(&self) -> LabelSelector {
        controller_selector(Some(&self.spec.selector))
    }

    fn excess(&self) -> Option<String> {
        objects::of_selector(Some(&self.spec.selector))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn selector<T: Selecting>(spec: &Value) -> LabelSelector {
        let object = json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec});
        serde_json::from_value::<T>(object).expect("an object of its kind").selector()
    }

    #[test]
    fn each_kind_gives_its_selector_and_what_has_none_selects_nothing() {
        let (map, own) = (json!({"app": "web"}), json!({"matchLabels": {"app": "web"}}));
        let equal = map_selector(serde_json::from_value(map.clone()).ok().as_ref());
        let unreadable = json!({"matchExpressions": [{"key": "app", "operator": "Near"}]});
        let cases = [
            (selector::<Service>(&json!({"selector": map})), equal.clone()),
            (selector::<Service>(&json!({"selector": {}})), LabelSelector::EVERYTHING),
            (selector::<Service>(&json!({})), LabelSelector::Nothing),
            (selector::<ReplicationController>(&json!({"selector": map})), equal.clone()),
            (selector::<ReplicationController>(&json!({})), LabelSelector::Nothing),
            (selector::<ReplicaSet>(&json!({"selector": own})), equal.clone()),
            (selector::<ReplicaSet>(&json!({"selector": {}})), LabelSelector::EVERYTHING),
            (selector::<ReplicaSet>(&json!({"selector": unreadable})), LabelSelector::Nothing),
            (selector::<StatefulSet>(&json!({"selector": own, "serviceName": "web", "template": {}})), equal),
        ];
        for (number, (found, expected)) in cases.into_iter().enumerate() {
            assert_eq!(found, expected, "case {number}");
        }
    }
}
