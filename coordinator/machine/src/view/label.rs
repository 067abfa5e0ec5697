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

impl Machine {
    /// Reads the data for an event's label before it is handled.
    pub(crate) fn label_before(&self, event: &Event) -> Label {
        match event {
            // A pod that gets its node counts as added among the assigned pods.
            Event::PodApplied(pod) if pod.node_name.is_some() => match self.pods.get(&pod.uid) {
                Some(known) if known.info.node_name.is_some() => Label::Is("AssignedPodUpdate"),
                _ => Label::Is("AssignedPodAdd"),
            },
            Event::PodApplied(pod) if self.profile_index(&pod.scheduler_name).is_some() => {
                Label::Pod(self.pods.len(), ["UnscheduledPodAdd", "UnscheduledPodUpdate"])
            }
            Event::PodDeleted { uid } => match self.pods.get(uid) {
                Some(pod) if pod.info.node_name.is_some() => Label::Is("AssignedPodDelete"),
                Some(_) => Label::Is("UnscheduledPodDelete"),
                None => Label::None,
            },
            Event::NodeApplied(_) => Label::Node(self.judge.cache().nodes.len()),
            Event::NodeDeleted { .. } => Label::Is("NodeDelete"),
            Event::ObjectApplied(object) => {
                let key = object.key();
                let [added, updated, _] = key.labels();
                Label::Is(if self.judge.cache().objects.contains(&key) { updated } else { added })
            }
            Event::ObjectDeleted(key) => Label::Is(key.labels()[2]),
            _ => Label::None,
        }
    }

    /// The label, after the event.
    pub(crate) fn label_after(&self, label: Label) -> Option<&'static str> {
        match label {
            Label::None => None,
            Label::Is(label) => Some(label),
            Label::Pod(before, [added, updated]) => Some(if self.pods.len() > before { added } else { updated }),
            Label::Node(before) => Some(if self.judge.cache().nodes.len() > before { "NodeAdd" } else { "NodeUpdate" }),
        }
    }
}
