//! Defaults and admission plugins of Kubernetes 1.37, as far as a scheduler sees their effect.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::ingest::requests::{self, Reading};
use k8s_openapi::{
    api::{core::v1 as api, storage::v1::StorageClass},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};

/// Default `tolerationSeconds` for nodes that are not ready or unreachable.
const TOLERATION_SECONDS: i64 = 300;
/// The label with the name of a namespace.
const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";
/// The kubelet's default for `maxPods`.
const PODS: &str = "110";

/// Sets the defaults of a pod, except its priority, which depends on other objects.
///
/// Source: `SetDefaults_Pod`, `SetDefaults_PodSpec` and the admission plugin `DefaultTolerationSeconds`.
pub(super) fn pod(pod: &mut api::Pod) {
    identity(&mut pod.metadata, true);
    if let Some(spec) = &mut pod.spec {
        let scheduler = spec.scheduler_name.get_or_insert_default();
        if scheduler.is_empty() {
            *scheduler = "default-scheduler".to_owned();
        }
        let uses_host_network = spec.host_network.unwrap_or(false);
        for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
            fill_container(container, uses_host_network);
        }
        tolerate_lost_nodes(spec);
        for volume in spec.volumes.iter_mut().flatten() {
            fill_rbd(volume.rbd.as_mut().map(|image| &mut image.pool));
            fill_azure_disk(volume.azure_disk.as_mut());
        }
    }
    pod_level_requests(pod);
}

/// Sets the namespace, and the name as UID if there is none.
pub(super) fn identity(metadata: &mut ObjectMeta, is_namespaced: bool) {
    let mut key = metadata.name.clone().unwrap_or_default();
    if is_namespaced {
        let namespace = metadata.namespace.get_or_insert_default();
        if namespace.is_empty() {
            *namespace = "default".to_owned();
        }
        key = format!("{namespace}/{key}");
    }
    if metadata.uid.as_deref().is_none_or(str::is_empty) {
        metadata.uid = Some(key);
    }
}

/// The default pool matters because two pods may share an RBD image only for reading.
fn fill_rbd(pool: Option<&mut Option<String>>) {
    if let Some(pool) = pool {
        let pool = pool.get_or_insert_default();
        if pool.is_empty() {
            *pool = "rbd".to_owned();
        }
    }
}

/// The default kind matters because the CSI driver only replaces managed disks.
fn fill_azure_disk(disk: Option<&mut api::AzureDiskVolumeSource>) {
    if let Some(disk) = disk {
        disk.kind.get_or_insert_with(|| "Shared".to_owned());
    }
}

/// Sets the defaults that scheduling reads, and the phase of an unclaimed volume that was never in a cluster. A missing volume mode already
/// means a file system.
///
/// Source: `SetObjectDefaults_PersistentVolume`, and `syncVolume` in `pkg/controller/volume/persistentvolume/pv_controller.go`.
pub(super) fn volume(volume: &mut api::PersistentVolume) {
    let is_claimed = volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_some());
    if volume.metadata.resource_version.is_none() && !is_claimed {
        let phase = &mut volume.status.get_or_insert_default().phase;
        phase.get_or_insert_with(|| "Available".to_owned());
    }
    let disk = volume.spec.as_mut().and_then(|spec| spec.azure_disk.as_mut());
    fill_azure_disk(disk);
}

/// Source: `SetDefaults_StorageClass`.
pub(super) fn storage_class(class: &mut StorageClass) {
    class.volume_binding_mode.get_or_insert_with(|| "Immediate".to_owned());
}

fn fill_container(container: &mut api::Container, uses_host_network: bool) {
    if let Some(resources) = &mut container.resources
        && let Some(limits) = &resources.limits
    {
        let requests = resources.requests.get_or_insert_default();
        for (name, limit) in limits {
            requests.entry(name.clone()).or_insert_with(|| limit.clone());
        }
    }
    for port in container.ports.iter_mut().flatten() {
        let protocol = port.protocol.get_or_insert_default();
        if protocol.is_empty() {
            *protocol = "TCP".to_owned();
        }
        if uses_host_network && port.host_port.unwrap_or(0) == 0 {
            port.host_port = Some(port.container_port);
        }
    }
}

/// Source: `defaultPodRequests`. Pod-level limits are the requests, unless the containers request less.
pub(super) fn pod_level_requests(pod: &mut api::Pod) {
    let Some(spec) = &pod.spec else { return };
    let Some(limits) = spec.resources.as_ref().and_then(|resources| resources.limits.clone()) else { return };
    if limits.is_empty() {
        return;
    }
    let is_set_by_containers = set_by_containers(pod, spec);
    let Some(spec) = &mut pod.spec else { return };
    let requests = spec.resources.get_or_insert_default().requests.get_or_insert_default();
    for (name, amount) in is_set_by_containers {
        requests.entry(name).or_insert(amount);
    }
    for (name, limit) in limits {
        if matches!(&*name, "cpu" | "memory") || name.starts_with("hugepages-") {
            requests.entry(name).or_insert(limit);
        }
    }
}

/// The containers' requests of resources that allow overcommitment.
fn set_by_containers(pod: &api::Pod, spec: &api::PodSpec) -> BTreeMap<String, Quantity> {
    let alone = api::PodSpec { overhead: None, ..spec.clone() };
    let reading = Reading { skip_pod_level: true, ..Reading::default() };
    // Other code reports amounts that do not parse.
    let sums = requests::total(pod, &alone, reading).unwrap_or_default();
    let text = |name: &str, amount: flotilla_framework::quantity::Quantity| match name {
        "cpu" => Some(format!("{}m", amount.milli())),
        "memory" => Some(amount.units().to_string()),
        _ => None,
    };
    sums.into_iter()
        .filter_map(|(name, amount)| Some((text(&name, amount).map(Quantity)?, name)))
        .map(|(amount, name)| (name, amount))
        .collect()
}

/// Source: the admission plugin `DefaultTolerationSeconds`.
fn tolerate_lost_nodes(spec: &mut api::PodSpec) {
    let tolerations = spec.tolerations.get_or_insert_default();
    let is_for = |toleration: &api::Toleration, key: &str| {
        let names =
            |field: &Option<String>, value: &str| field.as_deref().is_none_or(|text| text.is_empty() || text == value);
        names(&toleration.key, key) && names(&toleration.effect, "NoExecute")
    };
    let missing: Vec<&str> = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
        .into_iter()
        .filter(|key| !tolerations.iter().any(|toleration| is_for(toleration, key)))
        .collect();
    tolerations.extend(missing.into_iter().map(|key| api::Toleration {
        key: Some(key.to_owned()),
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        toleration_seconds: Some(TOLERATION_SECONDS),
        ..api::Toleration::default()
    }));
}

/// Sets the defaults of a node, with those of the kubelet.
///
/// Source: `SetDefaults_NodeStatus`.
pub(super) fn node(node: &mut api::Node) {
    identity(&mut node.metadata, false);
    let name = node.metadata.name.clone().unwrap_or_default();
    node.metadata.labels.get_or_insert_default().entry("kubernetes.io/hostname".to_owned()).or_insert(name);
    let Some(status) = &mut node.status else { return };
    let capacity = status.capacity.clone().unwrap_or_default();
    let allocatable = status.allocatable.get_or_insert_default();
    if allocatable.is_empty() {
        allocatable.clone_from(&capacity);
    }
    let pods = capacity.get("pods").cloned().unwrap_or_else(|| Quantity(PODS.to_owned()));
    allocatable.entry("pods".to_owned()).or_insert(pods);
}

/// Source: `SetDefaults_Namespace`.
pub(super) fn namespace(namespace: &mut api::Namespace) {
    let name = namespace.metadata.name.clone().unwrap_or_default();
    namespace.metadata.labels.get_or_insert_default().insert(NAMESPACE_LABEL.to_owned(), name);
}

/// The labels of a namespace that has objects and is missing from the input.
pub(super) fn namespace_labels(name: &Arc<str>) -> Vec<(Arc<str>, Arc<str>)> {
    vec![(NAMESPACE_LABEL.into(), Arc::clone(name))]
}

/// Source: `SetDefaults_ReplicationController`.
pub(super) fn replication_controller(controller: &mut api::ReplicationController) {
    let Some(spec) = &mut controller.spec else { return };
    let template = spec.template.as_ref().and_then(|template| template.metadata.as_ref());
    if spec.selector.as_ref().is_none_or(BTreeMap::is_empty) {
        spec.selector = template.and_then(|metadata| metadata.labels.clone()).filter(|labels| !labels.is_empty());
    }
}

#[cfg(test)]
mod tests;
