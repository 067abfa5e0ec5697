//! Workloads of the input, and the summary of their pods.

use std::collections::{BTreeMap, BTreeSet};

use flotilla_workloads::{Made, OwnedPod, Workload};
use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::{place::InputPosition, problem::Problems};

mod admission;

pub(super) use admission::{mismatch, negative};

/// The annotations of the default StorageClass.
const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// The annotation that precedes `spec.storageClassName` of a claim.
const CLAIM_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const MOST_NAMED: usize = 4;
/// The limit of the pods of all workloads: about 2 KB each, so 2 GB.
const MOST_PODS: u64 = 1_000_000;

/// The input of the controllers.
#[derive(Default)]
pub(super) struct Workloads {
    pub(super) workloads: Vec<Planned>,
    /// The previous versions of workloads, and their ReplicaSets.
    pub(super) previous: Vec<Planned>,
    /// The controllers of objects other than pods.
    parents: BTreeMap<ObjectName, ObjectName>,
    pub(super) pods: Vec<OwnedPod>,
    /// Creation time and name of the default StorageClass.
    pub(super) class: Option<(i64, String)>,
    /// The cluster runs its own controllers.
    pub(super) are_left: bool,
}

/// Kind, and `namespace/name`.
type ObjectName = (String, String);

/// A workload of the input, or one that the controller of a custom resource would create.
pub(super) struct Planned {
    pub(super) workload: Workload,
    pub(super) place: InputPosition,
    pub(super) origin: Option<Origin>,
}

/// The custom resource of a workload.
pub(super) struct Origin {
    pub(super) api_version: String,
    pub(super) kind: String,
    /// `namespace/name`.
    pub(super) key: String,
    /// The workload's selector counts for default spreading.
    pub(super) selects: bool,
}

/// The pods that were created for workloads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// Created pods by workload.
    made: Vec<Created>,
    /// The pods that the API server refuses.
    pub refused: Vec<Refused>,
    /// The number of further copies of hand-written pods that quotas admit, by `namespace/name`, and why no more.
    pub copies: BTreeMap<String, (usize, String)>,
    /// Lines about objects that are not modelled or missing.
    pub notes: Vec<String>,
    /// The pods that a controller would delete, as `namespace/name`.
    pub surplus: Vec<String>,
    /// Deployments that are paused and have no ReplicaSet.
    paused: Vec<String>,
    /// Nodes that got a default label, and nodes that got a default number of pods.
    defaulted: (usize, usize),
}

/// Pods that the API server refuses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refused {
    /// The pod as `namespace/name`, or its workload with the kind.
    pub of: String,
    /// The error of the API server.
    pub reason: String,
    /// A sentence with both.
    pub text: String,
}

/// The pods created for one workload.
#[derive(Debug, Clone, Default, PartialEq)]
struct Created {
    /// Such as `Deployment shop/web`.
    title: String,
    count: usize,
    /// Each pod is created after the one before it.
    is_ordered: bool,
}

impl Workloads {
    pub(super) fn see(&mut self, pod: &Pod) {
        if !self.are_left {
            self.pods.extend(OwnedPod::of(pod));
        }
    }

    /// Source: `GetDefaultClass` in `pkg/volume/util`. The newest default StorageClass counts, and of those the first by name.
    pub(super) fn see_class(&mut self, metadata: &ObjectMeta) {
        let is_set = |annotations: &BTreeMap<String, String>| {
            DEFAULT_CLASS.iter().any(|key| annotations.get(*key).is_some_and(|value| value == "true"))
        };
        if !metadata.annotations.as_ref().is_some_and(is_set) {
            return;
        }
        let created = metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
        let name = metadata.name.clone().unwrap_or_default();
        let is_better = |(known, other): &(i64, String)| created > *known || created == *known && name < *other;
        if self.class.as_ref().is_none_or(is_better) {
            self.class = Some((created, name));
        }
    }

    /// Remembers the controller of an object other than a pod.
    pub(super) fn see_owner(&mut self, kind: &str, metadata: &ObjectMeta) {
        let controller = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        if let Some(owner) = controller {
            let key = key(metadata);
            let namespace = key.split('/').next().unwrap_or_default();
            let parent = (owner.kind.clone(), format!("{namespace}/{}", owner.name));
            self.parents.insert((kind.to_owned(), key), parent);
        }
    }

    /// An upper bound of the pods of all workloads. Reports the first workload that exceeds the limit, and returns `None`.
    pub(super) fn most_pods(&self, nodes: usize, problems: &mut Problems) -> Option<u64> {
        let mut sum: u64 = 0;
        for Planned { workload, place, origin } in &self.workloads {
            let count = admission::wanted(workload, nodes);
            sum = sum.saturating_add(count);
            if sum > MOST_PODS {
                let kind = origin.as_ref().map_or_else(|| workload.kind(), |origin| &origin.kind);
                let text = format!(
                    "{kind} {:?} asks for {count} pods, which are {sum} with those of the workloads before it; expected \
                     {MOST_PODS} at most",
                    key(workload.metadata())
                );
                problems.error(place.keys(admission::count_field(workload)), text);
                return None;
            }
        }
        let previous = self.previous.iter().map(|planned| admission::wanted(&planned.workload, nodes));
        Some(previous.fold(sum, u64::saturating_add))
    }

    /// Removes the workloads of custom resources whose controllers have already created the same workloads.
    pub(super) fn without_existing(&mut self) {
        let mut existing: BTreeSet<ObjectName> = BTreeSet::new();
        for planned in &self.workloads {
            let (workload, origin) = (&planned.workload, planned.origin.as_ref());
            let own = || (workload.kind().to_owned(), key(workload.metadata()));
            let mut at = origin.map_or_else(own, |origin| (origin.kind.clone(), origin.key.clone()));
            while let Some(parent) = self.parents.get(&at).filter(|parent| existing.insert((*parent).clone())) {
                at.clone_from(parent);
            }
        }
        // Pods whose ReplicaSet or ReplicationController is not in the input.
        for pod in &self.pods {
            if let (kind @ ("ReplicaSet" | "ReplicationController"), name) = pod.owner()
                && let Some((name, _)) = name.rsplit_once('-')
            {
                existing.insert((kind.to_owned(), format!("{}/{name}", pod.namespace())));
            }
        }
        self.workloads.retain(|planned| {
            planned.origin.as_ref().is_none_or(|origin| {
                let of_pods = (planned.workload.kind().to_owned(), origin.key.clone());
                !existing.contains(&(origin.kind.clone(), origin.key.clone())) && !existing.contains(&of_pods)
            })
        });
    }
}

impl Origin {
    /// Names the custom resource as the owner if it has the kind and the name of the workload that replaces it.
    pub(super) fn own(&self, workload: &Workload, made: &mut Made) {
        if self.kind == workload.kind() && self.key == key(workload.metadata()) {
            let owners = made.pods.iter_mut().flat_map(|pod| pod.metadata.owner_references.iter_mut().flatten());
            owners.for_each(|owner| owner.api_version.clone_from(&self.api_version));
        }
    }
}

impl Summary {
    /// `defaulted`: nodes that got a default label, and nodes that got a default number of pods.
    pub(super) fn new(defaulted: (usize, usize)) -> Self {
        Self { defaulted, ..Self::default() }
    }

    /// Adds the pods of a workload; returns the workload's index if it has any. `origin`: the custom resource that it replaces.
    pub(super) fn add(&mut self, workload: &Workload, origin: Option<&Origin>, made: &Made) -> Option<usize> {
        self.surplus.extend(made.surplus.iter().cloned());
        if made.is_paused {
            self.paused.push(key(workload.metadata()));
        }
        if made.pods.is_empty() {
            return None;
        }
        let (title, is_ordered) = (title(workload, origin), !made.order.is_empty());
        match self.made.last_mut() {
            Some(last) if last.title == title => last.count += made.pods.len(),
            _ => self.made.push(Created { title, count: made.pods.len(), is_ordered }),
        }
        Some(self.made.len() - 1)
    }

    /// The workload of an index, such as `Deployment shop/web`.
    pub(super) fn title(&self, workload: usize) -> Option<&str> {
        self.made.get(workload).map(|made| &*made.title)
    }

    pub(super) fn is_ordered(&self, workload: usize) -> bool {
        self.made.get(workload).is_some_and(|made| made.is_ordered)
    }

    /// Notes that `count` pods of a workload are refused; returns the sentence.
    pub(super) fn refuse(&mut self, workload: usize, count: usize, reason: &str) -> Option<String> {
        let made = self.made.get_mut(workload).filter(|_| count > 0)?;
        let (title, wanted) = (&made.title, made.count);
        made.count = wanted.saturating_sub(count);
        let pods = if wanted == 1 { "pod is" } else { "pods are" };
        let text = format!("{title}: {} of {wanted} {pods} created: {reason}", made.count);
        self.refused.push(Refused { of: title.clone(), reason: reason.to_owned(), text: text.clone() });
        Some(text)
    }

    /// The lines about refused pods and the notes that `other` lacks.
    #[must_use]
    pub fn new_lines(&self, other: &Self) -> Vec<String> {
        let refused = self.refused.iter().filter(|refused| !other.refused.contains(refused));
        let notes = self.notes.iter().filter(|note| !other.notes.contains(note)).cloned();
        refused.map(|refused| format!("warning: {}", refused.text)).chain(notes).collect()
    }

    /// One line for each default of the input's nodes and for its paused Deployments.
    #[must_use]
    pub fn default_lines(&self) -> Vec<String> {
        let nodes = |count: usize| if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") };
        let (labels, pods) = self.defaulted;
        let label = (labels > 0).then(|| format!("the label kubernetes.io/hostname to {}", nodes(labels)));
        let pods = (pods > 0).then(|| format!("`pods: 110` to {}", nodes(pods)));
        let added: Vec<String> = label.into_iter().chain(pods).collect();
        let added = (!added.is_empty()).then(|| format!("added {}, as kubelets do", added.join(" and ")));
        let shown = self.paused.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
        let paused = match self.paused.len() {
            0 => None,
            1 => Some(format!("no pods of the paused Deployment {shown}, which has no ReplicaSet")),
            count => Some(format!("no pods of {count} paused Deployments, which have no ReplicaSet: {shown}")),
        };
        added.into_iter().chain(paused).collect()
    }

    /// One line with the created pods; `None` if there are none.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        let made: Vec<&Created> = self.made.iter().filter(|made| made.count > 0).collect();
        let count: usize = made.iter().map(|made| made.count).sum();
        let pods = if count == 1 { "pod" } else { "pods" };
        let shown = made.iter().take(MOST_NAMED).map(|made| format!("{} of {}", made.count, made.title));
        let mut parts: Vec<String> = shown.collect();
        if made.len() > MOST_NAMED {
            parts.push(format!("the others of {} more", made.len() - MOST_NAMED));
        }
        (count > 0).then(|| format!("made {count} {pods} as controllers would: {}", parts.join(", ")))
    }
}

/// A workload, or the custom resource that it replaces, such as `Deployment shop/web`.
pub(super) fn title(workload: &Workload, origin: Option<&Origin>) -> String {
    match origin {
        Some(origin) => format!("{} {}", origin.kind, origin.key),
        None => format!("{} {}", workload.kind(), key(workload.metadata())),
    }
}

pub(super) fn key(metadata: &ObjectMeta) -> String {
    let namespace = metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default");
    format!("{namespace}/{}", metadata.name.as_deref().unwrap_or_default())
}

/// The path of the workload's pod template.
pub(super) const fn template(workload: &Workload) -> &'static [&'static str] {
    match workload {
        Workload::CronJob(_) => &["spec", "jobTemplate", "spec", "template"],
        Workload::Custom(_) => &[],
        _ => &["spec", "template"],
    }
}

/// Sets the default class of a claim that names none.
///
/// Source: the admission plugin `DefaultStorageClass`.
pub(super) fn fill_claim(claim: &mut PersistentVolumeClaim, class: Option<&(i64, String)>) {
    let has_class = class_of(claim).is_some();
    let spec = claim.spec.get_or_insert_default();
    if let (Some((_, class)), false) = (class, has_class) {
        spec.storage_class_name = Some(class.clone());
    }
}

/// The class of a claim; it may be empty. Source: `PersistentVolumeClaimHasClass` and `GetPersistentVolumeClaimClass`.
pub(super) fn class_of(claim: &PersistentVolumeClaim) -> Option<&str> {
    let annotations = claim.metadata.annotations.as_ref();
    let annotation = annotations.and_then(|annotations| annotations.get(CLAIM_CLASS));
    annotation.or_else(|| claim.spec.as_ref()?.storage_class_name.as_ref()).map(String::as_str)
}
