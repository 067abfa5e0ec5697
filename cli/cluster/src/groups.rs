//! PodGroups of the input, of `scheduling.k8s.io` and `scheduling.x-k8s.io`, and which pods they gate.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    admission,
    class::PodInfo,
    ingest,
    ingest::pod_group::CoschedulingSpec,
    pod_group::{AsVictim, GroupApi, GroupKey, Hierarchy, Membership, PodGroup},
    preemption::UnitKind,
    profile::Profile,
    registry::Registry,
};
use flotilla_objects::Object as _;
use k8s_openapi::{
    api::scheduling::{v1alpha3, v1beta1 as api},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use serde_json::{Map, Value, json};

use super::{Cluster, decode::decode, defaults, objects::Gatherer, place::InputPosition, problem::Problems};

/// The feature gate of pod groups.
pub const GATE: &str = "GenericWorkload";

const KIND: &str = "PodGroup";
/// The kind behind the feature gate CompositePodGroup.
const COMPOSITE: &str = "CompositePodGroup";
const API_GROUP: &str = "scheduling.k8s.io/";
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
    children: BTreeMap<GroupKey, Vec<GroupKey>>,
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
    /// Whether to read an object as a group of `scheduling.k8s.io`: its API is the supported one, and its feature gate is on.
    pub(super) fn reads_group(&self, kind: &str, fields: &Map<String, Value>) -> bool {
        let is_on = match kind {
            KIND => true,
            COMPOSITE => self.features.composite_groups,
            _ => false,
        };
        let version = fields.get("apiVersion").and_then(Value::as_str);
        is_on && self.groups.is_some() && version.is_none_or(|version| version.starts_with(API_GROUP))
    }

    /// Reads an object of [`Self::reads_group`].
    pub(super) fn gather_group(&mut self, kind: &str, value: Value, place: InputPosition, problems: &mut Problems) {
        if kind == COMPOSITE {
            if let Some(group) = decode(value, &place, problems) {
                self.add_composite(group, place, problems);
            }
        } else if let Some(group) = decode(value, &place, problems) {
            self.add_group(group, place, problems);
        }
    }

    fn add_group(&mut self, mut group: api::PodGroup, place: InputPosition, problems: &mut Problems) {
        let Some(name) = self.claim(KIND, &group.metadata, true, &place, problems) else { return };
        defaults::identity(&mut group.metadata, true);
        let is_given = group.spec.priority.is_some();
        let class = group.spec.priority_class_name.take();
        match ingest::pod_group::pod_group(&group, self.features) {
            Ok(group) => self.draft(Draft { group, is_given, class, place }),
            Err(error) => problems.error(place, format!("{KIND} {name:?}: {error}")),
        }
    }

    fn add_composite(&mut self, mut group: v1alpha3::CompositePodGroup, place: InputPosition, problems: &mut Problems) {
        let Some(name) = self.claim(COMPOSITE, &group.metadata, true, &place, problems) else { return };
        defaults::identity(&mut group.metadata, true);
        let is_given = group.spec.priority.is_some();
        let class = group.spec.priority_class_name.take();
        match ingest::pod_group::composite(&group, self.features) {
            Ok(group) => self.draft(Draft { group, is_given, class, place }),
            Err(error) => problems.error(place, format!("{COMPOSITE} {name:?}: {error}")),
        }
    }

    fn draft(&mut self, mut draft: Draft) {
        draft.class = draft.class.filter(|class| !class.is_empty() && !draft.is_given);
        if let Some(groups) = &mut self.groups {
            groups.push(draft);
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
                    let kind = if group.api == GroupApi::Composite { COMPOSITE } else { KIND };
                    let text = format!(
                        "{kind} {:?} has priorityClassName {class:?}, which is not in the input; expected a PriorityClass \
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
            if let Some(parent) = object.parent_key() {
                groups.children.entry(parent).or_default().push(object.group_key());
            }
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

    /// How a pod of `scheduling.k8s.io` is preempted.
    pub fn as_victim(&self, pod: &PodInfo) -> Option<AsVictim> {
        Hierarchy::as_victim(self, &self.key_as_victim(pod)?)
    }

    /// The kind of the unit that a pod is preempted with. A pod that names a group is of one, even if it does not exist.
    pub fn kind_as_victim(&self, pod: &PodInfo) -> UnitKind {
        let Some(key) = self.key_as_victim(pod) else { return UnitKind::Pod };
        Hierarchy::as_victim(self, &key).map_or(UnitKind::PodGroup, |victim| victim.kind())
    }

    fn key_as_victim(&self, pod: &PodInfo) -> Option<GroupKey> {
        self.key(pod).filter(|key| key.api == GroupApi::Kubernetes)
    }

    /// Whether a pod names a group.
    pub fn is_member(&self, pod: &PodInfo) -> bool {
        self.key(pod).is_some()
    }

    /// The existing pod group of a pod, and the number of its pods.
    pub fn group(&self, pod: &PodInfo) -> Option<(&PodGroup, usize)> {
        let key = self.key(pod)?;
        Some((self.object(&key)?, self.pods(&key)))
    }

    /// All pods of the pod's group, and of the other groups with the same root.
    pub fn mates(&self, pod: &PodInfo) -> Vec<&Arc<PodInfo>> {
        let Some(key) = self.key(pod) else { return Vec::new() };
        self.pods_below(&self.root(&key).unwrap_or(key))
    }

    /// All pods of a group and of the groups below it.
    pub fn pods_below(&self, key: &GroupKey) -> Vec<&Arc<PodInfo>> {
        self.leaves(key).iter().filter_map(|leaf| self.members.get(leaf)).flatten().collect()
    }

    /// The plugin that gates the pod's group, and its reason.
    pub fn gate(&self, pod: &PodInfo, profile: &Profile) -> Option<(&'static str, String)> {
        let key = self.key(pod)?;
        let root = match self.root(&key) {
            Ok(root) => root,
            Err(message) => return Some((key.api.plugin(), message)),
        };
        let object = self.objects.get(&root)?;
        let members = self.pods_below(&root).len();
        let leaves = self.leaves(&root);
        let mut gated = leaves.iter().filter_map(|leaf| self.gated.get(leaf));
        let count = gated.clone().map(|gated| gated.count).sum();
        if let Some(gated) = gated.next().filter(|_| object.is_gated_by(count, members)) {
            return Some((gated.plugin, gated.message.clone()));
        }
        let message = self.tree_gate(&root, &profile.plugins)?;
        Some((key.api.plugin(), message))
    }

    /// Why the pods of the pod's group cannot be placed together.
    pub fn error(&self, pod: &PodInfo) -> Option<String> {
        let object = self.objects.get(&self.root(&self.key(pod)?).ok()?)?;
        let (standing, waiting): (Vec<_>, Vec<_>) =
            self.mates(pod).into_iter().map(|mate| &**mate).partition(|mate| mate.node_name.is_some());
        object.validate(waiting.into_iter().chain(standing)).err()
    }

    fn key(&self, pod: &PodInfo) -> Option<GroupKey> {
        self.membership.group_of(pod)
    }
}

impl Hierarchy for Groups {
    fn object(&self, key: &GroupKey) -> Option<&PodGroup> {
        self.objects.get(key).map(|object| &**object)
    }

    fn children(&self, key: &GroupKey) -> impl Iterator<Item = &GroupKey> {
        self.children.get(key).into_iter().flatten()
    }

    fn pods(&self, key: &GroupKey) -> usize {
        self.members.get(key).map_or(0, Vec::len)
    }
}
