//! API objects that a plugin keeps, and their use in facts, Reserve and PreBind.

use serde::{Deserialize, Serialize};
use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
};

use super::{ClusterEvent, Facts, labels};
use crate::{
    class::{Class, ClassId, PodInfo},
    devices::{
        claimed::PodDevices,
        objects::{ClaimPatch, DeviceKey, DeviceObject},
    },
    node::NodeInfo,
    pod_group::{GroupApi, GroupKey, PodGroup},
    profile::{Args, Profile},
    volumes::{
        node::Attachment,
        objects::{ClaimReference, StorageKey, StorageKind, StorageObject},
    },
};

/// An API object that a plugin keeps, with the fields that scheduling reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Object {
    /// A storage object.
    Storage(Arc<StorageObject>),
    /// An object of Dynamic Resource Allocation.
    Device(DeviceObject),
}

/// The kind and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ObjectKey {
    /// A storage object.
    Storage(StorageKey),
    /// An object of Dynamic Resource Allocation.
    Device(DeviceKey),
}

/// The attachments that pods of each class cause on their nodes.
pub type Attachments = Vec<(ClassId, Arc<[Attachment]>)>;

/// The effects of a changed or removed object.
#[derive(Debug, Default)]
pub struct Changes {
    /// The previous object, as in the API.
    pub old: Option<Object>,
    /// The nodes that need [`ObjectCache::complete`] again.
    pub nodes: BTreeSet<Arc<str>>,
    /// The changed attachments.
    pub attachments: Attachments,
    /// Whether the result of [`ObjectCache::share`] may change for some class.
    pub shares: bool,
    /// Other objects that the change freed, in their assumed state.
    pub freed: Vec<Object>,
}

/// The effects of Unreserve.
#[derive(Debug, Default)]
pub struct Undone {
    /// Writes that no pod waits for; failures are only logged.
    pub writes: Vec<Write>,
    /// The nodes that need [`ObjectCache::complete`] again.
    pub nodes: BTreeSet<Arc<str>>,
}

/// The work of Reserve for one pod on one node, in the form of its plugin.
pub trait Plan: Any + Debug + Send + Sync {
    /// The objects of the plan. While PreBind waits, a change to one of them calls [`ObjectCache::is_bound`] again.
    fn objects(&self) -> Vec<ObjectKey>;

    /// The objects that several pods of one group may allocate together. PreBind of one pod writes the allocation; the others wait for it.
    fn allocates(&self) -> Vec<ObjectKey> {
        Vec::new()
    }
}

/// A write to an API object. It fails if the object has another UID or version than at the decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The object.
    pub object: ObjectKey,
    /// Its UID.
    pub uid: Arc<str>,
    /// The version at the decision.
    pub resource_version: Arc<str>,
    /// The change.
    pub patch: Patch,
}

/// The change of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Patch {
    /// Reserves a volume for a claim.
    SetAside {
        /// The claim for `spec.claimRef`.
        claim: ClaimReference,
        /// The version of the claim, for `spec.claimRef`.
        claim_version: Arc<str>,
        /// Whether to set the annotation `pv.kubernetes.io/bound-by-controller`: the scheduler, not the volume's creator, chose the claim.
        bound_by_controller: bool,
    },
    /// Sets the annotation `volume.kubernetes.io/selected-node` of a claim.
    SelectNode(Arc<str>),
    /// A write for a ResourceClaim.
    Claim(ClaimPatch),
}

/// The versions of written objects. Older versions from watches are ignored.
pub type Written = BTreeMap<ObjectKey, Arc<str>>;

/// The condition that a plugin's PreBind waits for, in a message for pods that must wait because too many others do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Awaited {
    /// The condition, such as `their volumes to be bound`.
    pub what: &'static str,
    /// Where to look if it takes long.
    pub see: &'static str,
}

/// Why PreBind of a plugin cannot complete. The pod must be scheduled again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreBindError {
    /// A device that the plugin waits for reported a failure.
    DeviceFailed(String),
    /// Any other reason.
    Other(String),
}

impl PreBindError {
    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::DeviceFailed(message) | Self::Other(message) => message,
        }
    }
}

impl From<String> for PreBindError {
    fn from(message: String) -> Self {
        Self::Other(message)
    }
}

/// A device that is allocated to a pod before its binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedDevice {
    /// The device's driver.
    pub driver: Arc<str>,
    /// Whether the device must become ready before the pod is bound.
    pub has_conditions: bool,
}

/// A claim that PodGroupPostFilter frees for a pod group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreedForGroup {
    /// The write that frees it.
    pub write: Write,
    /// kube-scheduler's message.
    pub message: &'static str,
    /// Whether no further plugin runs.
    pub is_last: bool,
}

/// A pod of a group in PodGroupPostFilter, with the bits as for [`ObjectCache::post_filter`].
pub type TriedMember<'a> = (&'a PodInfo, u64);

/// The objects that a plugin keeps, with assumed changes: its lister and assume cache. The coordinator has one for each plugin that returns
/// one from [`Plugin::objects`](super::Plugin::objects). It is called only for classes with [`Class::uses_objects`].
///
/// # Reserve and PreBind
/// 1. [`plan`](Self::plan) computes the work of Reserve and changes nothing. All Reserve plugins of the profile run in its order; the first
///    failure ends the attempt without Unreserve.
/// 2. [`reserve`](Self::reserve) assumes the plan, again in the profile's order, when the pod is assumed.
/// 3. [`writes`](Self::writes) returns the writes of PreBind, if the profile runs the plugin's PreBind. The writes of all plugins run one
///    after the other, up to the first failure.
/// 4. Then [`is_bound`](Self::is_bound) runs at once, and again when the node or an object of the plan changes, until
///    [`timeout_ms`](Self::timeout_ms). Plugins wait in parallel, as kube-scheduler's with `AllowParallel`. The pod is bound when none
///    waits any more.
/// 5. If a step or the bind fails, or the pod is deleted, [`unreserve`](Self::unreserve) undoes assumptions that are not written, last
///    plugin first.
///
/// Source: `ReservePlugin`, `PreBindPlugin`, `passiveAssumeCache`.
pub trait ObjectCache: Debug + Send + Sync {
    /// Takes an object from the API. `None`: not newer, or not kept here. The first other version of an object ends its assumptions.
    fn apply(&mut self, object: &Object) -> Option<Changes>;

    /// Removes an object. `None`: unknown, or not kept by this plugin.
    fn delete(&mut self, key: &ObjectKey) -> Option<Changes>;

    /// A list of ResourceClaims begins (`None`), with objects in no order of versions, or is complete up to a version (`Some`).
    fn claims_listed(&mut self, _version: Option<&str>) -> Changes {
        Changes::default()
    }

    /// An object in its current state, with assumptions.
    fn get(&self, key: &ObjectKey) -> Option<Object>;

    /// Whether the objects may affect a class with [`Class::uses_objects`].
    fn concerns(&self, _class: &Class) -> bool {
        true
    }

    /// Changes whenever the result of [`Self::resolve`] may change for some class.
    fn version(&self) -> u64;

    /// Adds the objects' facts to those of a class.
    fn resolve(&self, _class: &Class, _facts: &mut Facts) {}

    /// The class with other objects, for which each node has the same result: the same class for all classes with such facts. `None`: no
    /// other class has the same results.
    fn stand_in(&mut self, _class: &Class, _facts: &Facts) -> Option<Class> {
        None
    }

    /// Whether a class with these facts currently has the results of its stand-in.
    fn equals_stand_in(&self, _facts: &Facts) -> bool {
        false
    }

    /// A class is not known any more.
    fn forget_class(&mut self, _class: &Class) {}

    /// Adds the objects' data to a node.
    fn complete(&mut self, _node: &mut Arc<NodeInfo>) {}

    /// A node was removed.
    fn forget_node(&mut self, _name: &str) {}

    /// PreEnqueue: the reason to keep a pod out of the active queue.
    fn pre_enqueue(&self, _pod: &PodInfo) -> Option<String> {
        None
    }

    /// The device claims that a class must contain, if fewer than its pods have. `None`: all.
    fn share(&self, _class: &Class) -> Option<Option<Arc<PodDevices>>> {
        None
    }

    /// PostFilter: writes that may make the pod schedulable, and kube-scheduler's message. `unavailable`: a bit for each claim for which
    /// the plugin's Filter refused a node.
    fn post_filter(&self, _pod: &PodInfo, _unavailable: u64) -> Option<(Vec<Write>, &'static str)> {
        None
    }

    /// PodGroupPostFilter: a write for a group that may help its pods, after the writes for these pods. `freed`: the objects of those.
    ///
    /// # Errors
    /// The plugin fails.
    fn group_post_filter(
        &self,
        _group: &PodGroup,
        _members: &[TriedMember<'_>],
        _freed: &BTreeSet<ObjectKey>,
    ) -> Result<Option<FreedForGroup>, String> {
        Ok(None)
    }

    /// A pod group of `scheduling.k8s.io` changed; `None`: it is gone.
    fn set_pod_group(&mut self, _key: &GroupKey, _group: Option<&Arc<PodGroup>>) {}

    /// A pod of a class is on a node: bound, assumed, or tentatively. Returns its attachments; at most one plugin may return any.
    fn pod_added(&mut self, _id: ClassId, _class: &Arc<Class>) -> Attachments {
        Vec::new()
    }

    /// A pod of a class left its node.
    fn pod_removed(&mut self, _id: ClassId, _class: &Class) {}

    /// A pod of a class is nominated: only filters on its node count it. Returns the class's attachments, as [`Self::pod_added`].
    fn pod_nominated(&mut self, _id: ClassId, _class: &Arc<Class>) -> Attachments {
        Vec::new()
    }

    /// A nomination of a pod of a class ended. The class may already be forgotten.
    fn nomination_ended(&mut self, _id: ClassId) {}

    /// The work of Reserve for a pod on a node. `None`: none, also for PreBind.
    ///
    /// # Errors
    /// The failure of Reserve.
    fn plan(&self, pod: &PodInfo, node: &NodeInfo, profile: &Profile) -> Result<Option<Box<dyn Plan>>, String>;

    /// The class of the pod with the requests that it has on the node of a plan, if they differ from those in the pod.
    fn charged(&self, _plan: &dyn Plan, _class: &Class) -> Option<Arc<Class>> {
        None
    }

    /// Reserve: assumes a plan until the API contradicts it. Returns the nodes that need [`complete`](Self::complete) again.
    fn reserve(&mut self, plan: &dyn Plan) -> BTreeSet<Arc<str>>;

    /// Reserve during an attempt at a group: as [`Self::reserve`], but later members of the group may share the plan.
    fn reserve_tentatively(&mut self, plan: &dyn Plan) -> BTreeSet<Arc<str>> {
        self.reserve(plan)
    }

    /// Unreserve: undoes a plan. Parts in `written` stay assumed until a watch delivers them.
    fn unreserve(&mut self, plan: &dyn Plan, written: &Written) -> Undone;

    /// PreBind: the writes of a plan, in order, on current versions, without those that an earlier attempt or leader made.
    fn writes(&self, plan: &dyn Plan) -> Vec<Write>;

    /// PreBind: whether the API has an object of [`Plan::allocates`] with the plan's allocation. `written`: the version by another pod.
    ///
    /// # Errors
    /// The allocation differs or was removed: the pod must be scheduled again.
    fn is_allocated(&self, _plan: &dyn Plan, _key: &ObjectKey, _written: Option<&Arc<str>>) -> Result<bool, String> {
        Ok(true)
    }

    /// PreBind: whether the plan is complete in the API; assumptions do not count. `node` is `None` if it was removed.
    ///
    /// # Errors
    /// It cannot complete.
    fn is_bound(&self, plan: &dyn Plan, written: &Written, node: Option<&NodeInfo>) -> Result<bool, PreBindError>;

    /// PreBind: the maximum wait after its writes, in milliseconds.
    fn timeout_ms(&self, args: &Args) -> u64;

    /// PreBind: the maximum wait has passed. Returns the error.
    fn time_out(&mut self, plan: &dyn Plan) -> String;

    /// PreBind: the condition that it waits for.
    fn awaited(&self) -> Awaited;

    /// PreBind: the devices of a written plan, if it waits for one of them to become ready; empty otherwise.
    fn awaited_devices(&self, _plan: &dyn Plan) -> Vec<AwaitedDevice> {
        Vec::new()
    }
}

/// Whether a `resourceVersion` is older than another one. Versions that are not numbers are never older.
#[must_use]
pub fn is_older(version: &str, other: &str) -> bool {
    let number = |version: &str| version.parse::<u128>().ok();
    number(version).zip(number(other)).is_some_and(|(version, other)| version < other)
}

impl Object {
    /// The UID of the pod for which a device claim was created.
    #[must_use]
    pub fn owner(&self) -> Option<&Arc<str>> {
        let Self::Device(DeviceObject::Claim(claim)) = self else { return None };
        claim.controller.as_ref().map(|owner| &owner.uid)
    }

    /// The pod group for which a device claim was generated.
    #[must_use]
    pub fn pod_group(&self) -> Option<GroupKey> {
        let Self::Device(DeviceObject::Claim(claim)) = self else { return None };
        let (namespace, name) = (Arc::clone(&claim.namespace), Arc::clone(claim.pod_group()?));
        Some(GroupKey { namespace, name, api: GroupApi::Kubernetes })
    }

    /// The object's key.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        match self {
            Self::Storage(object) => ObjectKey::Storage(object.key()),
            Self::Device(object) => ObjectKey::Device(object.key()),
        }
    }

    /// Whether the object is older than a write with this `resourceVersion`; never for kinds without versions here.
    #[must_use]
    pub fn is_older(&self, written: &str) -> bool {
        let Self::Storage(object) = self else { return false };
        match &**object {
            StorageObject::Claim(claim) => is_older(&claim.resource_version, written),
            StorageObject::Volume(volume) => is_older(&volume.resource_version, written),
            _ => false,
        }
    }

    /// Another object that this one references, and that its changes affect too: the claim of a volume.
    #[must_use]
    pub fn names(&self) -> Option<ObjectKey> {
        let Self::Storage(object) = self else { return None };
        let StorageObject::Volume(volume) = &**object else { return None };
        let ClaimReference { namespace, name, .. } = volume.claim.as_ref()?;
        let (namespace, name) = (Arc::clone(namespace), Arc::clone(name));
        Some(ObjectKey::Storage(StorageKey { kind: StorageKind::Claim, namespace, name }))
    }
}

impl From<DeviceObject> for Object {
    fn from(object: DeviceObject) -> Self {
        Self::Device(object)
    }
}

impl From<StorageObject> for Object {
    fn from(object: StorageObject) -> Self {
        Self::Storage(Arc::new(object))
    }
}

impl ObjectKey {
    /// `metadata.namespace`; empty for cluster-scoped kinds.
    #[must_use]
    pub const fn namespace(&self) -> &Arc<str> {
        match self {
            Self::Storage(key) => &key.namespace,
            Self::Device(key) => &key.namespace,
        }
    }

    /// `metadata.name`.
    #[must_use]
    pub const fn name(&self) -> &Arc<str> {
        match self {
            Self::Storage(key) => &key.name,
            Self::Device(key) => &key.name,
        }
    }

    /// kube-scheduler's event labels for an added, changed or removed object.
    #[must_use]
    pub const fn labels(&self) -> [&'static str; 3] {
        match self {
            Self::Storage(key) => labels::of_storage(key.kind),
            Self::Device(key) => labels::of_device(key.kind),
        }
    }
}

impl From<StorageKey> for ObjectKey {
    fn from(key: StorageKey) -> Self {
        Self::Storage(key)
    }
}

impl From<DeviceKey> for ObjectKey {
    fn from(key: DeviceKey) -> Self {
        Self::Device(key)
    }
}

impl<'a> ClusterEvent<'a> {
    /// The event of an added, changed or removed object. Both are of one kind.
    #[must_use]
    pub fn of_object(old: Option<&'a Object>, new: Option<&'a Object>) -> Self {
        let storage = |object: Option<&'a Object>| match object {
            Some(Object::Storage(object)) => Some(&**object),
            Some(Object::Device(_)) | None => None,
        };
        let device = |object: Option<&'a Object>| match object {
            Some(Object::Device(object)) => Some(object),
            Some(Object::Storage(_)) | None => None,
        };
        match old.or(new) {
            Some(Object::Device(_)) => Self::DeviceChanged { old: device(old), new: device(new) },
            Some(Object::Storage(_)) | None => Self::StorageChanged { old: storage(old), new: storage(new) },
        }
    }
}

impl dyn Plan {
    /// The plan in its plugin's type; `None` for a plan of another plugin.
    #[must_use]
    pub fn of<P: Plan>(&self) -> Option<&P> {
        let plan: &dyn Any = self;
        plan.downcast_ref()
    }
}
