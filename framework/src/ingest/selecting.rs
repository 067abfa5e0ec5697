//! Namespaces, services and controllers, turned into the labels and selectors that scheduling reads of them.
//!
//! Knows: where those are in an object, and what an unreadable or missing selector stands for. Must not know: which pods
//! are selected, or what is made of that.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{
        apps::v1::{ReplicaSet, StatefulSet},
        core::v1 as api,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector as ApiSelector, ObjectMeta},
};

use super::{IngestError, labels, selectors, text};
use crate::{class::OwnerKind, labels::LabelSelector};

/// Labels, sorted by key.
type Labels = Vec<(Arc<str>, Arc<str>)>;

/// An object that selects pods of its namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selects {
    /// The kind of controller; `None` for a service.
    pub controller: Option<OwnerKind>,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// What it selects. Nothing where it has no selector, or one that cannot be read: upstream passes over both.
    pub selector: LabelSelector,
}

/// A namespace's name and labels.
///
/// # Errors
/// A missing name.
pub fn namespace(namespace: &api::Namespace) -> Result<(Arc<str>, Labels), IngestError> {
    let name = namespace.metadata.name.as_deref().ok_or(IngestError::Missing("metadata.name"))?;
    Ok((text(name), labels(&namespace.metadata)))
}

/// A service. One with an empty selector selects every pod, one without any selects none.
///
/// Source: `GetPodServices` in upstream's plugins/helper/spread.go.
///
/// # Errors
/// A missing name.
pub fn service(service: &api::Service) -> Result<Selects, IngestError> {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    of_map(None, &service.metadata, selector)
}

/// A replication controller.
///
/// Source: `DefaultSelector` in upstream's plugins/helper/spread.go.
///
/// # Errors
/// A missing name.
pub fn replication_controller(controller: &api::ReplicationController) -> Result<Selects, IngestError> {
    let selector = controller.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    of_map(Some(OwnerKind::ReplicationController), &controller.metadata, selector)
}

/// A replica set.
///
/// Source: `DefaultSelector` in upstream's plugins/helper/spread.go.
///
/// # Errors
/// A missing name.
pub fn replica_set(controller: &ReplicaSet) -> Result<Selects, IngestError> {
    of_selector(OwnerKind::ReplicaSet, &controller.metadata, &controller.spec.selector)
}

/// A stateful set.
///
/// Source: `DefaultSelector` in upstream's plugins/helper/spread.go.
///
/// # Errors
/// A missing name.
pub fn stateful_set(controller: &StatefulSet) -> Result<Selects, IngestError> {
    of_selector(OwnerKind::StatefulSet, &controller.metadata, &controller.spec.selector)
}

fn of_map(
    controller: Option<OwnerKind>,
    metadata: &ObjectMeta,
    selector: Option<&BTreeMap<String, String>>,
) -> Result<Selects, IngestError> {
    selects(controller, metadata, selectors::map_selector(selector))
}

fn of_selector(controller: OwnerKind, metadata: &ObjectMeta, selector: &ApiSelector) -> Result<Selects, IngestError> {
    selects(Some(controller), metadata, selectors::controller_selector(Some(selector)))
}

fn selects(
    controller: Option<OwnerKind>,
    metadata: &ObjectMeta,
    selector: LabelSelector,
) -> Result<Selects, IngestError> {
    let name = text(metadata.name.as_deref().ok_or(IngestError::Missing("metadata.name"))?);
    let namespace = text(metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default"));
    Ok(Selects { controller, namespace, name, selector })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn made(kind: &str, spec: &serde_json::Value) -> Selects {
        let object = json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec});
        let made = match kind {
            "Service" => service(&serde_json::from_value(object).expect("a service")),
            "ReplicationController" => {
                replication_controller(&serde_json::from_value(object).expect("a replication controller"))
            }
            "ReplicaSet" => replica_set(&serde_json::from_value(object).expect("a replica set")),
            _ => stateful_set(&serde_json::from_value(object).expect("a stateful set")),
        };
        made.expect("it has a name")
    }

    #[test]
    fn each_kind_gives_its_selector_and_what_has_none_selects_nothing() {
        let (map, selector) = (json!({"app": "web"}), json!({"matchLabels": {"app": "web"}}));
        let template = json!({});
        let equal = super::super::pods::label_map(&BTreeMap::from([("app".to_owned(), "web".to_owned())]));
        let unreadable = json!({"matchExpressions": [{"key": "app", "operator": "Near"}]});
        let cases = [
            ("Service", json!({"selector": map}), equal.clone()),
            ("Service", json!({"selector": {}}), LabelSelector::EVERYTHING),
            ("Service", json!({}), LabelSelector::Nothing),
            ("ReplicationController", json!({"selector": map}), equal.clone()),
            ("ReplicationController", json!({}), LabelSelector::Nothing),
            ("ReplicaSet", json!({"selector": selector}), equal.clone()),
            ("ReplicaSet", json!({"selector": {}}), LabelSelector::EVERYTHING),
            ("ReplicaSet", json!({"selector": unreadable}), LabelSelector::Nothing),
            ("StatefulSet", json!({"selector": selector, "serviceName": "web", "template": template}), equal),
        ];
        for (kind, spec, expected) in cases {
            assert_eq!(made(kind, &spec).selector, expected, "{kind} {spec}");
        }
    }

    #[test]
    fn an_object_is_known_by_kind_namespace_and_name() {
        let Selects { controller, namespace, name, .. } = made("StatefulSet", &json!({}));
        assert_eq!((controller, &*namespace, &*name), (Some(OwnerKind::StatefulSet), "shop", "web"));
        let nameless = service(&api::Service::default());
        assert_eq!(nameless, Err(IngestError::Missing("metadata.name")));
    }

    #[test]
    fn a_namespace_gives_its_labels_sorted() {
        let object = json!({"metadata": {"name": "shop", "labels": {"team": "b", "env": "a"}}});
        let (name, labels) = namespace(&serde_json::from_value(object).expect("a namespace")).expect("its name");
        assert_eq!(&*name, "shop");
        assert_eq!(labels, [("env".into(), "a".into()), ("team".into(), "b".into())]);
    }
}
