//! Adds the pods of workloads as if they were in the input.

use flotilla_workloads::Surroundings;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Draft, Gatherer};
use crate::{problem::Problems, workloads};

impl Gatherer {
    /// Creates the pods that controllers would create.
    pub(super) fn make_pods(&mut self, problems: &mut Problems) -> workloads::Summary {
        let workloads::Workloads { workloads, pods, class, .. } = std::mem::take(&mut self.workloads);
        let mut summary = workloads::Summary::default();
        let (objects, places): (Vec<_>, Vec<_>) = workloads.into_iter().unzip();
        let nodes: Vec<_> = self.nodes.iter().chain(&self.others).cloned().collect();
        let made = flotilla_workloads::make(&objects, Surroundings { pods: &pods, nodes: &nodes });
        for ((workload, place), made) in objects.iter().zip(&places).zip(made) {
            summary.add(workload, &made);
            if let Some(set) = made.replica_set {
                self.add_selecting(set, place, problems);
            }
            for mut claim in made.claims {
                if self.knows("PersistentVolumeClaim", &claim.metadata) {
                    continue;
                }
                workloads::fill_claim(&mut claim, class.as_ref());
                self.add_storage(claim, &place.keys(&["spec", "volumeClaimTemplates"]), problems);
            }
            let place = place.keys(workloads::template(workload));
            let errors = problems.error_count();
            for pod in made.pods {
                // A terminated pod frees its name; any other pod keeps it.
                self.forget(&pod.metadata);
                if self.knows("Pod", &pod.metadata) {
                    continue;
                }
                self.add_pod(pod, place.clone(), problems);
                if problems.error_count() > errors {
                    // All other pods of the workload would have the same error.
                    break;
                }
            }
        }
        self.workloads.class = class;
        summary
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

    fn knows(&self, kind: &'static str, metadata: &ObjectMeta) -> bool {
        self.names.contains_key(&(kind, workloads::key(metadata)))
    }

    fn forget(&mut self, metadata: &ObjectMeta) {
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
