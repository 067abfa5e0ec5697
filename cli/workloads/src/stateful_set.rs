//! Pods of StatefulSets, with their claims.
//!
//! Source: `pkg/controller/statefulset/stateful_set_utils.go`.

use std::collections::BTreeMap;

use k8s_openapi::{
    Resource,
    api::{
        apps::v1::{StatefulSet, StatefulSetSpec},
        core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, Volume},
    },
};

use crate::{
    made::{Made, Surroundings},
    names,
    owned::OwnedPod,
    replicas::owned,
    rollout::{Rollout, RolloutPod, Strategy},
    template,
};

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// The policy without an order of pods.
const PARALLEL: &str = "Parallel";
const REVISION: &str = "controller-revision-hash";

/// All pods of a StatefulSet. The caller creates them in order if `podManagementPolicy` is not `Parallel`.
pub(crate) fn make(set: &StatefulSet, around: Surroundings<'_>) -> Made {
    let spec = &set.spec;
    let pods = owned(StatefulSet::KIND, &set.metadata, around);
    let start = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
    let end = start.saturating_add(spec.replicas.unwrap_or(1));
    let set_name = set.metadata.name.as_deref().unwrap_or_default();
    let name = |ordinal: i32| format!("{set_name}-{ordinal}");
    let active: BTreeMap<&str, &OwnedPod> =
        pods.iter().filter(|pod| pod.is_active()).map(|pod| (pod.name.as_str(), *pod)).collect();
    let mut made = Made::default();
    let (strategy, partition) = Strategy::of_stateful_set(spec);
    let mut rollout = Rollout { strategy, pods: Vec::new(), new: Vec::new() };
    if spec.pod_management_policy.as_deref() != Some(PARALLEL) {
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        made.order = (start..end).map(|ordinal| format!("{namespace}/{}", name(ordinal))).collect();
    }
    for ordinal in start..end {
        made.claims.extend(claims(set, spec, ordinal).map(|(_, claim)| claim));
        let Some(present) = active.get(name(ordinal).as_str()) else {
            let pod = pod(set, spec, ordinal, name(ordinal));
            rollout.pods.push(RolloutPod::made(&pod));
            made.pods.push(pod);
            continue;
        };
        let is_replaced = present.is_outdated() && ordinal >= start.saturating_add(partition);
        let successor = is_replaced.then_some(rollout.new.len());
        rollout.new.extend(is_replaced.then(|| pod(set, spec, ordinal, name(ordinal))));
        rollout.pods.push(RolloutPod { successor, ..RolloutPod::of(present) });
    }
    made.rollout = rollout.pods.iter().any(|pod| pod.is_outdated).then_some(rollout);
    let ordinal = |pod: &OwnedPod| pod.name.strip_prefix(set_name)?.strip_prefix('-')?.parse().ok();
    let is_wanted = |pod: &OwnedPod| ordinal(pod).is_some_and(|ordinal: i32| (start..end).contains(&ordinal));
    made.ended = pods.iter().filter(|pod| pod.has_ended()).map(|pod| pod.key()).collect();
    made.surplus = active.values().filter(|pod| !is_wanted(pod)).map(|pod| pod.key()).collect();
    made
}

fn pod(set: &StatefulSet, spec: &StatefulSetSpec, ordinal: i32, name: String) -> Pod {
    let mut pod = template::pod::<StatefulSet>(&spec.template, &set.metadata, name.clone());
    let revision = set.status.as_ref().and_then(|status| status.update_revision.clone());
    let set_name = set.metadata.name.as_deref().unwrap_or_default();
    let revision = revision.unwrap_or_else(|| format!("{set_name}-{}", names::hash(&spec.template)));
    template::label(&mut pod.metadata, POD_NAME, &*name);
    template::label(&mut pod.metadata, POD_INDEX, ordinal.to_string());
    template::label(&mut pod.metadata, REVISION, revision);
    let Some(pod_spec) = &mut pod.spec else { return pod };
    pod_spec.hostname = Some(name);
    pod_spec.subdomain.clone_from(&spec.service_name);
    let mut volumes: Vec<Volume> = claims(set, spec, ordinal).map(|(name, claim)| volume(name, claim)).collect();
    let others = pod_spec.volumes.take().unwrap_or_default();
    let is_claimed = |volume: &Volume| volumes.iter().any(|claimed| claimed.name == volume.name);
    let others: Vec<Volume> = others.into_iter().filter(|volume| !is_claimed(volume)).collect();
    volumes.extend(others);
    pod_spec.volumes = (!volumes.is_empty()).then_some(volumes);
    pod
}

/// The claims of the pod with this ordinal, each with its volume's name.
fn claims<'a>(
    set: &'a StatefulSet,
    spec: &'a StatefulSetSpec,
    ordinal: i32,
) -> impl Iterator<Item = (String, PersistentVolumeClaim)> + 'a {
    let set_name = set.metadata.name.as_deref().unwrap_or_default();
    spec.volume_claim_templates.iter().flatten().map(move |template| {
        let volume = template.metadata.name.clone().unwrap_or_default();
        let mut claim = template.clone();
        claim.metadata.name = Some(format!("{volume}-{set_name}-{ordinal}"));
        claim.metadata.namespace.clone_from(&set.metadata.namespace);
        claim.metadata.uid = None;
        claim.status = None;
        let labels = spec.selector.match_labels.clone().unwrap_or_default();
        claim.metadata.labels.get_or_insert_default().extend(labels);
        (volume, claim)
    })
}

fn volume(name: String, claim: PersistentVolumeClaim) -> Volume {
    let claim_name = claim.metadata.name.unwrap_or_default();
    let source = PersistentVolumeClaimVolumeSource { claim_name, read_only: None };
    Volume { name, persistent_volume_claim: Some(source), ..Volume::default() }
}
