//! Translates the flags into changes of each object.

use std::collections::{BTreeMap, BTreeSet};

use flotilla_cluster::Edit;
use serde_json::{Map, Value, json};

use super::{
    args::Changes,
    removal::AUTO,
    survey::{ObjectName, Survey, is_custom, key, without_group},
};
use crate::input;

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const HOSTNAME: &str = "kubernetes.io/hostname";
/// The limit of nodes that one flag adds, above the size of any cluster.
const MOST_NODES: usize = 20_000;

#[derive(Debug, Default)]
pub(super) struct Plan {
    gone: BTreeSet<ObjectName>,
    /// The drained nodes, in the order of the flags.
    pub(super) drained: Vec<String>,
    /// The pods of an old template, as `namespace/name`, each with the name of its workload.
    outdated: BTreeMap<String, String>,
    /// The workloads with another template, and their ReplicaSets.
    previous: BTreeSet<ObjectName>,
    /// The last edited object is one of them.
    is_previous: bool,
    /// Evicted pods, as `namespace/name`.
    unbound: BTreeSet<String>,
    cordoned: BTreeSet<String>,
    uncordoned: BTreeSet<String>,
    scaled: BTreeMap<ObjectName, i64>,
    /// Objects of the applied files, with the current replicas.
    applied: BTreeMap<ObjectName, Option<Value>>,
    added: Vec<Value>,
    /// Nodes that could go are removed.
    pub(super) is_searched: bool,
    /// The changes as text, one line each.
    pub(super) words: Vec<String>,
    pub(super) notes: Vec<String>,
}

impl Plan {
    /// Computes the changes. `applied`: the objects of the applied files.
    ///
    /// # Errors
    /// One line for each invalid flag.
    pub(super) fn new(
        changes: &Changes,
        survey: &Survey,
        applied: &BTreeMap<ObjectName, Option<Value>>,
    ) -> Result<Self, Vec<String>> {
        let (mut plan, mut errors) = (Self::default(), Vec::new());
        plan.apply(survey, applied);
        for flag in &changes.add_nodes {
            errors.extend(plan.add_nodes(flag, survey).map_err(|error| format!("--add-nodes {flag}: {error}")).err());
        }
        for (flag, names) in [
            ("drain", &changes.drain),
            ("remove-node", &changes.remove_node),
            ("cordon", &changes.cordon),
            ("uncordon", &changes.uncordon),
        ] {
            for name in names {
                if flag == "remove-node" && name == AUTO {
                    plan.is_searched = true;
                } else if survey.objects.contains_key(&("Node".to_owned(), name.clone())) {
                    plan.node(flag, name, survey);
                } else {
                    errors.push(format!("--{flag} {name}: the input holds no Node of this name"));
                }
            }
        }
        for flag in &changes.scale {
            errors.extend(plan.scale(flag, survey, applied).map_err(|error| format!("--scale {flag}: {error}")).err());
        }
        for flag in &changes.delete {
            errors.extend(plan.delete(flag, survey).map_err(|error| format!("--delete {flag}: {error}")).err());
        }
        if changes.reschedule_all {
            plan.reschedule(survey);
        }
        if errors.is_empty() { Ok(plan) } else { Err(errors) }
    }

    fn say(&mut self, words: impl Into<String>) {
        self.words.push(words.into());
    }

    /// Replaces objects. Pods of a changed template are outdated or, without an update strategy, deleted.
    fn apply(&mut self, survey: &Survey, applied: &BTreeMap<ObjectName, Option<Value>>) {
        for (key, template) in applied {
            let known = survey.objects.get(key);
            self.applied.insert(key.clone(), known.and_then(|known| known.replicas.clone()));
            let Some(known) = known else { continue };
            let before = known.applied.as_ref().or(known.template.as_ref());
            let is_same = match (before, template) {
                (Some(before), Some(after)) if known.applied.is_some() => before == after,
                (Some(before), Some(after)) if known.is_new => covers(before, after) && covers(after, before),
                (Some(before), Some(after)) => covers(before, after),
                _ => true,
            };
            if !is_same {
                self.replace_pods(key, survey);
            }
        }
        let is_known = |key: &&ObjectName| survey.has(key);
        let (replaced, all) = (applied.keys().filter(is_known).count(), applied.len());
        if all > 0 {
            let objects = if all == 1 { "object" } else { "objects" };
            self.say(format!("apply {all} {objects}, of which {replaced} replace others"));
        }
    }

    fn replace_pods(&mut self, key: &ObjectName, survey: &Survey) {
        let controlled = survey.controlled(key);
        match key.0.as_str() {
            "Deployment" | "StatefulSet" | "DaemonSet" => {
                let name = key.1.split_once('/').map_or(key.1.as_str(), |(_, name)| name);
                let (pods, others): (Vec<_>, Vec<_>) = controlled.into_iter().partition(|key| key.0 == "Pod");
                self.outdated.extend(pods.into_iter().map(|pod| (pod.1, name.to_owned())));
                self.previous.insert(key.clone());
                self.previous.extend(others.iter().cloned());
                self.gone.extend(others);
            }
            // The template counts for new pods alone.
            "ReplicationController" => {}
            kind => {
                if is_custom(kind) {
                    self.notes.push(format!(
                        "note: the pods of {} {} are replaced all at once: the update strategy of its controller is not \
                         modelled",
                        without_group(kind),
                        key.1
                    ));
                }
                self.gone.extend(controlled);
            }
        }
    }

    fn add_nodes(&mut self, flag: &str, survey: &Survey) -> Result<(), String> {
        let (count, path) =
            flag.split_once('=').ok_or("write a number, = and a file with a Node, such as 3=node.yaml")?;
        let count: usize = count.parse().ok().filter(|count| *count <= MOST_NODES).ok_or_else(|| {
            format!("{count:?} is no number of nodes; write one up to {MOST_NODES}, such as 3=node.yaml")
        })?;
        let (name, text) = input::read(path.as_ref())?;
        let mut model = flotilla_cluster::parse(&name, text).map_err(|errors| errors.join("\n"))?;
        if model.get("kind").and_then(Value::as_str) == Some("List") {
            model = model.pointer("/items/0").cloned().unwrap_or_default();
        }
        if model.get("kind").and_then(Value::as_str) != Some("Node") {
            return Err(format!("{name}: expected an object with kind: Node"));
        }
        let base = model.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("node").to_owned();
        let is_taken = |name: &String| survey.objects.contains_key(&("Node".to_owned(), name.clone()));
        let free = (1..).map(|number: usize| format!("{base}-{number}")).filter(|name| !is_taken(name));
        let known: BTreeSet<String> =
            self.added.iter().filter_map(|node| Some(node.pointer("/metadata/name")?.as_str()?.to_owned())).collect();
        let names: Vec<String> = free.filter(|name| !known.contains(name)).take(count).collect();
        for name in &names {
            let mut node = model.clone();
            if let Some(metadata) = node.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.retain(|field, _| matches!(field.as_str(), "labels" | "annotations"));
                metadata.insert("name".to_owned(), json!(name));
                if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
                    labels.insert(HOSTNAME.to_owned(), json!(name));
                }
            }
            self.added.push(node);
        }
        if let (Some(first), Some(last)) = (names.first(), names.last()) {
            let nodes = if count == 1 { first.clone() } else { format!("{first} to {last}") };
            self.say(format!("add {nodes}"));
        }
        Ok(())
    }

    fn node(&mut self, flag: &str, name: &str, survey: &Survey) {
        let is_removed = flag == "remove-node";
        if flag == "drain" && !self.drained.iter().any(|known| known == name) {
            self.drained.push(name.to_owned());
        }
        match flag {
            "uncordon" => _ = self.uncordoned.insert(name.to_owned()),
            "remove-node" => self.gone.extend(["Node", "CSINode"].map(|kind| (kind.to_owned(), name.to_owned()))),
            _ => _ = self.cordoned.insert(name.to_owned()),
        }
        let (mut evicted, mut lost) = (0, 0);
        if is_removed {
            let on_node = |known: &super::survey::SurveyedPod| known.node.as_deref() == Some(name) && !known.is_over;
            for (key, known) in survey.objects.iter().filter(|(key, known)| key.0 == "Pod" && on_node(known)) {
                match known.owner {
                    _ if known.is_mirror || known.is_of("DaemonSet") => _ = self.gone.insert(key.clone()),
                    Some(_) => {
                        evicted += 1;
                        self.unbound.insert(key.1.clone());
                    }
                    None => {
                        lost += 1;
                        self.gone.insert(key.clone());
                    }
                }
            }
        }
        let verb = if is_removed { "remove" } else { flag };
        let pods = |count| if count == 1 { "pod" } else { "pods" };
        let evicted = (evicted > 0).then(|| format!("{evicted} {} recreated elsewhere", pods(evicted)));
        let lost = (lost > 0).then(|| format!("{lost} {} without a controller lost", pods(lost)));
        let becomes: Vec<String> = evicted.into_iter().chain(lost).collect();
        let colon = if becomes.is_empty() { "" } else { ": " };
        self.say(format!("{verb} {name}{colon}{}", becomes.join("; ")));
    }

    fn scale(
        &mut self,
        flag: &str,
        survey: &Survey,
        applied: &BTreeMap<ObjectName, Option<Value>>,
    ) -> Result<(), String> {
        let (words, count) = flag.rsplit_once('=').ok_or("write KIND/NAME=N, such as deployment/web=40")?;
        let count: i32 = count.parse().ok().filter(|count| *count >= 0).ok_or_else(|| {
            format!("{count:?} is no number of replicas; write one of 0 or more, such as deployment/web=40")
        })?;
        let mut all = Survey::default();
        let names = survey.objects.keys().chain(applied.keys());
        all.objects.extend(names.map(|key| (key.clone(), super::survey::SurveyedPod::default())));
        let key = all.find(words)?;
        if !matches!(key.0.as_str(), "Deployment" | "StatefulSet" | "ReplicaSet" | "ReplicationController") {
            return Err(format!("a {} has no replicas", key.0));
        }
        self.say(format!("scale {} {} to {count}", key.0, key.1));
        self.scaled.insert(key, i64::from(count));
        Ok(())
    }

    fn delete(&mut self, flag: &str, survey: &Survey) -> Result<(), String> {
        let key = survey.find(flag)?;
        let known = survey.objects.get(&key);
        self.say(format!("delete {} {}", key.0, key.1));
        match (key.0.as_str(), known) {
            ("Node", _) => self.node("remove-node", &key.1.clone(), survey),
            ("Pod", Some(known)) if known.owner.is_some() && !known.is_mirror => _ = self.unbound.insert(key.1),
            _ => {
                self.gone.extend(survey.controlled(&key));
                self.gone.insert(key);
            }
        }
        Ok(())
    }

    fn reschedule(&mut self, survey: &Survey) {
        let pods = survey.objects.iter().filter(|(key, known)| {
            key.0 == "Pod" && known.node.is_some() && !known.is_over && !known.is_mirror && !known.is_of("DaemonSet")
        });
        let before = self.unbound.len();
        self.unbound.extend(pods.map(|(key, _)| key.1.clone()));
        let count = self.unbound.len() - before;
        self.say(format!("reschedule {count} {}", if count == 1 { "pod" } else { "pods" }));
    }
}

impl Edit for Plan {
    fn edit(&mut self, kind: &str, object: &mut Map<String, Value>, is_applied: bool) -> bool {
        let key = key(kind, object);
        let applied = self.applied.get(&key);
        if !is_applied && (applied.is_some() || self.gone.contains(&key) || is_of_gone_node(self, kind, object)) {
            self.is_previous = self.previous.contains(&key);
            return false;
        }
        let replicas = self.scaled.get(&key).map(|count| json!(count));
        let kept = || applied.filter(|_| is_applied && !has_replicas(object)).cloned().flatten();
        if let Some(replicas) = replicas.or_else(kept)
            && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
        {
            spec.insert("replicas".to_owned(), replicas);
        }
        match kind {
            "Pod" if self.unbound.contains(&key.1) => unbind(object),
            "Node" if self.uncordoned.contains(&key.1) => cordon(object, false),
            "Node" if self.cordoned.contains(&key.1) => cordon(object, true),
            _ => {}
        }
        true
    }

    fn added(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.added)
    }

    fn is_previous(&mut self) -> bool {
        std::mem::take(&mut self.is_previous)
    }

    fn outdated(&mut self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.outdated)
    }
}

fn has_replicas(object: &Map<String, Value>) -> bool {
    object.get("spec").is_some_and(|spec| spec.get("replicas").is_some())
}

/// Whether the object is a ResourceSlice of a removed node.
fn is_of_gone_node(plan: &Plan, kind: &str, object: &Map<String, Value>) -> bool {
    let node = object.get("spec").and_then(|spec| spec.get("nodeName")).and_then(Value::as_str);
    kind == "ResourceSlice" && node.is_some_and(|node| plan.gone.contains(&("Node".to_owned(), node.to_owned())))
}

fn unbind(pod: &mut Map<String, Value>) {
    pod.remove("status");
    if let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("deletionTimestamp");
    }
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("nodeName");
    }
}

fn cordon(node: &mut Map<String, Value>, is_cordoned: bool) {
    let spec = node.entry("spec").or_insert_with(|| json!({}));
    let Some(spec) = spec.as_object_mut() else { return };
    spec.insert("unschedulable".to_owned(), json!(is_cordoned));
    let taints = spec.entry("taints").or_insert_with(|| json!([]));
    let Some(taints) = taints.as_array_mut() else { return };
    taints.retain(|taint| taint.get("key").and_then(Value::as_str) != Some(UNSCHEDULABLE));
    if is_cordoned {
        taints.push(json!({"key": UNSCHEDULABLE, "effect": "NoSchedule"}));
    }
}

/// Whether `known`, which has defaults too, contains all of `wanted`.
fn covers(known: &Value, wanted: &Value) -> bool {
    match (known, wanted) {
        (Value::Object(known), Value::Object(wanted)) => wanted.iter().all(|(key, wanted)| match known.get(key) {
            Some(known) => covers(known, wanted),
            None => is_nothing(wanted),
        }),
        (Value::Array(known), Value::Array(wanted)) => {
            known.len() == wanted.len() && known.iter().zip(wanted).all(|(known, wanted)| covers(known, wanted))
        }
        (known, wanted) => known == wanted || plain(known) == plain(wanted) && plain(known).is_some(),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(is_nothing),
        Value::Array(elements) => elements.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Quantities may be numbers.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_the_same_where_only_defaults_are_added() {
        let known = json!({"spec": {"containers": [{"name": "a", "image": "x", "resources": {"requests": {"cpu": "2"}}}], "dnsPolicy": "ClusterFirst"}});
        let same = json!({"metadata": {"labels": {}}, "spec": {"containers": [{"name": "a", "image": "x", "resources": {"requests": {"cpu": 2}}}]}});
        let other = json!({"spec": {"containers": [{"name": "a", "image": "y"}]}});
        let more = json!({"spec": {"containers": [{"name": "a", "image": "x"}], "nodeSelector": {"disk": "ssd"}}});
        assert!(covers(&known, &same));
        assert!(!covers(&known, &other) && !covers(&known, &more));
    }
}
