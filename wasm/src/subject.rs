//! A class under arguments, and errors of its attempts.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use flotilla_framework::{extension::MAX_NODE_SCORE, status::Refusal};

use crate::{
    args::NodeField,
    error::{Fault, FaultKind},
    exports::Export,
    instance::{Answer, Instance, Status},
    module::Module,
    state::Setting,
    tally::Tally,
};

#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) plugin: &'static str,
    pub(crate) tally: &'static Tally,
    pub(crate) module: Arc<Module>,
    pub(crate) setting: Arc<Setting>,
    pub(crate) pod: Arc<[u8]>,
    pub(crate) fields: Arc<[NodeField]>,
    pub(crate) is_pre_filtered: bool,
}

/// The plugin and its table's tally, which exist without a subject.
pub(crate) type Subjectless = (&'static str, &'static Tally);

impl Subject {
    /// An instance ready to filter or score nodes, and the result of `prescore`.
    pub(crate) fn start(&self, scores: bool) -> Result<(Instance, Answer), Fault> {
        self.counted(self.try_start(scores))
    }

    fn try_start(&self, scores: bool) -> Result<(Instance, Answer), Fault> {
        let mut instance = self.module.start(&self.setting, &self.pod)?;
        let mut answer = Answer { status: Status::Success, reason: String::new() };
        if self.is_pre_filtered {
            // PreFilter was evaluated before; only its state is needed.
            instance.pre_filter()?;
        }
        if scores && self.module.exports().has(Export::PreScore) {
            answer = instance.pre_score()?;
        }
        Ok((instance, answer))
    }

    pub(crate) fn pre_filter(&self) -> Result<(Answer, Option<Vec<String>>), Fault> {
        let asked = self.module.start(&self.setting, &self.pod).and_then(|mut instance| instance.pre_filter());
        let asked = self.counted(asked);
        if let Ok((Answer { status: Status::Error, .. }, _)) = &asked {
            self.tally.count(self.plugin, FaultKind::Status);
        }
        asked
    }

    /// Labels of events that requeue pods; none for any event.
    pub(crate) fn events(&self) -> Result<Vec<&'static str>, Fault> {
        let mut instance = self.module.start(&self.setting, &self.pod)?;
        if let Some(description) = self.module.description() {
            let kept = description.events.iter().map(|event| interned(event));
            return Ok(kept.collect());
        }
        if !self.module.exports().has(Export::Enqueue) {
            return Ok(Vec::new());
        }
        Ok(labels(&instance.enqueue()?))
    }

    pub(crate) fn counted<T>(&self, asked: Result<T, Fault>) -> Result<T, Fault> {
        asked.inspect_err(|fault| self.tally.count(self.plugin, fault.kind))
    }
}

/// The error of an attempt with a failed filter.
///
/// Source: `RunFilterPlugins` in `pkg/scheduler/framework/runtime/framework.go`.
pub(crate) fn filter_error(tally: &Tally, plugin: &str, text: &str) -> Refusal {
    Refusal::error(tally.texts().number(&format!("running {plugin:?} filter plugin: {text}")))
}

/// The error of an attempt with a failed score.
///
/// Source: `RunScorePlugins`, as above.
pub(crate) fn score_error(tally: &Tally, plugin: &str, text: &str) -> Refusal {
    let text = format!("running Score plugins: plugin {plugin:?} failed with: {text}");
    Refusal::error(tally.texts().number(&text))
}

/// Source: `RunScorePlugins`, as above.
pub(crate) fn out_of_range(plugin: &str, score: i64) -> String {
    format!(
        "applying score defaultWeights on Score plugins: plugin {plugin:?} returns an invalid score {score}, it should in \
         the range of [0, {MAX_NODE_SCORE}] after normalizing"
    )
}

/// kube-scheduler's labels of events of these kinds and actions; none for a wildcard.
///
/// Source: `guest/api/clusterevent.go` of kubernetes-sigs/kube-scheduler-wasm-extension.
fn labels(events: &[(u32, u32)]) -> Vec<&'static str> {
    const OTHERS: [(u32, [&str; 3]); 8] = [
        (2, ["PersistentVolumeAdd", "PersistentVolumeDelete", "PersistentVolumeUpdate"]),
        (3, ["PersistentVolumeClaimAdd", "PersistentVolumeClaimDelete", "PersistentVolumeClaimUpdate"]),
        (5, ["ResourceClaimAdd", "ResourceClaimDelete", "ResourceClaimUpdate"]),
        (6, ["StorageClassAdd", "StorageClassDelete", "StorageClassUpdate"]),
        (7, ["CSINodeAdd", "CSINodeDelete", "CSINodeUpdate"]),
        (8, ["CSIDriverAdd", "CSIDriverDelete", "CSIDriverUpdate"]),
        (9, ["CSIStorageCapacityAdd", "CSIStorageCapacityDelete", "CSIStorageCapacityUpdate"]),
        (0, ["AssignedPodAdd", "AssignedPodDelete", "AssignedPodUpdate"]),
    ];
    const NODE: [&str; 6] = [
        "NodeAdd",
        "NodeDelete",
        "NodeUpdateNodeAllocatable",
        "NodeUpdateNodeLabel",
        "NodeUpdateNodeTaint",
        "NodeUpdate",
    ];
    let mut labels = BTreeSet::new();
    for &(kind, actions) in events {
        let on = |bit: usize| actions & (1 << bit) != 0;
        if kind == 1 {
            labels.extend(NODE.into_iter().enumerate().filter(|(bit, _)| on(*bit)).map(|(_, label)| label));
        } else if let Some((_, [add, delete, update])) = OTHERS.iter().find(|(known, _)| *known == kind) {
            labels.extend(on(0).then_some(*add));
            labels.extend(on(1).then_some(*delete));
            labels.extend((actions >> 2 != 0).then_some(*update));
            labels.extend((kind == 0 && actions >> 2 != 0).then_some("TargetPodUpdate"));
        } else {
            // A wildcard or an obsolete kind.
            return Vec::new();
        }
    }
    labels.into_iter().collect()
}

/// Leaks an event label, once per distinct text.
fn interned(text: &str) -> &'static str {
    static ALL: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut known = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.get(text).copied() {
        return known;
    }
    let text: &'static str = text.to_owned().leak();
    known.insert(text);
    text
}

#[cfg(test)]
mod tests {
    use super::labels;

    #[test]
    fn events_of_a_guest_are_kube_schedulers_labels() {
        assert_eq!(labels(&[(1, 1)]), ["NodeAdd"]);
        assert_eq!(
            labels(&[(1, 0b1100), (0, 2)]),
            ["AssignedPodDelete", "NodeUpdateNodeAllocatable", "NodeUpdateNodeLabel"]
        );
        assert_eq!(labels(&[(7, 0b111)]), ["CSINodeAdd", "CSINodeDelete", "CSINodeUpdate"]);
        assert!(labels(&[(1, 1), (10, 0b11_1111)]).is_empty(), "a wildcard is any event");
        assert!(labels(&[]).is_empty());
    }
}
