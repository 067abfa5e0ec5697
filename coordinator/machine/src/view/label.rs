//! kube-scheduler's event labels, for metrics.
//!
//! An object is new if there are more of its kind after the event, which needs no lookup. kube-scheduler's label of an update of a node or
//! pod names the changed fields; Flotilla's does not.

use crate::{event::Event, machine::Machine};

/// Data for the label, from before the event.
pub(crate) enum Label {
    None,
    Is(&'static str),
    /// The first label if there are more pods than this, else the second.
    Pod(usize, [&'static str; 2]),
    Node(usize),
}

impl Label {
    /// Reads the data for an event's label before it is handled.
    pub(crate) fn before(machine: &Machine, event: &Event) -> Self {
        match event {
            // A pod that gets its node counts as added among the assigned pods.
            Event::PodApplied(pod) if pod.node_name.is_some() => match machine.pods.get(&pod.uid) {
                Some(known) if known.info.node_name.is_some() => Self::Is("AssignedPodUpdate"),
                _ => Self::Is("AssignedPodAdd"),
            },
            Event::PodApplied(pod) if machine.settings.profile_index(&pod.scheduler_name).is_some() => {
                Self::Pod(machine.pods.len(), ["UnscheduledPodAdd", "UnscheduledPodUpdate"])
            }
            Event::PodDeleted { uid } => match machine.pods.get(uid) {
                Some(pod) if pod.info.node_name.is_some() => Self::Is("AssignedPodDelete"),
                Some(_) => Self::Is("UnscheduledPodDelete"),
                None => Self::None,
            },
            Event::NodeApplied(_) => Self::Node(machine.judge.cache().nodes().len()),
            Event::NodeDeleted { .. } => Self::Is("NodeDelete"),
            Event::ObjectApplied(object) => {
                let key = object.key();
                let [added, updated, _] = key.labels();
                Self::Is(if machine.judge.cache().objects().contains(&key) { updated } else { added })
            }
            Event::ObjectDeleted(key) => Self::Is(key.labels()[2]),
            _ => Self::None,
        }
    }

    /// The label, after the event.
    pub(crate) fn after(self, machine: &Machine) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Is(label) => Some(label),
            Self::Pod(before, [added, updated]) => Some(if machine.pods.len() > before { added } else { updated }),
            Self::Node(before) => {
                Some(if machine.judge.cache().nodes().len() > before { "NodeAdd" } else { "NodeUpdate" })
            }
        }
    }
}
