//! PodGroups of the input, and which pods they gate.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    admission,
    class::PodInfo,
    ingest,
    pod_group::{self, PodGroup},
    profile::Profile,
    registry::Registry,
};
use k8s_openapi::api::scheduling::v1beta1 as api;

use super::{Cluster, defaults, objects::Gatherer, place::InputPosition, problem::Problems};

/// The feature gate of pod groups.
pub const GATE: &str = "GenericWorkload";

pub(super) const KIND: &str = "PodGroup";
pub(super) const API_GROUP: &str = "scheduling.k8s.io/";

/// Namespace and name.
type GroupKey = (Arc<str>, Arc<str>);

/// A group before its priority class is resolved.
pub(super) struct Draft {
    group: PodGroup,
    /// The priority is in the spec.
    is_given: bool,
    class: Option<String>,
    place: InputPosition,
}

/// All groups of a cluster; empty if the feature gate is off.
#[derive(Debug, Default)]
pub struct Groups {
    counts: bool,
    objects: BTreeMap<GroupKey, Arc<PodGroup>>,
    members: BTreeMap<GroupKey, Vec<Arc<PodInfo>>>,
    /// The gate of the group: that of its first gated member by UID.
    gated: BTreeMap<GroupKey, (Arc<str>, &'static str, String)>,
}

impl Gatherer {
    pub(super) fn add_group(&mut self, mut group: api::PodGroup, place: InputPosition, problems: &mut Problems) {
        let Some(name) = self.claim(KIND, &group.metadata, true, &place, problems) else { return };
        defaults::identity(&mut group.metadata, true);
        let is_given = group.spec.priority.is_some();
        let class = group.spec.priority_class_name.take();
        match ingest::pod_group::pod_group(&group) {
            Ok(group) => {
                let class = class.filter(|class| !class.is_empty() && !is_given);
                if let Some(groups) = &mut self.groups {
                    groups.push(Draft { group, is_given, class, place });
                }
            }
            Err(error) => problems.error(place, format!("{KIND} {name:?}: {error}")),
        }
    }
}

/// Resolves priorities as the API server does.
pub(super) fn finish(
    drafts: Option<Vec<Draft>>,
    priorities: &BTreeMap<&str, (i32, bool)>,
    default: i32,
    problems: &mut Problems,
) -> Option<Vec<PodGroup>> {
    let mut groups = Vec::new();
    for Draft { mut group, is_given, class, place } in drafts? {
        match class {
            Some(class) => match priorities.get(class.as_str()) {
                Some((value, _)) => group.priority = *value,
                None => {
                    let text = format!(
                        "{KIND} {:?} has priorityClassName {class:?}, which is not in the input; expected a PriorityClass \
                         of this name",
                        group.key()
                    );
                    problems.error(place.keys(&["spec", "priorityClassName"]), text);
                }
            },
            None if !is_given => group.priority = default,
            None => {}
        }
        groups.push(group);
    }
    Some(groups)
}

impl Groups {
    /// The groups of a cluster; `profiles` gate their pods.
    pub fn new(registry: Registry, cluster: &Cluster, profiles: &[Profile]) -> Self {
        let Some(objects) = &cluster.groups else { return Self::default() };
        let mut groups = Self { counts: true, ..Self::default() };
        for object in objects {
            let key = (Arc::clone(&object.namespace), Arc::clone(&object.name));
            groups.objects.insert(key, Arc::new(object.clone()));
        }
        for pod in cluster.bound.iter().chain(&cluster.pending) {
            let Some(key) = groups.key(pod) else { continue };
            let profile = profiles.iter().find(|profile| profile.scheduler_name == pod.scheduler_name);
            if let Some(profile) = profile.filter(|_| pod.node_name.is_none())
                && let Some((plugin, message)) = admission::gate(registry, profile, pod)
                && groups.gated.get(&key).is_none_or(|(uid, ..)| *uid > pod.uid)
            {
                groups.gated.insert(key.clone(), (Arc::clone(&pod.uid), plugin, message));
            }
            groups.members.entry(key).or_default().push(Arc::clone(pod));
        }
        groups
    }

    /// Whether the feature gate is on.
    pub const fn count(&self) -> bool {
        self.counts
    }

    /// The PodGroup of a pod.
    pub fn object_of(&self, pod: &PodInfo) -> Option<&Arc<PodGroup>> {
        self.objects.get(&self.key(pod)?)
    }

    /// Whether a pod names a group.
    pub fn is_member(&self, pod: &PodInfo) -> bool {
        self.key(pod).is_some()
    }

    /// All pods of the pod's group.
    pub fn mates(&self, pod: &PodInfo) -> &[Arc<PodInfo>] {
        let mates = self.key(pod).and_then(|key| self.members.get(&key));
        mates.map_or(&[], Vec::as_slice)
    }

    /// The plugin that gates the pod's group, and its reason.
    pub fn gate(&self, pod: &PodInfo, profile: &Profile) -> Option<(&'static str, String)> {
        let key = self.key(pod)?;
        let Some(object) = self.objects.get(&key) else { return Some((pod_group::PLUGIN, pod_group::absent(&key.1))) };
        if let Some((_, plugin, message)) = self.gated.get(&key) {
            return Some((plugin, message.clone()));
        }
        let message = object.gate(&profile.plugins, self.mates(pod).len())?;
        Some((pod_group::PLUGIN, message.to_owned()))
    }

    /// Why the pods of the pod's group cannot be placed together.
    pub fn error(&self, pod: &PodInfo) -> Option<String> {
        let object = self.object_of(pod)?;
        let (standing, waiting): (Vec<_>, Vec<_>) =
            self.mates(pod).iter().map(|mate| &**mate).partition(|mate| mate.node_name.is_some());
        object.validate(waiting.into_iter().chain(standing)).err()
    }

    fn key(&self, pod: &PodInfo) -> Option<GroupKey> {
        let name = pod.scheduling_group.as_ref().filter(|_| self.counts)?;
        Some((Arc::clone(&pod.class.namespace), Arc::clone(name)))
    }
}
