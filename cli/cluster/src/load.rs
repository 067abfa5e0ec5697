//! Reads documents and lists into objects.

use std::collections::{BTreeMap, BTreeSet};

use flotilla_framework::{devices::objects::DeviceKind, ingest::beta, volumes::objects::StorageKind};
use flotilla_workloads::Workload;
use flotilla_yaml::Fault;
use k8s_openapi::{
    Resource,
    api::{core::v1 as api, resource::v1 as resource, storage::v1 as storage},
};
use serde_json::{Map, Value};

use super::{
    advice,
    custom::{PodTemplate, shown},
    decode::decode,
    devices::Device,
    edit::Edit,
    kinds::{self, Found, Kind, Unknown},
    objects::Gatherer,
    place::{InputPosition, Path},
    problem::Problems,
    selecting::Selecting,
    source::Sources,
    storage::Stored,
};

mod custom;
mod naming;
mod old_versions;
mod previous;

/// Reads texts and gathers their objects.
pub struct Loader<'a> {
    sources: &'a mut Sources,
    gatherer: &'a mut Gatherer,
    problems: &'a mut Problems,
    /// Called for each object.
    seen: &'a dyn Fn(),
    /// Ignored objects by kind.
    ignored: BTreeMap<String, usize>,
    /// Objects of Helm's hooks by kind, which are not run.
    hooks: BTreeMap<String, usize>,
    /// The number of objects by kind, namespace and `generateName`.
    generated: BTreeMap<(String, String, String), usize>,
    taken: BTreeSet<String>,
    rules: &'a [PodTemplate],
    /// For each rule, whether an object has its kind.
    is_used: Vec<bool>,
    /// Custom kinds with a reported pod template, and reported older versions.
    reported: BTreeSet<String>,
    edit: Option<&'a mut (dyn Edit + 'static)>,
    /// Objects read now are applied to those read before.
    is_applied: bool,
}

struct Object {
    value: Value,
    place: InputPosition,
    /// The element kind of its list.
    kind: Option<&'static str>,
}

impl<'a> Loader<'a> {
    /// Keeps the texts in `sources`, adds objects to `gatherer`, reports errors to `problems` and calls `seen` for each object.
    pub fn new(
        sources: &'a mut Sources,
        gatherer: &'a mut Gatherer,
        problems: &'a mut Problems,
        seen: &'a dyn Fn(),
    ) -> Self {
        let (rules, is_used, reported) = (&[][..], Vec::new(), BTreeSet::new());
        let (ignored, edit, is_applied) = (BTreeMap::new(), None, false);
        let (hooks, generated, taken) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self {
            sources,
            gatherer,
            problems,
            seen,
            ignored,
            hooks,
            generated,
            taken,
            rules,
            is_used,
            reported,
            edit,
            is_applied,
        }
    }

    /// Makes pods from custom resources by these rules, in addition to the known ones.
    pub fn with_pod_templates(self, rules: &'a [PodTemplate]) -> Self {
        Self { rules, is_used: vec![false; rules.len()], ..self }
    }

    /// Edits each object before it is gathered.
    pub fn with_edit(self, edit: Option<&'a mut (dyn Edit + 'static)>) -> Self {
        Self { edit, ..self }
    }

    /// Gathers documents again. Those from `applied` on are applied to the others.
    pub fn again(&mut self, documents: std::ops::Range<usize>, applied: usize) {
        for document in documents {
            self.is_applied = document >= applied;
            self.read_document(document);
        }
        self.is_applied = false;
        let added = self.edit.as_mut().map(|edit| edit.added()).unwrap_or_default();
        self.gatherer.facts.outdated = self.edit.as_mut().map(|edit| edit.outdated()).unwrap_or_default();
        for value in added {
            self.object(Object { value, place: InputPosition::nowhere(), kind: None });
        }
    }

    /// Reports an error that is in no text; the sentence names the place.
    pub fn complain(&mut self, sentence: String) {
        self.problems.error_said(sentence);
    }

    /// Reports a warning that is in no text; the sentence names the place.
    pub fn warn(&mut self, sentence: String) {
        self.problems.warning_said(sentence);
    }

    /// Adds one object of a list that is in no file.
    pub fn element(&mut self, value: Value, kind: &'static str) {
        (self.seen)();
        self.object(Object { value, place: InputPosition::nowhere(), kind: Some(kind) });
    }

    /// One line for each rule that matches no object.
    pub fn unused_rules(&self) -> Vec<String> {
        let unused = self.rules.iter().zip(&self.is_used).filter(|(_, is_used)| !**is_used);
        unused.map(|(rule, _)| rule.unused()).collect()
    }

    /// One line for each group of objects without an effect: ignored objects, and hooks of Helm.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        notes.extend(counted(&self.ignored).map(|(objects, kinds)| format!("ignored {objects}: {kinds}")));
        let hooks = counted(&self.hooks);
        notes.extend(
            hooks.map(|(objects, kinds)| format!("not run: {objects} with the annotation helm.sh/hook: {kinds}")),
        );
        notes
    }

    /// Reads a text; `name` is its name in messages.
    pub fn text(&mut self, name: String, text: String) {
        let problems_before = self.problems.error_count();
        let mut is_empty = true;
        let documents = self.sources.add(name.clone(), text);
        for document in documents {
            is_empty &= !self.read_document(document);
        }
        if is_empty && self.problems.error_count() == problems_before {
            self.problems.error_said(format!("{name}: holds no object; expected Kubernetes objects in YAML or JSON"));
        }
    }

    /// Whether the document is not empty.
    fn read_document(&mut self, document: usize) -> bool {
        match self.sources.decode(document) {
            Ok(Value::Null) => return false,
            Ok(value) => self.document(value, InputPosition::document(document)),
            Err(faults) => {
                for Fault { mark, text, other } in faults {
                    let other = other.and_then(|mark| self.sources.position(document, mark));
                    let text = other.map_or_else(|| text.clone(), |other| format!("{text} {other}"));
                    self.problems.error_at(document, mark, text);
                }
                return false;
            }
        }
        true
    }

    fn document(&mut self, value: Value, place: InputPosition) {
        let mut rest = vec![Object { value, place, kind: None }];
        while let Some(object) = rest.pop() {
            (self.seen)();
            let elements = self.object(object);
            rest.extend(elements.into_iter().rev());
        }
    }

    /// Gathers one object; returns the elements if it is a list.
    fn object(&mut self, object: Object) -> Vec<Object> {
        let Object { mut value, place, kind: of_list } = object;
        let Value::Object(fields) = &mut value else {
            let found = match &value {
                Value::Array(_) => "a list",
                Value::Null => "nothing",
                _ => "a single value",
            };
            let expected = || format!("found {found}, expected a Kubernetes object with apiVersion, kind and metadata");
            let known = self.text_of(&place).and_then(advice::of_text);
            let text = known.map_or_else(expected, str::to_owned);
            self.problems.error(place, text);
            return Vec::new();
        };
        self.gatherer.see(fields, of_list);
        let Some(kind) = self.kind(fields, &place, of_list) else { return Vec::new() };
        if kind == Kind::Custom && self.is_custom_list(fields) {
            return self.custom_list(fields, &place);
        }
        let name = edited_kind(kind, fields, of_list);
        if makes_pods(kind) && naming::is_hook(fields) {
            *self.hooks.entry(name).or_default() += 1;
            return Vec::new();
        }
        self.generate_name(&name, fields);
        if kind == Kind::Custom && !self.show_sources(fields, &place) {
            return Vec::new();
        }
        if !matches!(kind, Kind::List(_)) && !self.keeps(&name, fields, &place) {
            self.drop_previous(kind, value, place);
            return Vec::new();
        }
        self.gather(kind, value, place)
    }

    /// Gathers one object of a known kind; returns the elements if it is a list.
    fn gather(&mut self, kind: Kind, mut value: Value, place: InputPosition) -> Vec<Object> {
        let Value::Object(fields) = &mut value else { return Vec::new() };
        match kind {
            Kind::List(of) => return self.list(fields, &place, of),
            Kind::Ignored(kind) if self.gatherer.reads_group(kind, fields) => match fields.contains_key("items") {
                true => return self.list(fields, &place, Some(kind)),
                false => self.gatherer.gather_group(kind, value, place, self.problems),
            },
            Kind::Ignored(kind) => {
                let elements = fields.get("items").and_then(Value::as_array).map_or(1, Vec::len);
                *self.ignored.entry(kind.to_owned()).or_default() += elements;
            }
            Kind::Custom if self.gatherer.reads_coscheduling(fields) => {
                self.gatherer.add_coscheduling(fields, place, self.problems);
            }
            Kind::Custom => self.custom(std::mem::take(fields), &place),
            Kind::Node => {
                if let Some(node) = decode(value, &place, self.problems) {
                    self.gatherer.add_node(node, place, self.problems);
                }
            }
            Kind::Pod => {
                if let Some(pod) = decode(value, &place, self.problems) {
                    self.gatherer.add_pod(pod, place, self.problems);
                }
            }
            Kind::PriorityClass => {
                if let Some(class) = decode(value, &place, self.problems) {
                    self.gatherer.add_priority_class(&class, place, self.problems);
                }
            }
            Kind::PodDisruptionBudget => {
                if let Some(budget) = decode(value, &place, self.problems) {
                    self.gatherer.add_budget(budget, &place, self.problems);
                }
            }
            Kind::Namespace => {
                if let Some(namespace) = decode(value, &place, self.problems) {
                    self.gatherer.add_namespace(namespace, &place, self.problems);
                }
            }
            Kind::Admission(kind) => self.admission(kind, value, &place),
            Kind::Service => self.selecting::<api::Service>(value, &place),
            Kind::ReplicationController => self.controller(value, place, Workload::ReplicationController),
            Kind::ReplicaSet => self.controller(value, place, Workload::ReplicaSet),
            Kind::StatefulSet => self.controller(value, place, Workload::StatefulSet),
            Kind::Workload(kinds::Workload::CronJob) => self.workload(value, place, Workload::CronJob),
            Kind::Workload(kinds::Workload::DaemonSet) => self.workload(value, place, Workload::DaemonSet),
            Kind::Workload(kinds::Workload::Deployment) => self.workload(value, place, Workload::Deployment),
            Kind::Workload(kinds::Workload::Job) => self.workload(value, place, Workload::Job),
            Kind::Storage(kind) => self.storage(kind, value, &place),
            Kind::Device(kind) => self.device(kind, value, &place),
        }
        Vec::new()
    }

    /// Edits an object; returns whether to keep it.
    fn keeps(&mut self, kind: &str, fields: &mut Map<String, Value>, place: &InputPosition) -> bool {
        let Some(edit) = &mut self.edit else { return true };
        let is_kept = edit.edit(kind, fields, self.is_applied);
        match edit.refusal() {
            Some(refusal) => {
                self.problems.error(place.keys(&["kind"]), refusal);
                false
            }
            None => is_kept,
        }
    }

    /// The kind of an object, or that of its list.
    fn kind(
        &mut self,
        fields: &mut Map<String, Value>,
        place: &InputPosition,
        of_list: Option<&'static str>,
    ) -> Option<Kind> {
        let name = match fields.get("kind") {
            Some(Value::String(kind)) => kind.as_str(),
            None | Some(Value::Null) if of_list.is_some() => of_list.unwrap_or_default(),
            _ => {
                let text = self.text_of(place).and_then(advice::of_text).or_else(|| advice::of_fields(fields));
                let text = text.unwrap_or("this object has no kind; expected one, such as `kind: Pod`");
                self.problems.error(place.keys(&["kind"]), text);
                return None;
            }
        };
        let version = fields.get("apiVersion").and_then(Value::as_str);
        let found = advice::of_kind(version, name).map_or_else(|| kinds::find(version, name), Err);
        match found {
            Ok(Found { kind, read_as }) => {
                if let Some(read_as) = read_as {
                    self.renew(fields, place, read_as);
                }
                Some(kind)
            }
            Err(Unknown { field, text }) => {
                self.problems.error(place.keys(&[field]), text);
                None
            }
        }
    }

    /// The text of a document, if the place is all of it.
    fn text_of(&self, place: &InputPosition) -> Option<&str> {
        place.document.filter(|_| place.path == Path::default()).and_then(|document| self.sources.text(document))
    }

    /// Reads an object of an older version as one of the current version.
    fn renew(&mut self, fields: &mut Map<String, Value>, place: &InputPosition, read_as: &str) {
        let old = fields.insert("apiVersion".to_owned(), read_as.into()).unwrap_or_default();
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
        let text = format!("apiVersion {old} of {kind} is an older version; such objects are read as {read_as}");
        if self.reported.insert(text.clone()) {
            self.problems.warning(place.keys(&["apiVersion"]), text);
        }
        old_versions::convert(old.as_str().unwrap_or_default(), fields);
    }

    fn selecting<T: Selecting>(&mut self, value: Value, place: &InputPosition) {
        if let Some(object) = decode::<T>(value, place, self.problems) {
            self.gatherer.add_selecting(object, place, self.problems);
        }
    }

    fn controller<T: Selecting + Clone>(&mut self, value: Value, place: InputPosition, of: fn(T) -> Workload) {
        let Some(object) = decode::<T>(value, &place, self.problems) else { return };
        if self.gatherer.add_selecting(object.clone(), &place, self.problems) {
            self.gatherer.add_workload(of(object), place, self.problems);
        }
    }

    fn workload<T: flotilla_objects::Object + Resource>(
        &mut self,
        value: Value,
        place: InputPosition,
        of: fn(T) -> Workload,
    ) {
        let Some(object) = decode::<T>(value, &place, self.problems) else { return };
        let workload = of(object);
        if self.gatherer.claim(T::KIND, workload.metadata(), true, &place, self.problems).is_some() {
            self.gatherer.add_workload(workload, place, self.problems);
        }
    }

    fn storage(&mut self, kind: StorageKind, value: Value, place: &InputPosition) {
        match kind {
            StorageKind::Claim => self.stored::<api::PersistentVolumeClaim>(value, place),
            StorageKind::Volume => self.stored::<api::PersistentVolume>(value, place),
            StorageKind::StorageClass => self.stored::<storage::StorageClass>(value, place),
            StorageKind::CsiDriver => self.stored::<storage::CSIDriver>(value, place),
            StorageKind::StorageCapacity => self.stored::<storage::CSIStorageCapacity>(value, place),
            StorageKind::CsiNode => self.stored::<storage::CSINode>(value, place),
            StorageKind::VolumeAttachment => self.stored::<storage::VolumeAttachment>(value, place),
        }
    }

    fn stored<T: Stored>(&mut self, value: Value, place: &InputPosition) {
        if let Some(object) = decode::<T>(value, place, self.problems) {
            self.gatherer.add_storage(object, place, self.problems);
        }
    }

    fn device(&mut self, kind: Option<DeviceKind>, value: Value, place: &InputPosition) {
        let Some(kind) = kind else { return self.device_of::<resource::ResourceClaimTemplate>(value, place) };
        match kind {
            DeviceKind::Claim => self.device_of::<resource::ResourceClaim>(value, place),
            DeviceKind::Class => self.device_of::<resource::DeviceClass>(value, place),
            DeviceKind::Slice => self.device_of::<resource::ResourceSlice>(value, place),
            // Without the fields that select by class, the rule would taint other devices.
            DeviceKind::TaintRule if value.get("spec").is_some_and(beta::selects_by_class) => {
                let text = "this DeviceTaintRule is ignored: deviceClassName and selectors are not supported, as in \
                            Kubernetes since 1.35; select by driver, pool or device instead";
                self.problems.warning(place.keys(&["spec", "deviceSelector"]), text);
            }
            DeviceKind::TaintRule => self.device_of::<resource::DeviceTaintRule>(value, place),
        }
    }

    fn device_of<T: Device>(&mut self, value: Value, place: &InputPosition) {
        if let Some(object) = decode::<T>(value, place, self.problems) {
            self.gatherer.add_device(object, place, self.problems);
        }
    }

    fn admission(&mut self, kind: kinds::Admission, value: Value, place: &InputPosition) {
        match kind {
            kinds::Admission::LimitRange => {
                if let Some(range) = decode(value, place, self.problems) {
                    self.gatherer.add_limit_range(&range, place, self.problems);
                }
            }
            kinds::Admission::ResourceQuota => {
                if let Some(quota) = decode(value, place, self.problems) {
                    self.gatherer.add_quota(&quota, place, self.problems);
                }
            }
            kinds::Admission::RuntimeClass => {
                if let Some(class) = decode(value, place, self.problems) {
                    self.gatherer.add_runtime_class(&class, place, self.problems);
                }
            }
        }
    }

    fn list(
        &mut self,
        fields: &mut Map<String, Value>,
        place: &InputPosition,
        of: Option<&'static str>,
    ) -> Vec<Object> {
        match fields.remove("items") {
            Some(Value::Array(items)) => {
                let place_of = |index| place.at(&Path::default().key("items").index(index));
                let object = |(index, value)| Object { value, place: place_of(index), kind: of };
                items.into_iter().enumerate().map(object).collect()
            }
            None | Some(Value::Null) => Vec::new(),
            Some(_) => {
                self.problems.error(place.keys(&["items"]), "items is not a list; expected a list of objects");
                Vec::new()
            }
        }
    }
}

/// The kind under which an edit knows an object. Custom resources may have the name of a kind of Kubernetes.
fn edited_kind(kind: Kind, fields: &Map<String, Value>, of_list: Option<&'static str>) -> String {
    let text = |field: &str| fields.get(field).and_then(Value::as_str).unwrap_or_default();
    match (kind, text("kind")) {
        (Kind::Custom, name) => shown(name, kinds::group(text("apiVersion"))),
        (_, "") => of_list.unwrap_or_default().to_owned(),
        (_, name) => name.to_owned(),
    }
}

/// Whether objects of the kind are pods, or become pods.
const fn makes_pods(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Pod
            | Kind::ReplicationController
            | Kind::ReplicaSet
            | Kind::StatefulSet
            | Kind::Workload(_)
            | Kind::Custom
    )
}

/// The number of objects, and of each kind; `None` if there are none.
fn counted(kinds: &BTreeMap<String, usize>) -> Option<(String, String)> {
    let count: usize = kinds.values().sum();
    let objects = if count == 1 { "1 object".to_owned() } else { format!("{count} objects") };
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    (count > 0).then(|| (objects, kinds.join(", ")))
}

#[cfg(test)]
mod tests;
