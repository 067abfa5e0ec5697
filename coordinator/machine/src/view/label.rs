//! kube-scheduler's labels of events, for metrics.
//!
//! Knows: which event each of ours is to kube-scheduler. Must not know: what becomes of one.
//!
//! Whether an object is new is told by whether there are more of its kind after the event, which costs no look-up. Of an
//! update of a node or a pod kube-scheduler's label says what changed; here it says only that something did.

use crate::{event::Event, machine::Machine};

/// What will tell the label once the event is taken in.
pub(crate) enum Label {
    None,
    Is(&'static str),
    /// The first where there are more pods than so many, else the second.
    Pod(usize, [&'static str; 2]),
    Node(usize),
}

impl Machine {
    /// What will tell the label of an event that is about to be taken in.
    pub(crate) fn label_before(&self, event: &Event) -> Label {
        match event {
            // A pod that gets its node is a new one among those that have.
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

    /// The label, now that the event is taken in.
    pub(crate) fn label_after(&self, label: Label) -> Option<&'static str> {
        match label {
            Label::None => None,
            Label::Is(label) => Some(label),
            Label::Pod(before, [added, updated]) => Some(if self.pods.len() > before { added } else { updated }),
            Label::Node(before) => Some(if self.judge.cache().nodes.len() > before { "NodeAdd" } else { "NodeUpdate" }),
        }
    }
}
