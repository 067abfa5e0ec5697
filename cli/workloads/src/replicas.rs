//! Pods of ReplicaSets, ReplicationControllers and Deployments.
//!
//! Source: `pkg/controller/deployment` and `pkg/controller/replicaset`.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use k8s_openapi::{
    Resource,
    api::{
        apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec},
        core::v1::{PodTemplateSpec, ReplicationController},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::{
    Workload,
    made::{Made, Surroundings},
    names,
    owned::{OwnedPod, TEMPLATE_HASH, controller, refers},
    rollout::{Rollout, RolloutPod, Strategy},
    template,
};

/// The revision of a Deployment's template.
const REVISION: &str = "deployment.kubernetes.io/revision";

pub(crate) fn of_deployment(
    deployment: &Deployment,
    workloads: &[Workload],
    around: Surroundings<'_>,
    taken: &mut BTreeSet<String>,
) -> Made {
    let spec = &deployment.spec;
    let sets: Vec<&ReplicaSet> = replica_sets(workloads).filter(|set| is_of(set, &deployment.metadata)).collect();
    let is_known = |pod: &OwnedPod| sets.iter().any(|set| pod.is_of(ReplicaSet::KIND, &set.metadata));
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let is_own = |pod: &&OwnedPod| {
        let hash = pod.template_hash.as_deref().unwrap_or_default();
        pod.owner.kind == ReplicaSet::KIND
            && Some(&pod.namespace) == deployment.metadata.namespace.as_ref()
            && (is_known(pod) || pod.outdated_by.as_deref() == Some(name) || pod.owner.name == format!("{name}-{hash}"))
    };
    // `sync` in `pkg/controller/deployment/sync.go` scales the ReplicaSets of a paused Deployment, and creates none.
    if spec.paused.unwrap_or(false) && sets.is_empty() && !around.pods.iter().any(|pod| is_own(&pod)) {
        return Made { is_paused: true, ..Made::default() };
    }
    let present = sets.iter().copied().find(|set| has_template(set, &spec.template));
    let newest = || sets.iter().copied().max_by_key(|set| revision(set));
    // The pods of the other ReplicaSets are those of a rollout in progress.
    let is_of_other = |pod: &OwnedPod| {
        let mut others =
            sets.iter().filter(|set| present.is_some_and(|present| present.metadata.uid != set.metadata.uid));
        others.any(|set| pod.is_of(ReplicaSet::KIND, &set.metadata))
    };
    let (old, pods): (Vec<&OwnedPod>, Vec<&OwnedPod>) =
        around.pods.iter().filter(is_own).partition(|pod| pod.is_outdated() || is_of_other(pod));
    let old: Vec<&OwnedPod> = old.into_iter().filter(|pod| pod.is_active()).collect();
    let strategy = Strategy::of_deployment(spec);
    if strategy == Strategy::Paused && !old.is_empty() {
        let pods = old.into_iter().map(RolloutPod::of_old).collect();
        return Made { rollout: Some(Rollout { strategy, pods, new: Vec::new() }), ..Made::default() };
    }
    let (set, replica_set) = match present.or_else(newest) {
        Some(set) => (set.clone(), None),
        None => {
            let hash = pods.iter().find_map(|pod| pod.template_hash.clone());
            let set = replica_set(deployment, &hash.unwrap_or_else(|| names::hash(&spec.template)));
            (set.clone(), Some(set))
        }
    };
    let Some(template) = &set.spec.template else { return Made::default() };
    let made = fill::<ReplicaSet>(template, &set.metadata, spec.replicas, &pods, taken);
    Made { replica_set, ..roll_out(strategy, spec.replicas, old, &pods, made) }
}

/// The replacement of pods of an old template. A changed number of replicas deletes pods of the old template first.
///
/// Source: `isScalingEvent` and `scale` in `pkg/controller/deployment/sync.go`.
fn roll_out(strategy: Strategy, replicas: Option<i32>, old: Vec<&OwnedPod>, current: &[&OwnedPod], made: Made) -> Made {
    if old.is_empty() {
        return made;
    }
    let wanted = usize::try_from(replicas.unwrap_or(1)).unwrap_or(0);
    let surplus = old.len().saturating_sub(wanted);
    let mut order = first_to_go(old);
    let surplus: Vec<String> = order.by_ref().take(surplus).map(OwnedPod::key).collect();
    let active = current.iter().copied().filter(|pod| pod.is_active());
    let pods = order.map(RolloutPod::of_old).chain(active.map(RolloutPod::of)).collect();
    let rollout = Some(Rollout { strategy, pods, new: made.pods });
    Made { pods: Vec::new(), surplus: surplus.into_iter().chain(made.surplus).collect(), rollout, ..Made::default() }
}

/// The pods of a ReplicaSet; none if it belongs to a Deployment in the input.
pub(crate) fn of_replica_set(
    set: &ReplicaSet,
    workloads: &[Workload],
    around: Surroundings<'_>,
    taken: &mut BTreeSet<String>,
) -> Made {
    let mut deployments = workloads.iter().filter_map(|workload| match workload {
        Workload::Deployment(deployment) => Some(deployment),
        _ => None,
    });
    if deployments.any(|deployment| is_of(set, &deployment.metadata)) {
        return Made::default();
    }
    let spec = &set.spec;
    let Some(template) = &spec.template else { return Made::default() };
    let pods = owned(ReplicaSet::KIND, &set.metadata, around);
    fill::<ReplicaSet>(template, &set.metadata, spec.replicas, &pods, taken)
}

pub(crate) fn of_replication_controller(
    set: &ReplicationController,
    around: Surroundings<'_>,
    taken: &mut BTreeSet<String>,
) -> Made {
    let Some(spec) = &set.spec else { return Made::default() };
    let Some(template) = &spec.template else { return Made::default() };
    let pods = owned(ReplicationController::KIND, &set.metadata, around);
    fill::<ReplicationController>(template, &set.metadata, spec.replicas, &pods, taken)
}

/// The pods of an owner.
pub(crate) fn owned<'a>(kind: &str, metadata: &ObjectMeta, around: Surroundings<'a>) -> Vec<&'a OwnedPod> {
    around.pods.iter().filter(|pod| pod.is_of(kind, metadata)).collect()
}

/// The pods to create or to delete for a number of replicas.
fn fill<Owner: Resource>(
    template: &PodTemplateSpec,
    owner: &ObjectMeta,
    replicas: Option<i32>,
    pods: &[&OwnedPod],
    taken: &mut BTreeSet<String>,
) -> Made {
    let wanted = usize::try_from(replicas.unwrap_or(1)).unwrap_or(0);
    let active: Vec<&OwnedPod> = pods.iter().copied().filter(|pod| pod.is_active()).collect();
    let namespace = owner.namespace.as_deref().unwrap_or_default();
    let base = format!("{}-", owner.name.as_deref().unwrap_or_default());
    let missing = active.len()..wanted;
    let pod = |number| template::pod::<Owner>(template, owner, names::drawn(namespace, &base, number, taken));
    let pods = missing.map(pod).collect();
    let surplus = first_to_go(active.clone()).take(active.len().saturating_sub(wanted)).map(OwnedPod::key).collect();
    Made { pods, surplus, ..Made::default() }
}

/// Orders pods as a controller deletes them: those without a node, the lowest deletion cost, those that share a node with the most others,
/// the youngest.
///
/// Source: `ActivePodsWithRanks`. Readiness is unknown, and ages are not compared by logarithm.
fn first_to_go(mut pods: Vec<&OwnedPod>) -> impl Iterator<Item = &OwnedPod> {
    let mut on_node: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    pods.iter().for_each(|pod| *on_node.entry(pod.node.as_deref()).or_default() += 1);
    pods.sort_by_key(|pod| {
        let mates = on_node.get(&pod.node.as_deref()).copied().unwrap_or(0);
        (pod.is_bound, pod.deletion_cost, Reverse(mates), Reverse(pod.created), pod.name.clone())
    });
    pods.into_iter()
}

fn replica_sets(workloads: &[Workload]) -> impl Iterator<Item = &ReplicaSet> {
    workloads.iter().filter_map(|workload| match workload {
        Workload::ReplicaSet(set) => Some(set),
        _ => None,
    })
}

fn is_of(set: &ReplicaSet, deployment: &ObjectMeta) -> bool {
    set.metadata.namespace == deployment.namespace
        && controller(&set.metadata).is_some_and(|owner| refers(owner, Deployment::KIND, deployment))
}

fn revision(set: &ReplicaSet) -> i64 {
    let annotation = set.metadata.annotations.as_ref().and_then(|annotations| annotations.get(REVISION));
    annotation.and_then(|revision| revision.parse().ok()).unwrap_or(0)
}

/// Source: `EqualIgnoreHash`.
fn has_template(set: &ReplicaSet, template: &PodTemplateSpec) -> bool {
    let Some(mut own) = set.spec.template.clone() else { return false };
    if let Some(metadata) = &mut own.metadata {
        metadata.labels.iter_mut().for_each(|labels| _ = labels.remove(TEMPLATE_HASH));
    }
    own == *template
}

/// The ReplicaSet of a Deployment's template.
fn replica_set(deployment: &Deployment, hash: &str) -> ReplicaSet {
    let spec = deployment.spec.clone();
    let (mut template, mut selector) = (spec.template, spec.selector);
    template::label(template.metadata.get_or_insert_default(), TEMPLATE_HASH, hash);
    selector.match_labels.get_or_insert_default().insert(TEMPLATE_HASH.to_owned(), hash.to_owned());
    let mut metadata = ObjectMeta {
        name: Some(format!("{}-{hash}", deployment.metadata.name.as_deref().unwrap_or_default())),
        namespace: deployment.metadata.namespace.clone(),
        labels: template.metadata.as_ref().and_then(|metadata| metadata.labels.clone()),
        owner_references: Some(vec![template::reference::<Deployment>(&deployment.metadata)]),
        ..ObjectMeta::default()
    };
    names::identify(ReplicaSet::KIND, &mut metadata);
    let spec =
        ReplicaSetSpec { replicas: spec.replicas, selector, template: Some(template), ..ReplicaSetSpec::default() };
    ReplicaSet { metadata, spec, status: None }
}
