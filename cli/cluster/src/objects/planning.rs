//! Adds workloads.

use flotilla_workloads::Workload;

use super::Gatherer;
use crate::{
    place::InputPosition,
    problem::Problems,
    workloads::{self, Planned},
};

impl Gatherer {
    /// Creates no pods for workloads, because the cluster has its own controllers.
    pub fn without_workloads(mut self) -> Self {
        self.workloads.are_left = true;
        self
    }

    /// Adds a workload; the caller has claimed its name.
    pub(crate) fn add_workload(&mut self, mut workload: Workload, place: InputPosition, problems: &mut Problems) {
        if let Some(text) = workloads::mismatch(&workload) {
            problems.error(place.keys(&["spec", "template", "metadata", "labels"]), text);
        } else if let Some((field, text)) = workloads::negative(&workload) {
            problems.error(place.keys(&field), text);
        } else if !self.workloads.are_left {
            workload.identify();
            self.workloads.see_owner(workload.kind(), workload.metadata());
            self.workloads.workloads.push(Planned { workload, place, origin: None });
        }
    }

    /// Adds the workloads that the controller of a custom resource would create.
    pub(crate) fn add_planned(&mut self, planned: Vec<Planned>) {
        if !self.workloads.are_left {
            let identified = planned.into_iter().map(|mut one| {
                one.workload.identify();
                one
            });
            self.workloads.workloads.extend(identified);
        }
    }
}
