//! Admits the pods and claims that are created now, once all objects of the input are known.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use flotilla_framework::{class::PodInfo, ingest, volumes::objects::StorageObject};
use k8s_openapi::{
    api::{core::v1 as api, node::v1::RuntimeClass},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::{Map, Value};

use super::{Draft, Gatherer, amounts::check};
use crate::{
    admission::{self, quota, quota::Quota},
    place::{InputPosition, Path},
    problem::Problems,
    storage::Stored,
    workloads::{self, Refused, Summary},
};

/// A pod that was never in a cluster, before its admission.
pub(super) struct NewPod {
    pub(super) pod: api::Pod,
    /// The pod-level resources before their defaults.
    pub(super) pod_level: Option<api::ResourceRequirements>,
}

/// A claim that was never in a cluster, and its index in the storage objects.
pub(super) struct NewClaim {
    claim: api::PersistentVolumeClaim,
    index: usize,
    place: InputPosition,
    workload: Option<usize>,
}

/// The pods of a workload that are refused.
#[derive(Default)]
struct Short {
    count: usize,
    reason: String,
    place: Option<InputPosition>,
}

impl Gatherer {
    /// Adds generated objects, which need no admission.
    pub fn complete(&mut self, add: impl FnOnce(&mut Self)) {
        self.admission.is_off = true;
        add(self);
        self.admission.is_off = false;
    }

    /// Sees each object of the input, read or not.
    pub(crate) fn see(&mut self, fields: &Map<String, Value>, of_list: Option<&str>) {
        self.admission.unmodelled.see(fields, of_list);
    }

    pub(crate) fn add_limit_range(&mut self, range: &api::LimitRange, place: &InputPosition, problems: &mut Problems) {
        let Some(name) = self.claim("LimitRange", &range.metadata, true, place, problems) else { return };
        let title = format!("LimitRange {name:?}");
        let mut are_good = true;
        for (index, item) in range.spec.iter().flat_map(|spec| &spec.limits).enumerate() {
            let place = place.at(&Path::default().keys(&["spec", "limits"]).index(index));
            for (field, list) in [
                ("default", &item.default),
                ("defaultRequest", &item.default_request),
                ("max", &item.max),
                ("maxLimitRequestRatio", &item.max_limit_request_ratio),
                ("min", &item.min),
            ] {
                are_good &= check(list.as_ref(), &title, &place, &[field], problems);
            }
        }
        if are_good {
            let namespace = admission::namespace(&range.metadata);
            self.admission.rules.add_limits(namespace, &name, range);
        }
    }

    pub(crate) fn add_quota(&mut self, object: &api::ResourceQuota, place: &InputPosition, problems: &mut Problems) {
        let Some(name) = self.claim("ResourceQuota", &object.metadata, true, place, problems) else { return };
        let title = format!("ResourceQuota {name:?}");
        let hard = object.spec.as_ref().and_then(|spec| spec.hard.as_ref());
        let used = object.status.as_ref().and_then(|status| status.used.as_ref());
        let are_good = check(hard, &title, place, &["spec", "hard"], problems);
        if are_good & check(used, &title, place, &["status", "used"], problems) {
            let quota = Quota::new(object.metadata.name.as_deref().unwrap_or_default(), object);
            let quotas = self.admission.quotas.entry(admission::namespace(&object.metadata).to_owned()).or_default();
            quotas.push(quota);
            quotas.sort_by(|left, right| left.name.cmp(&right.name));
        }
    }

    pub(crate) fn add_runtime_class(&mut self, class: &RuntimeClass, place: &InputPosition, problems: &mut Problems) {
        let Some(name) = self.claim("RuntimeClass", &class.metadata, false, place, problems) else { return };
        let overhead = class.overhead.as_ref().and_then(|overhead| overhead.pod_fixed.as_ref());
        if check(overhead, &format!("RuntimeClass {name:?}"), place, &["overhead", "podFixed"], problems) {
            self.admission.rules.add_runtime(&name, class);
        }
    }

    /// Whether to keep a pod for its admission. Until all objects are known, any new pod may need it.
    pub(super) fn awaits_admission(&self, pod: &api::Pod) -> bool {
        self.is_new(&pod.metadata) && (!self.admission.is_closed || self.admission.concerns(pod))
    }

    pub(super) fn is_new(&self, metadata: &ObjectMeta) -> bool {
        !self.admission.is_off && admission::is_new(metadata)
    }

    /// Keeps a new claim, which becomes the next storage object.
    pub(super) fn keep_claim<T: Stored>(&mut self, object: &T, place: &InputPosition) {
        if let Some(claim) = object.claim() {
            let (claim, index, place) = (claim.clone(), self.storage.len(), place.clone());
            self.new_claims.push(NewClaim { claim, index, place, workload: self.admission.workload });
        }
    }

    /// Admits all new claims and pods. Those that the API server refuses are left out.
    pub(super) fn admit(&mut self, made: &mut Summary, problems: &mut Problems) {
        let claims = std::mem::take(&mut self.new_claims);
        if claims.is_empty() && !self.admission.has_rules() {
            return;
        }
        if !self.admission.quotas.is_empty() {
            self.count_existing(&claims);
        }
        let mut refused: BTreeMap<usize, Short> = BTreeMap::new();
        let without = self.admit_claims(claims, &mut refused, problems);
        if self.admission.has_rules() {
            self.admit_pods(&without, made, &mut refused, problems);
        }
        for (workload, Short { count, reason, place }) in refused {
            if let Some(text) = made.refuse(workload, count, &reason) {
                problems.warning(place.unwrap_or_else(InputPosition::nowhere), text);
            }
        }
        made.notes.extend(self.selector_notes());
    }

    fn count_existing(&mut self, new: &[NewClaim]) {
        let new: HashSet<usize> = new.iter().map(|claim| claim.index).collect();
        let claims = self.storage.iter().enumerate().filter_map(|(index, object)| match object {
            StorageObject::Claim(claim) if !new.contains(&index) => Some(claim),
            _ => None,
        });
        let pods = self.pods.iter().filter(|draft| draft.new.is_none()).map(|draft| &draft.info);
        let classes: Vec<(&str, i32)> =
            self.priorities.iter().map(|(name, (value, _))| (name.as_str(), *value)).chain(super::BUILT_IN).collect();
        // Pods keep the value of their priority class only.
        let class_of = |pod: &PodInfo| classes.iter().find(|(_, value)| *value == pod.priority).map(|(name, _)| *name);
        self.admission.charges = quota::count_existing(&mut self.admission.quotas, pods, claims, class_of);
    }

    /// Returns the refused claims of workloads with the reasons.
    fn admit_claims(
        &mut self,
        claims: Vec<NewClaim>,
        refused: &mut BTreeMap<usize, Short>,
        problems: &mut Problems,
    ) -> BTreeMap<String, String> {
        let (mut without, mut gone) = (BTreeMap::new(), BTreeSet::new());
        for NewClaim { mut claim, index, place, workload } in claims {
            workloads::fill_claim(&mut claim, self.workloads.class.as_ref());
            let key = workloads::key(&claim.metadata);
            if let Err(reason) = self.admission.admit_claim(&claim) {
                gone.insert(index);
                match workload {
                    Some(workload) => {
                        let name = claim.metadata.name.as_deref().unwrap_or_default();
                        without.insert(key, format!("persistentvolumeclaims {name:?} is forbidden: {reason}"));
                        refused.entry(workload).or_default().place.get_or_insert(place);
                    }
                    None => {
                        let text = format!("PersistentVolumeClaim {key:?} is not created: {reason}");
                        problems.warning(place, text);
                    }
                }
            } else if let (Some(known), Ok(read)) = (self.storage.get_mut(index), claim.read()) {
                *known = read;
            }
        }
        if !gone.is_empty() {
            let mut index = 0..;
            self.storage.retain(|_| index.next().is_none_or(|index| !gone.contains(&index)));
        }
        without
    }

    /// Pods that name their node count first: they run already.
    fn admit_pods(
        &mut self,
        without: &BTreeMap<String, String>,
        made: &mut Summary,
        refused: &mut BTreeMap<usize, Short>,
        problems: &mut Problems,
    ) {
        let mut drafts = std::mem::take(&mut self.pods);
        let mut order: Vec<usize> = (0..drafts.len()).collect();
        let mut begun = BTreeSet::new();
        // The first pod of an ordered StatefulSet is created with those of other workloads.
        let is_next = |draft: &Draft, begun: &mut BTreeSet<usize>| {
            let ordered = draft.workload.filter(|&workload| made.is_ordered(workload));
            ordered.is_some_and(|workload| !begun.insert(workload))
        };
        order.sort_by_cached_key(|&index| {
            let draft = drafts.get(index).filter(|draft| draft.info.node_name.is_none());
            draft.map(|draft| is_next(draft, &mut begun))
        });
        let (mut gone, mut admitted) = (BTreeSet::new(), Vec::new());
        for index in order {
            let Some(draft) = drafts.get_mut(index) else { continue };
            let Some(new) = draft.new.take().filter(|new| self.admission.concerns(&new.pod)) else { continue };
            if draft.info.finished {
                continue;
            }
            // A StatefulSet creates its pods one after the other.
            let stopped = draft.workload.filter(|&workload| made.is_ordered(workload));
            let stopped = stopped.and_then(|workload| refused.get(&workload)).filter(|refused| refused.count > 0);
            let reason = match stopped {
                Some(refused) => Err(refused.reason.clone()),
                None => self.admit_pod(draft, *new, without, problems),
            };
            let reason = match reason {
                Err(reason) => reason,
                Ok(pod) => {
                    admitted.extend(draft.workload.is_none().then_some(pod));
                    continue;
                }
            };
            gone.insert(index);
            match draft.workload {
                Some(workload) => {
                    let refused = refused.entry(workload).or_default();
                    refused.count += 1;
                    refused.place.get_or_insert_with(|| draft.place.clone());
                    if refused.reason.is_empty() {
                        refused.reason = reason;
                    }
                }
                None => {
                    let text = format!("pod {:?} is not created: {reason}", draft.info.key());
                    problems.warning(draft.place.clone(), text.clone());
                    made.refused.push(Refused { of: draft.info.key(), reason, text });
                }
            }
        }
        // Other pods may have been charged later.
        let copies =
            admitted.iter().filter_map(|pod| Some((workloads::key(&pod.metadata), self.admission.copies(pod)?)));
        made.copies = copies.collect();
        let mut index = 0..;
        drafts.retain(|_| index.next().is_none_or(|index| !gone.contains(&index)));
        self.pods = drafts;
    }

    /// Reads the pod again after its admission, and returns it.
    fn admit_pod(
        &mut self,
        draft: &mut Draft,
        new: NewPod,
        without: &BTreeMap<String, String>,
        problems: &mut Problems,
    ) -> Result<api::Pod, String> {
        let NewPod { mut pod, pod_level } = new;
        if !without.is_empty() && draft.workload.is_some() {
            let namespace = admission::namespace(&pod.metadata).to_owned();
            let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
            let mut claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
            if let Some(reason) = claims.find_map(|claim| without.get(&format!("{namespace}/{}", claim.claim_name))) {
                return Err(reason.clone());
            }
        }
        self.admission.admit_pod((&mut pod, &draft.info.uid), pod_level, draft.later.is_some())?;
        match ingest::pod(&pod, self.features) {
            Ok(info) => {
                self.texts.iter_mut().for_each(|texts| texts.add_pod(&pod));
                draft.info = self.share_class(info);
            }
            Err(error) => problems.error(draft.place.clone(), format!("pod {:?}: {error}", draft.info.key())),
        }
        Ok(pod)
    }

    fn selector_notes(&self) -> Vec<String> {
        let mut counts: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for draft in self.pods.iter().filter(|draft| draft.is_new) {
            *counts.entry(Arc::clone(&draft.info.class.namespace)).or_default() += 1;
        }
        let note = |(namespace, count): (Arc<str>, usize)| {
            let selector = &self.admission.rules.selector(&namespace)?.text;
            let pods = if count == 1 { "pod" } else { "pods" };
            Some(format!(
                "{count} {pods} of namespace {namespace} got its node selector {selector:?}, as from the admission plugin \
                 PodNodeSelector, which kube-apiserver does not enable by default"
            ))
        };
        counts.into_iter().filter_map(note).collect()
    }
}
