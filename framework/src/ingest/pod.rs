//! Reads the class of a pod.

use std::sync::Arc;

use k8s_openapi::api::core::v1 as api;

use super::{
    Features, devices,
    fields::{IngestError, node_term, resources, text, toleration},
    footprint, mounts, pods,
    requests::{self, Amounts, DEFAULT_MEMORY, DEFAULT_MILLI_CPU, Reading},
    selectors::labels,
};
use crate::{
    class::{ANY_IP, Class, Common, HostPort, Toleration},
    declared::DeclaredFeatures,
    quantity::Quantity,
};

pub(super) fn class(pod: &api::Pod, spec: &api::PodSpec, features: Features) -> Result<Class, IngestError> {
    let namespace = pod.metadata.namespace.as_deref().ok_or(IngestError::Missing("metadata.namespace"))?;
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
    let preferred = affinity.and_then(|node| node.preferred_during_scheduling_ignored_during_execution.as_ref());
    let wanted = requests::total(pod, spec, Reading::of_spec(features))?;
    let accounted = match requests::has_status(pod, features) {
        true => requests::total(pod, spec, Reading::of_status(features))?,
        false => wanted.clone(),
    };
    let labels = labels(&pod.metadata);
    let nonzero = nonzero(pod, spec, &accounted, features)?;
    let deferring_node = spec
        .node_name
        .as_deref()
        .filter(|name| !name.is_empty() && features.deferred_resizes && requests::is_resize_deferred(pod));
    let defaults = [("cpu", parsed(DEFAULT_MILLI_CPU)), ("memory", parsed(DEFAULT_MEMORY))];
    let mut devices = devices::claimed(pod, spec, features);
    if let Some(devices) = devices.as_mut().filter(|_| features.devices.node_allocatable) {
        let footprint = footprint::footprint(pod, spec, features, &defaults)?;
        Arc::make_mut(devices).footprint = Some(Arc::new(footprint));
    }
    let scored = Reading { skip_pod_level: true, non_missing: &defaults, ..Reading::of_spec(features) };
    let common = Common {
        requests: resources(&wanted),
        score_requests: resources(&requests::total(pod, spec, scored)?),
        accounted: resources(&accounted),
        nonzero_milli_cpu: nonzero.get("cpu").map_or(0, |cpu| cpu.milli()),
        nonzero_memory: nonzero.get("memory").map_or(0, |memory| memory.units()),
        node_name: deferring_node.map(text),
        resize_deferred: deferring_node.is_some(),
        node_selector: spec.node_selector.iter().flatten().map(|(key, value)| (text(key), text(value))).collect(),
        required_terms: required.map(|selector| selector.node_selector_terms.iter().map(node_term).collect()),
        preferred_terms: preferred
            .into_iter()
            .flatten()
            .map(|term| (term.weight, node_term(&term.preference)))
            .collect(),
        tolerations: tolerations(spec, features),
        host_ports: host_ports(spec),
        images: images(spec),
        spread: pods::spread(&labels, spec, features),
        pod_affinity: pods::affinity(namespace, spec),
        owner: pods::owner(&pod.metadata, spec),
        declared_features: declared_features(spec),
    };
    Ok(Class {
        namespace: text(namespace),
        labels,
        common: Arc::new(common),
        terminating: pod.metadata.deletion_timestamp.is_some(),
        volumes: mounts::volumes(&pod.metadata, spec),
        devices,
        fields: Vec::new(),
        within: None,
    })
}

fn parsed(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_default()
}

/// The amounts charged to the node's "non-zero" account. Source: `framework.PodInfo.CalculateResource` and
/// `getNonMissingContainerRequests`: with pod-level resources, a default applies only to resources that neither the container nor the pod
/// names.
fn nonzero(
    pod: &api::Pod,
    spec: &api::PodSpec,
    accounted: &Amounts,
    features: Features,
) -> Result<Amounts, IngestError> {
    let mut defaults = vec![("cpu", parsed(DEFAULT_MILLI_CPU)), ("memory", parsed(DEFAULT_MEMORY))];
    if features.pod_level_resources && requests::is_pod_level_set(spec) {
        defaults.retain(|(name, _)| !accounted.contains_key(*name));
    }
    requests::total(pod, spec, Reading { non_missing: &defaults, ..Reading::of_status(features) })
}

/// Without the gate, tolerations with comparison operators tolerate nothing, so they are left out.
fn tolerations(spec: &api::PodSpec, features: Features) -> Vec<Toleration> {
    let compares = |read: &Toleration| matches!(read.operator.as_ref(), "Gt" | "Lt");
    let all = spec.tolerations.iter().flatten().map(toleration);
    all.filter(|read| features.comparison_operators || !compares(read)).collect()
}

fn host_ports(spec: &api::PodSpec) -> Vec<HostPort> {
    let sidecars =
        spec.init_containers.iter().flatten().filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    let mut ports: Vec<HostPort> = ports
        .filter_map(|port| {
            let number = port.host_port.filter(|&number| number > 0)?;
            let ip = port.host_ip.as_deref().filter(|ip| !ip.is_empty()).unwrap_or(ANY_IP);
            let protocol = port.protocol.as_deref().filter(|name| !name.is_empty()).unwrap_or("TCP");
            Some(HostPort { ip: text(ip), protocol: text(protocol), port: number })
        })
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

fn images(spec: &api::PodSpec) -> Vec<Arc<str>> {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let of_containers = containers.map(|container| container.image.as_deref().unwrap_or_default());
    let volumes = spec.volumes.iter().flatten().filter_map(|volume| volume.image.as_ref());
    let of_volumes = volumes.map(|image| image.reference.as_deref().unwrap_or_default());
    of_containers.chain(of_volumes).map(normalized).collect()
}

/// The name with `:latest` where it carries no tag.
fn normalized(name: &str) -> Arc<str> {
    if name.rfind(':') <= name.rfind('/') { format!("{name}:latest").into() } else { text(name) }
}

/// The features that kube-scheduler infers for this pod. Source: `InferForScheduling` in component-helpers `nodedeclaredfeatures/features`.
fn declared_features(spec: &api::PodSpec) -> DeclaredFeatures {
    let containers = || spec.init_containers.iter().flatten().chain(&spec.containers);
    let restarts_all = containers().any(|container| {
        let mut rules = container.restart_policy_rules.iter().flatten();
        rules.any(|rule| rule.action == "RestartAllContainers")
    });
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|container| &container.volume_mounts);
    let mut mounts = containers().map(|container| &container.volume_mounts).chain(ephemeral).flatten().flatten();
    let binds = mounts.any(|mount| mount.bind_mount_options.as_ref().is_some_and(|options| !options.is_empty()));
    let users = spec.host_network == Some(true) && spec.host_users == Some(false);
    [
        (restarts_all, DeclaredFeatures::RESTART_ALL_CONTAINERS),
        (users, DeclaredFeatures::USER_NAMESPACES_HOST_NETWORK),
        (binds, DeclaredFeatures::VOLUME_BIND_MOUNT_OPTIONS),
    ]
    .into_iter()
    .filter(|(needed, _)| *needed)
    .fold(DeclaredFeatures::default(), |all, (_, feature)| all.with(feature))
}
