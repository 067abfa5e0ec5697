//! Notes about parts that the answer leaves out: objects that are not modelled, and objects that the input lacks.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1 as api;

use super::{Draft, Gatherer};
use crate::{
    admission::unmodelled::NewPod,
    defaults,
    labels::Labels,
    missing::{self, Missing},
    workloads::Summary,
};

/// The namespaces that every cluster has.
const INITIAL: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
/// The owners that are read.
const OWNERS: [&str; 5] = ["DaemonSet", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"];

impl Gatherer {
    /// Counts the controller of a pod of the input.
    pub(super) fn see_owner(&mut self, pod: &api::Pod) {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let mut owners = pod.metadata.owner_references.iter().flatten();
        let Some(owner) = owners.find(|owner| owner.controller == Some(true)) else { return };
        let is_finished = matches!(phase, Some("Succeeded" | "Failed"));
        if owner.kind != "Node" && !is_finished && !self.admission.is_closed {
            let namespace = crate::admission::namespace(&pod.metadata);
            *self.owners.entry(format!("{} {namespace}/{}", owner.kind, owner.name)).or_default() += 1;
        }
    }

    /// All notes, for a whole cluster.
    pub(super) fn note(&self, made: &mut Summary) {
        let new: Vec<&Draft> = self.pods.iter().filter(|draft| draft.is_new && !draft.info.finished).collect();
        let mut labels: BTreeMap<Arc<str>, Labels> = BTreeMap::new();
        for draft in &new {
            let namespace = &draft.info.class.namespace;
            if !labels.contains_key(namespace) {
                let known = self.namespaces.get(namespace).cloned();
                let known = known.unwrap_or_else(|| defaults::namespace_labels(namespace));
                labels.insert(Arc::clone(namespace), known);
            }
        }
        let mut pods = Vec::new();
        for draft in &new {
            let class = &draft.info.class;
            let workload = draft.workload.and_then(|workload| made.title(workload));
            let Some(namespace_labels) = labels.get(&class.namespace) else { continue };
            pods.push(NewPod { namespace: &class.namespace, namespace_labels, labels: &class.labels, workload });
        }
        let notes = self.admission.unmodelled.notes(&pods);
        let missing = self.missing(&new);
        made.notes.extend(notes);
        made.notes.extend(missing.line());
    }

    fn missing(&self, new: &[&Draft]) -> Missing {
        let mut missing = Missing::default();
        if !self.admission.rules.knows_runtimes() {
            new.iter().filter_map(|draft| draft.runtime.as_ref()).for_each(|name| missing.add_runtime(name));
        }
        for draft in &self.pods {
            let namespace = &draft.info.class.namespace;
            for template in draft.made.values() {
                if !self.templates.contains_key(&(Arc::clone(namespace), template.as_str().into())) {
                    missing.add_template(namespace, template);
                }
            }
        }
        missing.see_storage(&self.storage);
        let infos = || self.pods.iter().map(|draft| &draft.info).filter(|info| !info.finished);
        missing.see_pods(infos(), &self.storage, &self.devices);
        for (title, pods) in &self.owners {
            if !self.has_owner(title) {
                missing.add_owner(title, *pods);
            }
        }
        let are_selected = infos().any(|info| info.node_name.is_none() && missing::selects_namespaces(info));
        if are_selected || !self.namespaces.is_empty() {
            let counts = |draft: &&Draft| (are_selected || draft.is_new) && !draft.info.finished;
            for draft in self.pods.iter().filter(counts) {
                let namespace = &draft.info.class.namespace;
                if !self.namespaces.contains_key(namespace) && !INITIAL.contains(&&**namespace) {
                    missing.add_namespace(namespace);
                }
            }
        }
        missing
    }

    /// Whether the input has an owner, or the Deployment that owns it.
    fn has_owner(&self, title: &str) -> bool {
        let (kind, key) = title.split_once(' ').unwrap_or_default();
        let Some(kind) = OWNERS.into_iter().find(|known| *known == kind) else {
            return self.admission.unmodelled.has_custom(title);
        };
        let has = |kind, key: &str| self.names.contains_key(&(kind, key.to_owned()));
        let deployment = || key.rsplit_once('-').is_some_and(|(name, _)| has("Deployment", name));
        has(kind, key) || kind == "ReplicaSet" && deployment()
    }
}
