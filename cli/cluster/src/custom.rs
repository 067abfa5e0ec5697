//! Custom resources: the pods that their controllers would create, and pod templates whose pods are unknown.

use std::str::FromStr;

use flotilla_workloads::{CustomWorkload, PodNames, Workload};
use k8s_openapi::{api::core::v1::PodTemplateSpec, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde_json::{Map, Value, json};

use super::{
    decode::decode,
    place::{InputPosition, Path, Step},
    problem::Problems,
    workloads::{Origin, Planned},
};

mod known;
mod sources;

pub use sources::PodSource;

/// The fields that hold a number of pods, next to a template.
const COUNTS: [&str; 3] = ["replicas", "parallelism", "minAvailable"];
/// The limit of Jobs or StatefulSets of one custom object: about 3 KB each, so 300 MB.
const MOST_CHILDREN: i64 = 100_000;

/// Where the custom resources of a kind have their pod templates: `KIND=PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodTemplate {
    kind: String,
    group: Option<String>,
    path: Vec<Segment>,
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Key(String),
    Index(usize),
    /// All elements of a list, or all values of a mapping.
    All,
}

/// A custom resource.
pub(super) struct Custom {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) metadata: ObjectMeta,
    pub(super) fields: Map<String, Value>,
    pub(super) place: InputPosition,
}

/// How to find the pods of a custom resource.
pub(super) enum Rule<'a> {
    Given(&'a PodTemplate),
    Known(fn(&Custom, &mut Problems) -> Vec<Planned>),
}

/// The rule of a flag, or of a known controller.
pub(super) fn rule<'a>(
    given: Option<&'a PodTemplate>,
    group: &str,
    kind: &str,
    fields: &Map<String, Value>,
) -> Option<Rule<'a>> {
    given.map(Rule::Given).or_else(|| known::maker(group, kind, fields).map(Rule::Known))
}

/// A value at a path.
struct Match<'a> {
    path: Path,
    value: &'a Value,
    /// The values above it, from the root.
    above: Vec<&'a Value>,
    /// The names of the elements that `[*]` selects.
    labels: Vec<String>,
}

impl PodTemplate {
    /// Whether the rule is about this kind.
    pub(super) fn is_for(&self, kind: &str, group: &str) -> bool {
        self.kind == kind && self.group.as_deref().is_none_or(|own| own == group)
    }

    /// The message for a rule that no object matches.
    pub(super) fn unused(&self) -> String {
        format!("--pod-template {}: the input has no custom resource of kind {}", self.text, self.kind)
    }
}

impl FromStr for PodTemplate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "write KIND=PATH, such as Workflow=spec.template or MyJob.example.com=spec.tasks[*].template";
        let (kind, path) = text.split_once('=').ok_or(example)?;
        let (kind, group) = match kind.split_once('.') {
            Some((kind, group)) => (kind, Some(group.to_owned())),
            None => (kind, None),
        };
        let path = path.strip_prefix('{').and_then(|path| path.strip_suffix('}')).unwrap_or(path);
        let path = segments(path.strip_prefix('.').unwrap_or(path));
        match path {
            Some(path) if !kind.is_empty() => Ok(Self { kind: kind.to_owned(), group, path, text: text.to_owned() }),
            _ => Err(example.to_owned()),
        }
    }
}

/// The segments of a path in kubectl's notation; `None` if it is not valid.
fn segments(text: &str) -> Option<Vec<Segment>> {
    let mut found = Vec::new();
    for part in text.split('.') {
        let (key, mut rest) = part.split_at(part.find('[').unwrap_or(part.len()));
        match key {
            "" if rest.is_empty() => return None,
            "" => {}
            "*" => found.push(Segment::All),
            key => found.push(Segment::Key(key.to_owned())),
        }
        while let Some((index, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            found.push(if index == "*" { Segment::All } else { Segment::Index(index.parse().ok()?) });
            rest = after;
        }
        if !rest.is_empty() {
            return None;
        }
    }
    Some(found)
}

/// The values at a path.
fn find<'a>(root: &'a Value, path: &[Segment]) -> Vec<Match<'a>> {
    let mut found = vec![Match { path: Path::default(), value: root, above: Vec::new(), labels: Vec::new() }];
    for segment in path {
        found = found.iter().flat_map(|one| one.step(segment)).collect();
    }
    found
}

impl<'a> Match<'a> {
    fn step(&self, segment: &Segment) -> Vec<Self> {
        let child = |path: Path, value: &'a Value, label: Option<String>| Self {
            path,
            value,
            above: self.above.iter().copied().chain([self.value]).collect(),
            labels: self.labels.iter().cloned().chain(label).collect(),
        };
        match (segment, self.value) {
            (Segment::Key(key), Value::Object(fields)) => {
                fields.get(key).map(|value| child(self.path.key(key), value, None)).into_iter().collect()
            }
            (Segment::Index(index), Value::Array(list)) => {
                list.get(*index).map(|value| child(self.path.index(*index), value, None)).into_iter().collect()
            }
            (Segment::All, Value::Array(list)) => {
                let label = |index: usize, value: &Value| {
                    value.get("name").and_then(Value::as_str).map_or_else(|| index.to_string(), str::to_owned)
                };
                let all = list.iter().enumerate();
                all.map(|(index, value)| child(self.path.index(index), value, Some(label(index, value)))).collect()
            }
            (Segment::All, Value::Object(fields)) => {
                fields.iter().map(|(key, value)| child(self.path.key(key), value, Some(key.to_lowercase()))).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The number of pods: the field next to the template, multiplied by the replicas of the objects above.
    fn count(&self) -> i64 {
        let number = |value: &Value, names: &[&str]| names.iter().find_map(|name| value.get(*name)?.as_i64());
        let Some((parent, others)) = self.above.split_last() else { return 1 };
        let own = number(parent, &COUNTS).unwrap_or(1);
        let all = others.iter().map(|value| number(value, &COUNTS[..2]).unwrap_or(1));
        all.fold(own, i64::saturating_mul).max(0)
    }
}

impl Custom {
    /// The workloads of the object.
    pub(super) fn workloads(&self, rule: &Rule<'_>, problems: &mut Problems) -> Vec<Planned> {
        match rule {
            Rule::Given(rule) => self.by_rule(rule, problems),
            Rule::Known(_) if self.is_off() => Vec::new(),
            Rule::Known(make) => make(self, problems),
        }
    }

    fn by_rule(&self, rule: &PodTemplate, problems: &mut Problems) -> Vec<Planned> {
        let root = Value::Object(self.fields.clone());
        let found = find(&root, &rule.path);
        if found.is_empty() {
            let text = format!(
                "{} has no field of --pod-template {}; no pods are made for it, so check the path",
                self.title(),
                rule.text
            );
            problems.warning(self.place.clone(), text);
        }
        let is_alone = found.len() == 1;
        let planned = found.into_iter().filter_map(|one| {
            let base =
                if is_alone { self.name().to_owned() } else { format!("{}-{}", self.name(), one.labels.join("-")) };
            // A template without its metadata is the spec of a pod.
            let is_spec = one.value.get("containers").is_some() && one.value.get("spec").is_none();
            let template = if is_spec { json!({ "spec": one.value }) } else { one.value.clone() };
            let template = self.template(template, &one.path, problems)?;
            Some(self.pods(template, &one.path, one.count(), PodNames::Drawn(format!("{base}-"))))
        });
        planned.collect()
    }

    fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn group(&self) -> &str {
        super::kinds::group(&self.api_version)
    }

    pub(super) fn title(&self) -> String {
        format!("{} {:?}", shown(&self.kind, self.group()), super::workloads::key(&self.metadata))
    }

    fn at(&self, keys: &[&str]) -> Option<&Value> {
        let (first, rest) = keys.split_first()?;
        rest.iter().try_fold(self.fields.get(*first)?, |value, key| value.get(*key))
    }

    fn template(&self, value: Value, path: &Path, problems: &mut Problems) -> Option<PodTemplateSpec> {
        decode(value, &self.place.at(path), problems)
    }

    /// Pods that the object's controller creates directly.
    fn pods(&self, template: PodTemplateSpec, path: &Path, count: i64, names: PodNames) -> Planned {
        let workload = Workload::Custom(CustomWorkload {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            metadata: self.metadata.clone(),
            template,
            replicas: usize::try_from(count).unwrap_or(0),
            names,
        });
        self.planned(workload, path)
    }

    fn planned(&self, workload: Workload, path: &Path) -> Planned {
        Planned { workload, place: self.place.at(path), origin: Some(self.origin()) }
    }

    pub(super) fn origin(&self) -> Origin {
        let api_version = self.api_version.clone();
        Origin { api_version, kind: self.kind.clone(), key: super::workloads::key(&self.metadata), selects: false }
    }
}

/// A kind with its group, as kubectl writes it.
pub(super) fn shown(kind: &str, group: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}

/// Whether the rule of a flag or a known controller makes the pods of a custom resource.
#[must_use]
pub fn makes_pods(rules: &[PodTemplate], object: &Map<String, Value>) -> bool {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (kind, group) = (text("kind"), super::kinds::group(text("apiVersion")));
    rule(rules.iter().find(|rule| rule.is_for(kind, group)), group, kind, object).is_some()
}

/// The paths of pod templates below an object's fields, each with `[*]` for its indexes, and the place of the first.
pub(super) fn templates(fields: &Map<String, Value>) -> Vec<(Path, String)> {
    let mut found: Vec<(Path, String)> = Vec::new();
    for (path, _) in all_templates(fields) {
        let text = generalised(&path);
        if found.iter().all(|(_, known)| *known != text) {
            found.push((path, text));
        }
    }
    found
}

/// All pod templates below an object's fields.
#[must_use]
pub fn pod_templates(fields: &Map<String, Value>) -> Vec<&Value> {
    all_templates(fields).into_iter().map(|(_, template)| template).collect()
}

fn all_templates(fields: &Map<String, Value>) -> Vec<(Path, &Value)> {
    let mut found = Vec::new();
    let mut rest: Vec<(Path, &Value)> = Vec::new();
    rest.extend(fields.iter().rev().map(|(key, value)| (Path::default().key(key), value)));
    while let Some((path, value)) = rest.pop() {
        match value {
            value if is_template(value) => found.push((path, value)),
            Value::Object(fields) => rest.extend(fields.iter().rev().map(|(key, value)| (path.key(key), value))),
            Value::Array(list) => {
                rest.extend(list.iter().enumerate().rev().map(|(index, value)| (path.index(index), value)));
            }
            _ => {}
        }
    }
    found
}

fn is_template(value: &Value) -> bool {
    let containers = value.get("spec").and_then(|spec| spec.get("containers")).and_then(Value::as_array);
    containers.is_some_and(|containers| containers.first().is_some_and(Value::is_object))
}

fn generalised(path: &Path) -> String {
    let mut text = String::new();
    for step in path.steps() {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => {
                text.push('.');
                text.push_str(key);
            }
            Step::Index(_) => text.push_str("[*]"),
        }
    }
    text
}

#[cfg(test)]
mod tests;
