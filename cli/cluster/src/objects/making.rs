//! Adds the pods of workloads as if they were in the input.

use flotilla_workloads::{Surroundings, Workload};
use k8s_openapi::{api::core::v1::PersistentVolumeClaim, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use super::{Draft, Gatherer};
use crate::{
    place::InputPosition,
    problem::Problems,
    workloads::{self, Planned},
};

impl Gatherer {
    /// Creates the pods that controllers would create.
    pub(super) fn make_pods(&mut self, problems: &mut Problems) -> workloads::Summary {
        let mut input = std::mem::take(&mut self.workloads);
        input.without_existing();
        let Some(most) = input.most_pods(self.nodes.len() + self.others.len(), problems) else {
            return workloads::Summary::default();
        };
        let workloads::Workloads { workloads, previous, mut pods, class, are_left, .. } = input;
        let mut summary = workloads::Summary::new(self.defaulted);
        self.workloads.class = class;
        self.progress.begin(most);
        let replaced = self.make_previous(previous, &pods, &mut summary, problems);
        for pod in pods.iter_mut().filter(|_| !self.facts.outdated.is_empty()) {
            if let Some(workload) = self.facts.outdated.get(&pod.key()) {
                pod.outdate(workload.clone());
            }
        }
        pods.extend(replaced);
        let (mut objects, mut places) = (Vec::new(), Vec::new());
        for Planned { workload, place, origin } in workloads {
            if origin.as_ref().is_some_and(|origin| origin.selects) {
                self.add_stand_in(&workload, &place, problems);
            }
            objects.push(workload);
            places.push((place, origin));
        }
        let nodes: Vec<_> = self.nodes.iter().chain(&self.others).cloned().collect();
        let made = flotilla_workloads::make(&objects, Surroundings { pods: &pods, nodes: &nodes });
        self.facts.see_scales(&objects);
        for ((workload, (place, origin)), mut made) in objects.iter().zip(&places).zip(made) {
            self.admission.workload = summary.add(workload, origin.as_ref(), &made);
            let rollout = self.facts.add_rollout(workload, &made);
            origin.iter().for_each(|origin| origin.own(workload, &mut made));
            if let Some(set) = made.replica_set.take() {
                self.facts.see_replica_set(&set.metadata);
                self.add_selecting(set, place, problems);
            }
            let claims = self.add_claims(made.claims, place, problems);
            let place = place.keys(workloads::template(workload));
            let (errors, mut new) = (problems.error_count(), Vec::new());
            for pod in made.pods {
                // A terminated pod frees its name; any other pod keeps it.
                self.forget(&pod.metadata);
                if self.knows("Pod", &pod.metadata) {
                    continue;
                }
                new.push(workloads::key(&pod.metadata));
                self.add_pod(pod, place.clone(), problems);
                self.progress.advance();
                if problems.error_count() > errors {
                    // All other pods of the workload would have the same error.
                    break;
                }
            }
            self.facts.add_sequence(workloads::title(workload, origin.as_ref()), &made.order, &new, &claims);
            for (index, pod) in made.rollout.into_iter().flat_map(|rollout| rollout.new).enumerate() {
                let (name, later) = (workloads::key(&pod.metadata), rollout.map(|rollout| (rollout, index)));
                self.add_named_pod(pod, &name, place.clone(), later, problems);
                self.progress.advance();
                if problems.error_count() > errors {
                    break;
                }
            }
        }
        self.admission.workload = None;
        self.workloads.are_left = are_left;
        summary
    }

    /// Creates the claims of a StatefulSet that the input lacks.
    pub(super) fn add_claims(
        &mut self,
        claims: Vec<PersistentVolumeClaim>,
        place: &InputPosition,
        problems: &mut Problems,
    ) -> Vec<String> {
        let mut added = Vec::new();
        for mut claim in claims {
            if self.knows("PersistentVolumeClaim", &claim.metadata) {
                continue;
            }
            added.push(workloads::key(&claim.metadata));
            workloads::fill_claim(&mut claim, self.workloads.class.as_ref());
            self.add_storage(claim, &place.keys(&["spec", "volumeClaimTemplates"]), problems);
        }
        added
    }

    /// Creates the claims of ephemeral volumes that the input lacks.
    ///
    /// Source: `pkg/controller/volume/ephemeral/controller.go`.
    pub(super) fn make_ephemeral_claims(&mut self, problems: &mut Problems) {
        for (mut claim, place) in std::mem::take(&mut self.ephemeral) {
            if !self.knows("PersistentVolumeClaim", &claim.metadata) {
                workloads::fill_claim(&mut claim, self.workloads.class.as_ref());
                self.add_storage(claim, &place.keys(&["spec", "volumes"]), problems);
            }
        }
    }

    /// Adds the selector of a workload that the controller of a custom resource would create.
    fn add_stand_in(&mut self, workload: &Workload, place: &InputPosition, problems: &mut Problems) {
        match workload.clone() {
            Workload::ReplicaSet(set) => _ = self.add_selecting(set, place, problems),
            Workload::ReplicationController(set) => _ = self.add_selecting(set, place, problems),
            Workload::StatefulSet(set) => _ = self.add_selecting(set, place, problems),
            _ => {}
        }
    }

    pub(super) fn knows(&self, kind: &'static str, metadata: &ObjectMeta) -> bool {
        self.names.contains_key(&(kind, workloads::key(metadata)))
    }

    pub(super) fn forget(&mut self, metadata: &ObjectMeta) {
        let key = workloads::key(metadata);
        let is_same = |draft: &Draft| draft.info.finished && draft.info.key() == key;
        if self.names.contains_key(&("Pod", key.clone()))
            && let Some(at) = self.pods.iter().position(is_same)
        {
            let draft = self.pods.remove(at);
            self.uids.remove(&*draft.info.uid);
            self.names.remove(&("Pod", key));
        }
    }
}
