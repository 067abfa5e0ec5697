//! Sorts pods into bound and pending ones.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use flotilla_framework::class::PodInfo;

use crate::{defaults, labels::Labels, place::InputPosition, problem::Problems};

/// The pods of the cluster.
#[derive(Default)]
pub(super) struct Sorted {
    /// The names of all nodes.
    pub(super) known: HashSet<Arc<str>>,
    pub(super) bound: Vec<Arc<PodInfo>>,
    pub(super) pending: Vec<Arc<PodInfo>>,
    /// The pods that a rollout creates: the rollout, the index among its new pods, and the pod.
    pub(super) created: Vec<(usize, usize, Arc<PodInfo>)>,
}

impl Sorted {
    /// Adds a pod, or reports why it is left out. `later`: the rollout that creates the pod, and the index among its new pods.
    pub(super) fn add(
        &mut self,
        info: PodInfo,
        later: Option<(usize, usize)>,
        place: &InputPosition,
        schedulers: &[&str],
        problems: &mut Problems,
    ) {
        match &info.node_name {
            _ if info.finished => {}
            Some(node) if self.known.contains(node) => self.bound.push(Arc::new(info)),
            Some(node) => {
                let text =
                    format!("pod {:?} is on node {node:?}, which is not in the input; it is left out", info.key());
                problems.warning(place.keys(&["spec", "nodeName"]), text);
            }
            None if info.deleting => {
                let text = format!("pod {:?} is being deleted; it is left out", info.key());
                problems.warning(place.keys(&["metadata", "deletionTimestamp"]), text);
            }
            None if !schedulers.contains(&&*info.scheduler_name) => {
                let text = other_scheduler(&info, schedulers);
                problems.warning(place.keys(&["spec", "schedulerName"]), text);
            }
            None if let Some((rollout, index)) = later => self.created.push((rollout, index, Arc::new(info))),
            // The condition is from another scheduler.
            None => self.pending.push(Arc::new(PodInfo { condition: None, ..info })),
        }
    }
}

pub(super) fn with_defaults<'a>(
    mut namespaces: BTreeMap<Arc<str>, Labels>,
    in_use: impl Iterator<Item = &'a Arc<str>>,
) -> BTreeMap<Arc<str>, Labels> {
    for name in in_use {
        if !namespaces.contains_key(name) {
            namespaces.insert(Arc::clone(name), defaults::namespace_labels(name));
        }
    }
    namespaces
}

pub(super) fn no_such_class(info: &PodInfo, class: &str, known: &BTreeMap<&str, (i32, bool)>) -> String {
    let names: Vec<&str> = known.keys().copied().collect();
    format!(
        "pod {:?} has priorityClassName {class:?}, which is not in the input; expected one of {}, or a PriorityClass of \
         this name",
        info.key(),
        names.join(", ")
    )
}

fn other_scheduler(info: &PodInfo, schedulers: &[&str]) -> String {
    format!(
        "pod {:?} asks for scheduler {:?}, and profiles are {}; it is left out",
        info.key(),
        info.scheduler_name,
        schedulers.join(", ")
    )
}
