//! Custom resources of the input.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Map, Value, json};

use super::{Loader, Object};
use crate::{
    custom::{self, Custom, PodTemplate, Rule},
    decode::decode,
    kinds,
    place::{InputPosition, Path},
};

impl<'a> Loader<'a> {
    /// Whether the object is a list of custom resources, as an API server returns it.
    pub(super) fn is_custom_list(&self, fields: &Map<String, Value>) -> bool {
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
        kind.ends_with("List") && fields.get("items").is_some_and(Value::is_array)
    }

    /// The elements of such a list, each with its kind.
    pub(super) fn custom_list(&mut self, fields: &mut Map<String, Value>, place: &InputPosition) -> Vec<Object> {
        let text = |field: &str| fields.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, version) = (text("kind"), text("apiVersion"));
        let kind = kind.strip_suffix("List").unwrap_or(&kind).to_owned();
        let mut elements = self.list(fields, place, None);
        for element in &mut elements {
            if let Value::Object(fields) = &mut element.value {
                fields.entry("kind").or_insert_with(|| kind.clone().into());
                fields.entry("apiVersion").or_insert_with(|| version.clone().into());
            }
        }
        elements
    }

    /// Makes the pods of a custom resource, or counts it among the ignored objects.
    pub(super) fn custom(&mut self, fields: Map<String, Value>, place: &InputPosition) {
        let Some((custom, rule)) = self.read_custom(fields, place) else { return };
        self.gatherer.workloads.see_owner(&custom.kind, &custom.metadata);
        let Some(rule) = rule else {
            let (kind, group) = (custom.kind.clone(), custom.group());
            let shown = if group.is_empty() { kind } else { format!("{kind} ({group})") };
            *self.ignored.entry(shown).or_default() += 1;
            return self.report_template(&custom, place);
        };
        if self.gatherer.claim_custom(custom.title(), &custom.metadata, place, self.problems) {
            let planned = custom.workloads(&rule, self.problems);
            self.gatherer.add_planned(planned);
        }
    }

    /// The resource, and how to find its pods, if that is known.
    fn read_custom(
        &mut self,
        mut fields: Map<String, Value>,
        place: &InputPosition,
    ) -> Option<(Custom, Option<Rule<'a>>)> {
        let text = |field: &str| fields.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, api_version) = (text("kind"), text("apiVersion"));
        let group = kinds::group(&api_version).to_owned();
        let given = self.rules.iter().rposition(|rule| rule.is_for(&kind, &group));
        if let Some(used) = given.and_then(|given| self.is_used.get_mut(given)) {
            *used = true;
        }
        let rules: &'a [PodTemplate] = self.rules;
        let rule = custom::rule(given.and_then(|given| rules.get(given)), &group, &kind, &fields);
        let metadata = fields.remove("metadata").unwrap_or_default();
        let mut metadata = match &rule {
            Some(_) => self.custom_metadata(metadata, place)?,
            None => minimal_metadata(&metadata),
        };
        flotilla_workloads::identify(&kind, &mut metadata);
        Some((Custom { api_version, kind, metadata, fields, place: place.clone() }, rule))
    }

    /// Shows the pod templates of a custom resource to an edit that reads them. Returns whether the resource is valid.
    pub(super) fn show_sources(&mut self, fields: &Map<String, Value>, place: &InputPosition) -> bool {
        if !self.edit.as_ref().is_some_and(|edit| edit.reads_sources()) {
            return true;
        }
        let Some((custom, rule)) = self.read_custom(fields.clone(), place) else { return false };
        let Some(rule) = rule else { return self.refuse_template(&custom, place) };
        let errors = self.problems.error_count();
        let sources = custom.sources(&rule, self.problems);
        if self.problems.error_count() > errors {
            return false;
        }
        if let Some(edit) = &mut self.edit {
            edit.see_sources(sources);
        }
        true
    }

    /// Reports the pod template of a resource of an unknown kind as an error; returns whether there is none.
    fn refuse_template(&mut self, custom: &Custom, place: &InputPosition) -> bool {
        let found = custom::templates(&custom.fields);
        let Some((first, path)) = found.first() else { return true };
        let (title, kind) = (custom.title(), custom::shown(&custom.kind, custom.group()));
        let text = format!("{title} has a pod template in {path}; to read it, use --pod-template {kind}={path}");
        self.problems.error(place.at(&Path::default().concat(first)).on_key(), text);
        false
    }

    fn custom_metadata(&mut self, mut metadata: Value, place: &InputPosition) -> Option<ObjectMeta> {
        if let Some(fields) = metadata.as_object_mut() {
            fields.remove("managedFields");
        }
        let metadata = if metadata.is_null() { json!({}) } else { metadata };
        decode(metadata, &place.keys(&["metadata"]), self.problems)
    }

    /// Warns about the first object of each kind with a pod template, because its pods are missing in the result.
    fn report_template(&mut self, custom: &Custom, place: &InputPosition) {
        let kind = custom::shown(&custom.kind, custom.group());
        if self.reported.contains(&kind) {
            return;
        }
        let found = custom::templates(&custom.fields);
        let Some((first, path)) = found.first() else { return };
        let text = format!(
            "{} has a pod template in {path}, and it is not known how many pods its controller makes; none are made, for \
             all objects of this kind; to make them, use --pod-template {kind}={path}",
            custom.title()
        );
        self.problems.warning(place.at(&Path::default().concat(first)).on_key(), text);
        self.reported.insert(kind);
    }
}

/// Name, namespace and controller of an object that is ignored, whatever its other fields are.
fn minimal_metadata(metadata: &Value) -> ObjectMeta {
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let owners = metadata.get("ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let controller =
        owners.filter(|owner| owner.get("controller") == Some(&Value::Bool(true))).map(|owner| OwnerReference {
            kind: text(owner, "kind").unwrap_or_default(),
            name: text(owner, "name").unwrap_or_default(),
            controller: Some(true),
            ..OwnerReference::default()
        });
    ObjectMeta {
        name: text(metadata, "name"),
        namespace: text(metadata, "namespace"),
        owner_references: Some(controller.collect()),
        ..ObjectMeta::default()
    }
}
