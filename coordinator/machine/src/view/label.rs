//! kube-scheduler's labels of events, for metrics.
//!
//! Knows: which event each of ours is to kube-scheduler. Must not know: what becomes of one.
//!
//! Whether an object is new is told by whether there are more of its kind after the event, which costs no look-up. Of an
//! update of a node or a pod kube-scheduler's label says what changed; here it says only that something did.

use flotilla_framework::extension::labels;

use crate::{event::Event, machine::Machine};

/// What will tell the label once the event is taken in.
pub(crate) enum Label {
    None,
    Is(&'static str),
    /// The first where there are more pods than so many, else the second.
    Pod(usize, [&'static str; 2]),
    Node(usize),
}

impl Label {
    /// Of an event that is about to be taken in.
    pub(crate) fn before(machine: &Machine, event: &Event) -> Self {
        match event {
            // A pod that gets its node is a new one among those that have.
            Event::PodApplied(pod) if pod.node_name.is_some() => match machine.pods.get(&pod.uid) {
                Some(known) if known.info.node_name.is_some() => Self::Is("AssignedPodUpdate"),
                _ => Self::Is("AssignedPodAdd"),
            },
            Event::PodApplied(pod) if machine.profile_index(&pod.scheduler_name).is_some() => {
                Self::Pod(machine.pods.len(), ["UnscheduledPodAdd", "UnscheduledPodUpdate"])
            }
            Event::PodDeleted { uid } => match machine.pods.get(uid) {
                Some(pod) if pod.info.node_name.is_some() => Self::Is("AssignedPodDelete"),
                Some(_) => Self::Is("UnscheduledPodDelete"),
                None => Self::None,
            },
            Event::NodeApplied(_) => Self::Node(machine.judge.cache().nodes.len()),
            Event::NodeDeleted { .. } => Self::Is("NodeDelete"),
            Event::StorageApplied(object) => {
                let key = object.key();
                let is_new = machine.judge.cache().storage.objects().get(&key).is_none();
                Self::Is(labels::of_storage(key.kind)[usize::from(!is_new)])
            }
            Event::StorageDeleted(key) => Self::Is(labels::of_storage(key.kind)[2]),
            _ => Self::None,
        }
    }

    /// The label, now that the event is taken in.
    pub(crate) fn after(self, machine: &Machine) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Is(label) => Some(label),
            Self::Pod(before, [added, updated]) => Some(if machine.pods.len() > before { added } else { updated }),
            Self::Node(before) => {
                Some(if machine.judge.cache().nodes.len() > before { "NodeAdd" } else { "NodeUpdate" })
            }
        }
    }
}
