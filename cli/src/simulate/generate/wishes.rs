//! Clusters with topology spread and pod affinity, after the workloads of scheduler_perf.

use k8s_openapi::{
    api::{
        apps::v1::{ReplicaSet, ReplicaSetSpec},
        core::v1 as api,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference},
};

use super::{ZONE, ZONES, make_node, make_pod, name, namespace, texts};
use crate::simulate::args::{Generate, Kind};

const HOST: &str = "kubernetes.io/hostname";

const APP: &str = "app";

/// The default number of pods per application.
const PODS_OF_A_CLASS: usize = 10;

/// CPU and memory requests of applications; the first is that of scheduler_perf.
const SIZES: [(&str, &str); 4] = [("100m", "500Mi"), ("50m", "64Mi"), ("250m", "1Gi"), ("200m", "256Mi")];

#[derive(Debug, Clone, Copy)]
pub(super) struct Applications<'a> {
    words: &'a Generate,
    count: usize,
}

/// A node of scheduler_perf's `node-default.yaml`, in one of three zones, with the hostname label that every kubelet sets.
pub(super) fn node(index: usize, count: usize) -> api::Node {
    let own = name("node", index, count);
    let labels = [(ZONE, ZONES[index % ZONES.len()]), (HOST, own.as_str())];
    make_node(&own, &labels, &[("cpu", "4"), ("memory", "32Gi"), ("pods", "110")])
}

impl<'a> Applications<'a> {
    pub(super) fn new(words: &'a Generate) -> Self {
        let count = words.classes.unwrap_or(words.pods / PODS_OF_A_CLASS).clamp(1, words.pods.max(1));
        Self { words, count }
    }

    fn kind(&self, application: usize) -> Kind {
        let kinds = self.words.shape.kinds();
        self.words.kind.unwrap_or_else(|| kinds[application % kinds.len()])
    }

    fn name(&self, application: usize) -> String {
        name("app", application, self.count)
    }

    pub(super) fn services(self) -> impl Iterator<Item = api::Service> {
        (0..self.count).filter(move |&application| self.kind(application) == Kind::Service).map(move |application| {
            let name = self.name(application);
            let selector = Some(texts(&[(APP, &name)]));
            api::Service {
                metadata: ObjectMeta {
                    name: Some(name),
                    namespace: namespace(self.words, application),
                    ..ObjectMeta::default()
                },
                spec: Some(api::ServiceSpec { selector, ..api::ServiceSpec::default() }),
                status: None,
            }
        })
    }

    pub(super) fn replica_sets(self) -> impl Iterator<Item = ReplicaSet> {
        (0..self.count).filter(move |&application| self.kind(application) == Kind::ReplicaSet).map(move |application| {
            let name = self.name(application);
            let selector = LabelSelector { match_labels: Some(texts(&[(APP, &name)])), match_expressions: None };
            ReplicaSet {
                metadata: ObjectMeta {
                    name: Some(name),
                    namespace: namespace(self.words, application),
                    ..ObjectMeta::default()
                },
                spec: ReplicaSetSpec { selector, ..ReplicaSetSpec::default() },
                status: None,
            }
        })
    }

    /// A pod. Pods of one application are consecutive, as in a rollout.
    pub(super) fn pod(self, index: usize) -> api::Pod {
        let application = index * self.count / self.words.pods.max(1);
        let kind = self.kind(application);
        let mut label = self.name(application);
        if kind == Kind::ApartZone {
            // Anti-affinity groups have as many pods as there are zones; more would fit nowhere.
            label = format!("{label}-{}", index / ZONES.len());
        }
        let (cpu, memory) = SIZES[application % SIZES.len()];
        let mut pod = make_pod(&name("pod", index, self.words.pods), &[("cpu", cpu), ("memory", memory)]);
        pod.metadata.namespace = namespace(self.words, application);
        pod.metadata.labels = Some(texts(&[(APP, &label)]));
        if kind == Kind::ReplicaSet {
            pod.metadata.owner_references = Some(vec![owner(label)]);
        } else if let Some(spec) = &mut pod.spec {
            wish(spec, kind, selecting(&label));
        }
        pod
    }
}

fn owner(name: String) -> OwnerReference {
    OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        uid: format!("{name}-uid"),
        name,
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn selecting(label: &str) -> LabelSelector {
    LabelSelector { match_labels: Some(texts(&[(APP, label)])), match_expressions: None }
}

/// Adds the constraint of a kind toward the pods that `meant` selects.
fn wish(spec: &mut api::PodSpec, kind: Kind, meant: LabelSelector) {
    let term = |key: &str| api::PodAffinityTerm {
        label_selector: Some(meant.clone()),
        topology_key: key.to_owned(),
        ..api::PodAffinityTerm::default()
    };
    let preferred = |key: &str| vec![api::WeightedPodAffinityTerm { weight: 1, pod_affinity_term: term(key) }];
    let near = |required, preferred| api::PodAffinity {
        required_during_scheduling_ignored_during_execution: required,
        preferred_during_scheduling_ignored_during_execution: preferred,
    };
    let apart = |required, preferred| api::PodAntiAffinity {
        required_during_scheduling_ignored_during_execution: required,
        preferred_during_scheduling_ignored_during_execution: preferred,
    };
    let affinity =
        |near, apart| Some(api::Affinity { pod_affinity: near, pod_anti_affinity: apart, ..api::Affinity::default() });
    let constraint = |when: &str| api::TopologySpreadConstraint {
        max_skew: 5,
        topology_key: ZONE.to_owned(),
        when_unsatisfiable: when.to_owned(),
        label_selector: Some(meant.clone()),
        ..api::TopologySpreadConstraint::default()
    };
    match kind {
        Kind::Service | Kind::ReplicaSet => {}
        Kind::Zone => spec.topology_spread_constraints = Some(vec![constraint("DoNotSchedule")]),
        Kind::ZoneSoft => spec.topology_spread_constraints = Some(vec![constraint("ScheduleAnyway")]),
        Kind::ApartHost => spec.affinity = affinity(None, Some(apart(Some(vec![term(HOST)]), None))),
        Kind::ApartZone => spec.affinity = affinity(None, Some(apart(Some(vec![term(ZONE)]), None))),
        Kind::NearZone => spec.affinity = affinity(Some(near(Some(vec![term(ZONE)]), None)), None),
        Kind::PreferNear => spec.affinity = affinity(Some(near(None, Some(preferred(HOST)))), None),
        Kind::PreferApart => spec.affinity = affinity(None, Some(apart(None, Some(preferred(HOST))))),
    }
}
