//! Objects of the API that a plugin keeps, and what it does with them: the facts of a class, Reserve and PreBind.
//!
//! Knows: the shapes. Must not know: any plugin's objects but by the family they belong to, who watches them, or who
//! writes them.

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
    profile::{Args, Profile},
    volumes::{
        node::Attachment,
        objects::{ClaimReference, StorageKey, StorageKind, StorageObject},
    },
};

/// An object of the API that a plugin keeps, as far as scheduling reads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Object {
    /// Of storage.
    Storage(Arc<StorageObject>),
    /// Of Dynamic Resource Allocation.
    Device(DeviceObject),
}

/// Which object: its kind and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ObjectKey {
    /// Of storage.
    Storage(StorageKey),
    /// Of Dynamic Resource Allocation.
    Device(DeviceKey),
}

/// What the pods of classes on nodes attach to their nodes.
pub type Attachments = Vec<(ClassId, Arc<[Attachment]>)>;

/// What follows from an object that has changed or is gone.
#[derive(Debug, Default)]
pub struct Changes {
    /// The object before, as the API had it.
    pub old: Option<Object>,
    /// The nodes that [`ObjectCache::complete`] may complete in another way now.
    pub nodes: BTreeSet<Arc<str>>,
    /// What may be attached otherwise than before.
    pub attachments: Attachments,
    /// Whether [`ObjectCache::share`] may say something else of any class.
    pub shares: bool,
    /// Other objects that are gone by that, as they were assumed.
    pub freed: Vec<Object>,
}

/// What follows from what was taken back.
#[derive(Debug, Default)]
pub struct Undone {
    /// What has to be written; no pod waits for it, and what fails is only logged.
    pub writes: Vec<Write>,
    /// The nodes that [`ObjectCache::complete`] may complete in another way now.
    pub nodes: BTreeSet<Arc<str>>,
}

/// What Reserve has to do for one pod on one node, in the words of the plugin that has planned it.
pub trait Plan: Any + Debug + Send + Sync {
    /// The objects that it is about. While PreBind waits, [`ObjectCache::is_bound`] is asked again when one of them
    /// changes.
    fn objects(&self) -> Vec<ObjectKey>;

    /// The objects that several pods of one group may allocate together: the PreBind of one pod writes the allocation, that of the
    /// others waits for it.
    fn allocates(&self) -> Vec<ObjectKey> {
        Vec::new()
    }
}

/// A write to an object of the API. It is refused where the object is not the one, or has not the version, that was
/// decided on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The object.
    pub object: ObjectKey,
    /// Its UID.
    pub uid: Arc<str>,
    /// The version that the decision was made on.
    pub resource_version: Arc<str>,
    /// What changes.
    pub patch: Patch,
}

/// What a write changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Patch {
    /// A volume is set aside for a claim.
    SetAside {
        /// Which claim `spec.claimRef` is to name.
        claim: ClaimReference,
        /// The version of the claim, for `spec.claimRef`.
        claim_version: Arc<str>,
        /// Whether the annotation `pv.kubernetes.io/bound-by-controller` is to say that the claim was chosen here, and not
        /// by the creator of the volume.
        bound_by_controller: bool,
    },
    /// The annotation `volume.kubernetes.io/selected-node` of a claim names this node.
    SelectNode(Arc<str>),
    /// What is written to a ResourceClaim, or because of one.
    Claim(ClaimPatch),
}

/// The versions that objects got by being written. What the API has is too old to look at before it has these.
pub type Written = BTreeMap<ObjectKey, Arc<str>>;

/// What a plugin's PreBind waits for, in words for a pod that has to wait until fewer others do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Awaited {
    /// What pods wait for, such as `their volumes to be bound`.
    pub what: &'static str,
    /// Where to look if that takes long.
    pub see: &'static str,
}

/// A device that a pod on its way has been given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedDevice {
    /// Whose it is.
    pub driver: Arc<str>,
    /// Whether it has to get ready before the pod is bound.
    pub has_conditions: bool,
}

/// The objects that a plugin keeps, with what is assumed of them: its lister and its assume cache. There is one for each
/// plugin that has any ([`Plugin::objects`](super::Plugin::objects)), kept by the coordinator.
///
/// It is asked about classes for which [`Class::uses_objects`] says so, and about no others.
///
/// # Reserve and PreBind
///
/// 1. [`plan`](Self::plan) says what Reserve has to do, and changes nothing. All Reserve plugins of the profile are asked in
///    its order; the first that fails ends the attempt, and nothing is to be taken back.
/// 2. [`reserve`](Self::reserve) assumes the plan, again in the profile's order, when the pod is assumed.
/// 3. [`writes`](Self::writes) is what PreBind has to write, where the profile runs the plugin's PreBind. The writes of all
///    plugins are carried out one after the other, up to the first that fails.
/// 4. Then [`is_bound`](Self::is_bound) is asked at once, and again when an object of the plan or the node changes, for as
///    long as [`timeout_ms`](Self::timeout_ms). Plugins wait beside each other, as upstream's whose PreBindPreFlight says
///    `AllowParallel`. The pod is bound when none waits any more.
/// 5. If any of this fails, or the bind does, or the pod goes away, [`unreserve`](Self::unreserve) takes back what is not
///    written, last plugin first.
///
/// Source: `ReservePlugin`, `PreBindPlugin`, `passiveAssumeCache`.
pub trait ObjectCache: Debug + Send + Sync {
    /// Takes an object as the API has it now. `None`: that is no news, or the object is none of its own. The first other
    /// version of an object puts an end to what is assumed of it.
    fn apply(&mut self, object: &Object) -> Option<Changes>;

    /// An object is gone. `None`: it was not there, or is none of its own.
    fn delete(&mut self, key: &ObjectKey) -> Option<Changes>;

    /// A list of ResourceClaims begins (`None`): they are told in no order of versions. Or it is through (`Some`): what was written
    /// up to this version has been told.
    fn claims_listed(&mut self, _version: Option<&str>) -> Changes {
        Changes::default()
    }

    /// An object as it is now, with what is assumed of it.
    fn get(&self, key: &ObjectKey) -> Option<Object>;

    /// Whether the objects may say anything about a class that [`Class::uses_objects`].
    fn concerns(&self, _class: &Class) -> bool {
        true
    }

    /// Changes whenever [`Self::resolve`] of some class may say something else.
    fn version(&self) -> u64;

    /// Puts into the facts of a class what the objects say about it.
    fn resolve(&self, _class: &Class, _facts: &mut Facts) {}

    /// Puts into a node what the objects say about it.
    fn complete(&mut self, _node: &mut Arc<NodeInfo>) {}

    /// A node is gone.
    fn forget_node(&mut self, _name: &str) {}

    /// PreEnqueue: the reason why a pod may not enter the active queue yet.
    fn pre_enqueue(&self, _pod: &PodInfo) -> Option<String> {
        None
    }

    /// What a class has to say of the claims of devices of its pods, where that is less than the pods say. `None`: all of it.
    fn share(&self, _class: &Class) -> Option<Option<Arc<PodDevices>>> {
        None
    }

    /// PostFilter: what has to be written so that a pod may find a node later, and upstream's words for it. `unavailable` has a
    /// bit for each of the pod's claims for which the plugin's Filter has refused a node.
    fn post_filter(&self, _pod: &PodInfo, _unavailable: u64) -> Option<(Vec<Write>, &'static str)> {
        None
    }

    /// A pod of a class is on a node from now on, bound, assumed, or for the length of an attempt. Gives the attachments of
    /// the class. At most one plugin may return attachments.
    fn pod_added(&mut self, _id: ClassId, _class: &Arc<Class>) -> Attachments {
        Vec::new()
    }

    /// A pod of a class left its node.
    fn pod_removed(&mut self, _id: ClassId, _class: &Class) {}

    /// A pod of a class is nominated: filters evaluate its node with it, and otherwise it is nowhere. Gives the attachments of
    /// the class, as [`Self::pod_added`].
    fn pod_nominated(&mut self, _id: ClassId, _class: &Arc<Class>) -> Attachments {
        Vec::new()
    }

    /// A nomination of a pod of a class ended. The class may be forgotten already.
    fn nomination_ended(&mut self, _id: ClassId) {}

    /// What Reserve has to do for a pod on a node. `None`: nothing, nor does PreBind.
    ///
    /// # Errors
    /// Why Reserve fails.
    fn plan(&self, pod: &PodInfo, node: &NodeInfo, profile: &Profile) -> Result<Option<Box<dyn Plan>>, String>;

    /// Reserve: a plan counts as carried out, until the API says otherwise. Gives the nodes that
    /// [`complete`](Self::complete) may complete in another way now.
    fn reserve(&mut self, plan: &dyn Plan) -> BTreeSet<Arc<str>>;

    /// Reserve for the length of an attempt at a group: as [`Self::reserve`], but later members of the group may share the plan.
    fn reserve_tentatively(&mut self, plan: &dyn Plan) -> BTreeSet<Arc<str>> {
        self.reserve(plan)
    }

    /// Unreserve: a plan counts no more, but for what was `written`: that stays assumed until the watches bring it.
    fn unreserve(&mut self, plan: &dyn Plan, written: &Written) -> Undone;

    /// PreBind: what of a plan the API has to be told, in order, each on the version that it has now. What it has already,
    /// from an attempt or a leader before, is left out.
    fn writes(&self, plan: &dyn Plan) -> Vec<Write>;

    /// PreBind: whether the API shows one of [`Plan::allocates`] with the plan's allocation. `written` is the version with which
    /// another pod wrote it.
    ///
    /// # Errors
    /// The allocation is another one, or is gone: the pod has to be scheduled again.
    fn is_allocated(&self, _plan: &dyn Plan, _key: &ObjectKey, _written: Option<&Arc<str>>) -> Result<bool, String> {
        Ok(true)
    }

    /// PreBind: whether all is there that a plan waits for, by what the API says; what is assumed does not count. `node` is
    /// `None` where it is gone.
    ///
    /// # Errors
    /// It will not come to that: the pod has to be scheduled anew.
    fn is_bound(&self, plan: &dyn Plan, written: &Written, node: Option<&NodeInfo>) -> Result<bool, String>;

    /// PreBind: how long it may wait after its writes, in milliseconds.
    fn timeout_ms(&self, args: &Args) -> u64;

    /// PreBind: the error where it has waited for so long.
    fn timed_out(&self, plan: &dyn Plan) -> String;

    /// PreBind: what it waits for.
    fn awaited(&self) -> Awaited;

    /// PreBind: the devices of a plan that is written, where it waits for one of them to get ready; none otherwise.
    fn awaited_devices(&self, _plan: &dyn Plan) -> Vec<AwaitedDevice> {
        Vec::new()
    }
}

/// Whether a `resourceVersion` is from before another one. Versions that are no numbers are taken as they come.
#[must_use]
pub fn is_older(version: &str, other: &str) -> bool {
    let number = |version: &str| version.parse::<u128>().ok();
    number(version).zip(number(other)).is_some_and(|(version, other)| version < other)
}

// === impl Object ===

impl Object {
    /// The UID of the pod that the object was made for, of a claim of devices.
    #[must_use]
    pub fn owner(&self) -> Option<&Arc<str>> {
        let Self::Device(DeviceObject::Claim(claim)) = self else { return None };
        claim.controller.as_ref().map(|owner| &owner.uid)
    }

    /// Which object it is.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        match self {
            Self::Storage(object) => ObjectKey::Storage(object.key()),
            Self::Device(object) => ObjectKey::Device(object.key()),
        }
    }

    /// Whether it is from before a write that gave it this `resourceVersion`; never of a kind whose versions are not read.
    #[must_use]
    pub fn is_older(&self, written: &str) -> bool {
        let Self::Storage(object) = self else { return false };
        match &**object {
            StorageObject::Claim(claim) => is_older(&claim.resource_version, written),
            StorageObject::Volume(volume) => is_older(&volume.resource_version, written),
            _ => false,
        }
    }

    /// Another object that this one names, and that a change of this one is about as well: of a volume, its claim.
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

// === impl ObjectKey ===

impl ObjectKey {
    /// `metadata.namespace`; empty for kinds that belong to none.
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

    /// kube-scheduler's labels of the events that such an object is new, has changed, or is gone.
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

// === impl ClusterEvent ===

impl<'a> ClusterEvent<'a> {
    /// The event that an object is new, has changed, or is gone. Both are of one kind.
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

// === impl Plan ===

impl dyn Plan {
    /// The plan as its plugin has made it; `None`: it is another plugin's.
    #[must_use]
    pub fn of<P: Plan>(&self) -> Option<&P> {
        let plan: &dyn Any = self;
        plan.downcast_ref()
    }
}
