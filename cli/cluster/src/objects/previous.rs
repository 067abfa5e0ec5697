//! The pods of workloads that get another template.

use flotilla_workloads::{OwnedPod, Surroundings, Workload};

use super::Gatherer;
use crate::{
    place::InputPosition,
    problem::Problems,
    workloads::{self, Planned, Summary},
};

impl Gatherer {
    /// Adds the previous version of a workload, or one of its ReplicaSets.
    pub(crate) fn add_previous(&mut self, mut workload: Workload, place: InputPosition, problems: &mut Problems) {
        workload.identify();
        if let Workload::ReplicaSet(set) = &workload {
            self.add_selecting(set.clone(), &place, problems);
        }
        self.workloads.previous.push(Planned { workload, place, origin: None });
    }

    /// Creates the pods of the old templates that the input lacks. Returns them as outdated pods. `pods`: those of the input.
    pub(super) fn make_previous(
        &mut self,
        previous: Vec<Planned>,
        pods: &[OwnedPod],
        summary: &mut Summary,
        problems: &mut Problems,
    ) -> Vec<OwnedPod> {
        if previous.is_empty() {
            return Vec::new();
        }
        let nodes: Vec<_> = self.nodes.iter().chain(&self.others).cloned().collect();
        let (objects, places): (Vec<Workload>, Vec<InputPosition>) =
            previous.into_iter().map(|planned| (planned.workload, planned.place)).unzip();
        let made = flotilla_workloads::make(&objects, Surroundings { pods, nodes: &nodes });
        let mut outdated = Vec::new();
        for ((workload, place), mut made) in objects.iter().zip(&places).zip(made) {
            // The new version of the workload decides which pods are too many, and whether it is paused.
            made.surplus.clear();
            made.is_paused = false;
            self.admission.workload = summary.add(workload, None, &made);
            if let Some(set) = made.replica_set {
                self.add_selecting(set, place, problems);
            }
            self.add_claims(made.claims, place, problems);
            let name = workload.metadata().name.clone().unwrap_or_default();
            let (place, errors) = (place.keys(workloads::template(workload)), problems.error_count());
            for pod in made.pods {
                self.forget(&pod.metadata);
                if self.knows("Pod", &pod.metadata) {
                    continue;
                }
                outdated.extend(OwnedPod::of(&pod).map(|mut owned| {
                    owned.outdate(name.clone());
                    owned
                }));
                self.add_pod(pod, place.clone(), problems);
                self.progress.advance();
                if problems.error_count() > errors {
                    break;
                }
            }
        }
        self.admission.workload = None;
        outdated
    }
}
