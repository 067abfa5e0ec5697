//! Previous versions of applied workloads.

use flotilla_workloads::Workload;
use serde_json::Value;

use super::Loader;
use crate::{
    decode::decode,
    kinds::{self, Kind},
    place::InputPosition,
};

impl Loader<'_> {
    /// Keeps an object that an edit has dropped if it is the previous version of a workload that replaces its pods.
    pub(super) fn drop_previous(&mut self, kind: Kind, value: Value, place: InputPosition) {
        if !self.edit.as_mut().is_some_and(|edit| edit.is_previous()) {
            return;
        }
        let workload = match kind {
            Kind::Workload(kinds::Workload::Deployment) => {
                decode(value, &place, self.problems).map(Workload::Deployment)
            }
            Kind::Workload(kinds::Workload::DaemonSet) => decode(value, &place, self.problems).map(Workload::DaemonSet),
            Kind::StatefulSet => decode(value, &place, self.problems).map(Workload::StatefulSet),
            Kind::ReplicaSet => decode(value, &place, self.problems).map(Workload::ReplicaSet),
            _ => None,
        };
        if let Some(workload) = workload {
            self.gatherer.add_previous(workload, place, self.problems);
        }
    }
}
