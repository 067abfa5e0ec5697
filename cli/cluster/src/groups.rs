//! PodGroups of the input, of `scheduling.k8s.io` and `scheduling.x-k8s.io`, and which pods they gate.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    admission,
    class::PodInfo,
    ingest,
    ingest::pod_group::CoschedulingSpec,
    pod_group::{GroupApi, GroupKey, Membership, PodGroup},
    profile::Profile,
    registry::Registry,
};
use flotilla_objects::Object as _;
use k8s_openapi::{
    api::scheduling::v1beta1 as api,
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use serde_json::{Map, Value, json};

use super::{Cluster, defaults, objects::Gatherer, place::InputPosition, problem::Problems};

/// The feature gate of pod groups.
pub const GATE: &str = "GenericWorkload";

pub(super) const KIND: &str = "PodGroup";
pub(super) const API_GROUP: &str = "scheduling.k8s.io/";
/// The API group of scheduler-plugins, and its kind in messages.
const COSCHEDULING_GROUP: &str = "scheduling.x-k8s.io/";
const COSCHEDULING_KIND: &str = "PodGroup.scheduling.x-k8s.io";
const MIN_MEMBER: &str = "minMember";
const MIN_RESOURCES: &str = "minResources";

/// A group before its priority class is resolved.
pub(super) struct Draft {
    group: PodGroup,
    /// The priority is in the spec.
    is_given: bool,
    class: Option<String>,
    place: InputPosition,
}

/// All groups of a cluster; empty if the feature gate is off and no profile has the plugin Coscheduling.
#[derive(Debug, Default)]
pub struct Groups {
    membership: Membership,
    objects: BTreeMap<GroupKey, Arc<PodGroup>>,
    members: BTreeMap<GroupKey, Vec<Arc<PodInfo>>>,
    gated: BTreeMap<GroupKey, Gated>,
}

/// The gated members of a group: their number, and the gate of the first one by UID.
#[derive(Debug)]
struct Gated {
    count: usize,
    uid: Arc<str>,
    plugin: &'static str,
    message: String,
}

impl Gatherer {
    pub(super) fn add_group(&mut self, mut group: api::PodGroup, place: InputPosition, problems: &mut Problems) {
        let Some(name) = self.claim(KIND, &group.metadata, true, &place, problems) else { return };
        defaults::identity(&mut group.metadata, true);
        let is_given = group.spec.priority.is_some();
        let class = group.spec.priority_class_name.take();
        match ingest::pod_group::pod_group(&group, self.features) {
            Ok(group) => {
                let class = class.filter(|class| !class.is_empty() && !is_given);
                if let Some(groups) = &mut self.groups {
                    groups.push(Draft { group, is_given, class, place });
                }
            }
            Err(error) => problems.error(place, format!("{KIND} {name:?}: {error}")),
        }
    }

    /// Whether to read an object as a group of scheduler-plugins: a profile has the plugin Coscheduling.
    pub(super) fn reads_coscheduling(&self, fields: &Map<String, Value>) -> bool {
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        let is_group = text("kind") == KIND && text("apiVersion").starts_with(COSCHEDULING_GROUP);
        is_group && self.coscheduling.is_some()
    }

    /// Reads a group of scheduler-plugins; `fields` are those of the object.
    pub(super) fn add_coscheduling(
        &mut self,
        fields: &Map<String, Value>,
        place: InputPosition,
        problems: &mut Problems,
    ) {
        let metadata = fields.get("metadata").cloned().unwrap_or_else(|| json!({}));
        let mut metadata = match ObjectMeta::decode(metadata) {
            Ok((metadata, _)) => metadata,
            Err(error) => return problems.error(place.keys(&["metadata"]), format!("{COSCHEDULING_KIND}: {error}")),
        };
        let spec = match spec(fields.get("spec").unwrap_or(&Value::Null)) {
            Ok(spec) => spec,
            Err((field, found)) => {
                let text = format!("{COSCHEDULING_KIND}: spec.{field}: found {found}, expected {}", expected(field));
                return problems.error(place.keys(&["spec", field]), text);
            }
        };
        let Some(name) = self.claim(COSCHEDULING_KIND, &metadata, true, &place, problems) else { return };
        defaults::identity(&mut metadata, true);
        match ingest::pod_group::coscheduling(&metadata, &spec) {
            Ok(group) => self.coscheduling.iter_mut().for_each(|groups| groups.push(group.clone())),
            Err(error) => problems.error(place, format!("{COSCHEDULING_KIND} {name:?}: {error}")),
        }
    }
}

/// Reads a spec of scheduler-plugins, or returns the field with the wrong value. By hand, because derived code would make pages larger.
fn spec(spec: &Value) -> Result<CoschedulingSpec, (&'static str, &Value)> {
    let field = |name: &str| spec.get(name).filter(|value| !value.is_null());
    let number = |value: &Value| value.as_i64().and_then(|number| i32::try_from(number).ok());
    let min_member = match field(MIN_MEMBER) {
        Some(value) => Some(number(value).ok_or((MIN_MEMBER, value))?),
        None => None,
    };
    let amount = |value: &Value| match value {
        Value::String(text) => Some(Quantity(text.clone())),
        Value::Number(number) => Some(Quantity(number.to_string())),
        _ => None,
    };
    let amounts = |value: &Value| -> Option<BTreeMap<String, Quantity>> {
        value.as_object()?.iter().map(|(name, value)| Some((name.clone(), amount(value)?))).collect()
    };
    let min_resources = match field(MIN_RESOURCES) {
        Some(value) => Some(amounts(value).ok_or((MIN_RESOURCES, value))?),
        None => None,
    };
    Ok(CoschedulingSpec { min_member, min_resources })
}

fn expected(field: &str) -> &'static str {
    if field == MIN_MEMBER { "a number of pods" } else { "a mapping of resources to amounts" }
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
        let membership = Membership::new(cluster.groups.is_some(), profiles);
        if !membership.is_any() {
            return Self::default();
        }
        let mut groups = Self { membership, ..Self::default() };
        for object in cluster.pod_groups() {
            groups.objects.insert(object.group_key(), Arc::new(object.clone()));
        }
        for pod in cluster.bound.iter().chain(&cluster.pending) {
            let Some(key) = groups.key(pod) else { continue };
            let profile = profiles.iter().find(|profile| profile.scheduler_name == pod.scheduler_name);
            if let Some(profile) = profile.filter(|_| pod.node_name.is_none())
                && let Some((plugin, message)) = admission::gate(registry, profile, pod)
            {
                let known = groups.gated.remove(&key);
                let count = known.as_ref().map_or(0, |known| known.count) + 1;
                let own = Gated { count, uid: Arc::clone(&pod.uid), plugin, message };
                let first = known.filter(|known| known.uid < own.uid).map(|known| Gated { count, ..known });
                groups.gated.insert(key.clone(), first.unwrap_or(own));
            }
            groups.members.entry(key).or_default().push(Arc::clone(pod));
        }
        groups
    }

    /// Whether pods can have a PodGroup.
    pub const fn count(&self) -> bool {
        self.membership.is_any()
    }

    /// The PodGroup that a pod is preempted with: one of `scheduling.k8s.io`.
    pub fn object_as_victim(&self, pod: &PodInfo) -> Option<&Arc<PodGroup>> {
        self.object_of(pod).filter(|object| object.api == GroupApi::Kubernetes)
    }

    /// Whether a pod is preempted as part of a group.
    pub fn is_member_as_victim(&self, pod: &PodInfo) -> bool {
        self.key(pod).is_some_and(|key| key.api == GroupApi::Kubernetes)
    }

    fn object_of(&self, pod: &PodInfo) -> Option<&Arc<PodGroup>> {
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
        let Some(object) = self.objects.get(&key) else {
            return Some((key.api.plugin(), key.api.absent(&key.name)));
        };
        let members = self.mates(pod).len();
        if let Some(gated) = self.gated.get(&key).filter(|gated| object.is_gated_by(gated.count, members)) {
            return Some((gated.plugin, gated.message.clone()));
        }
        let message = object.gate(&profile.plugins, members)?;
        Some((key.api.plugin(), message))
    }

    /// Why the pods of the pod's group cannot be placed together.
    pub fn error(&self, pod: &PodInfo) -> Option<String> {
        let object = self.object_of(pod)?;
        let (standing, waiting): (Vec<_>, Vec<_>) =
            self.mates(pod).iter().map(|mate| &**mate).partition(|mate| mate.node_name.is_some());
        object.validate(waiting.into_iter().chain(standing)).err()
    }

    fn key(&self, pod: &PodInfo) -> Option<GroupKey> {
        self.membership.group_of(pod)
    }
}
