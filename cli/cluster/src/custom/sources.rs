//! The pod templates of a custom resource, for a count of its pods.

use flotilla_objects::Written as _;
use flotilla_workloads::{CustomWorkload, PodNames, Workload};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use serde_json::{Map, Value};

use super::{Custom, Rule};
use crate::{place::Path, problem::Problems};

/// A pod template of a custom resource, with the labels that its controller adds.
#[derive(Debug, Clone, PartialEq)]
pub struct PodSource {
    /// `namespace/name` of the resource, or of the first workload with this template if the resource has several templates.
    pub key: String,
    /// The pods are those of a DaemonSet.
    pub is_per_node: bool,
    /// `metadata` and `spec` of the pod template.
    pub template: Map<String, Value>,
    /// The `volumeClaimTemplates` of a StatefulSet.
    pub claims: Vec<Value>,
}

impl Custom {
    /// The pod templates of the resource, also of a suspended one.
    pub(crate) fn sources(&self, rule: &Rule<'_>, problems: &mut Problems) -> Vec<PodSource> {
        let planned = match rule {
            Rule::Given(rule) if super::find(&Value::Object(self.fields.clone()), &rule.path).is_empty() => {
                let text = format!("{} has no field of --pod-template {}; check the path", self.title(), rule.text);
                problems.error(self.place.clone(), text);
                Vec::new()
            }
            Rule::Given(rule) => self.by_rule(rule, problems),
            Rule::Known(make) => make(self, problems),
        };
        let mut found: Vec<(Path, PodSource)> = Vec::new();
        for planned in planned {
            // The workloads of one template differ in their names and in the labels with their numbers.
            if found.iter().all(|(path, _)| *path != planned.place.path)
                && let Some(source) = self.source(&planned.workload)
            {
                found.push((planned.place.path, source));
            }
        }
        let mut sources: Vec<PodSource> = found.into_iter().map(|(_, source)| source).collect();
        if let [source] = sources.as_mut_slice() {
            source.key = crate::workloads::key(&self.metadata);
        }
        sources
    }

    fn source(&self, workload: &Workload) -> Option<PodSource> {
        let own = crate::workloads::key(workload.metadata());
        let key = match workload {
            Workload::Custom(CustomWorkload { names, .. }) => {
                let (PodNames::Drawn(name) | PodNames::Numbered(name) | PodNames::Exact(name)) = names;
                let namespace = own.split('/').next().unwrap_or_default();
                format!("{namespace}/{}", name.trim_end_matches('-'))
            }
            _ => own,
        };
        let claims = match workload {
            Workload::StatefulSet(_) => self.at(&["spec", "volumeClaimTemplates"]).and_then(Value::as_array),
            _ => None,
        };
        let claims = claims.cloned().unwrap_or_default();
        let is_per_node = matches!(workload, Workload::DaemonSet(_));
        Some(PodSource { key, is_per_node, template: written(template(workload)?), claims })
    }
}

fn template(workload: &Workload) -> Option<&PodTemplateSpec> {
    match workload {
        Workload::CronJob(object) => Some(&object.spec.job_template.spec.as_ref()?.template),
        Workload::Custom(object) => Some(&object.template),
        Workload::DaemonSet(object) => Some(&object.spec.template),
        Workload::Deployment(object) => Some(&object.spec.template),
        Workload::Job(object) => Some(&object.spec.as_ref()?.template),
        Workload::ReplicaSet(object) => object.spec.template.as_ref(),
        Workload::ReplicationController(object) => object.spec.as_ref()?.template.as_ref(),
        Workload::StatefulSet(object) => Some(&object.spec.template),
    }
}

fn written(template: &PodTemplateSpec) -> Map<String, Value> {
    let metadata = template.metadata.clone().unwrap_or_default();
    let pod = Pod { metadata, spec: template.spec.clone(), status: None };
    match pod.to_value() {
        Value::Object(mut fields) => {
            fields.retain(|field, _| matches!(field.as_str(), "metadata" | "spec"));
            fields
        }
        _ => Map::new(),
    }
}
