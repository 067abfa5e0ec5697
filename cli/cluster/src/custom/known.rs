//! The best-known custom workloads, with the objects that their controllers create.
//!
//! Source: the controllers of Argo Rollouts, OpenShift, Knative Serving, JobSet, LeaderWorkerSet, OpenKruise, Volcano, Kubeflow, KubeRay and
//! the Spark operator.

use std::collections::BTreeMap;

use flotilla_workloads::{PodNames, Workload, reference, template_hash};
use k8s_openapi::{
    api::{
        apps::v1::{
            DaemonSet, DaemonSetSpec, Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec, StatefulSet,
            StatefulSetOrdinals, StatefulSetSpec,
        },
        batch::v1::{Job, JobTemplateSpec},
        core::v1::{PersistentVolumeClaim, PodTemplateSpec, ReplicationController, ReplicationControllerSpec},
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use serde_json::{Map, Value};

use super::{Custom, MOST_CHILDREN};
use crate::{
    decode::decode,
    place::Path,
    problem::Problems,
    workloads::{Origin, Planned},
};

/// Fields of a Knative revision that a pod does not have.
const REVISION_FIELDS: [&str; 4] =
    ["containerConcurrency", "idleTimeoutSeconds", "responseStartTimeoutSeconds", "timeoutSeconds"];

const POD_TEMPLATE: [&str; 2] = ["spec", "template"];

/// Makes the workloads of an object.
type Maker = fn(&Custom, &mut Problems) -> Vec<Planned>;

/// The maker for a known kind; `None` for any other.
pub(super) fn maker(group: &str, kind: &str, fields: &Map<String, Value>) -> Option<Maker> {
    Some(match (group, kind) {
        ("argoproj.io", "Rollout") => Custom::rollout,
        ("" | "apps.openshift.io", "DeploymentConfig") => Custom::deployment_config,
        ("serving.knative.dev", "Service") => Custom::knative,
        ("jobset.x-k8s.io", "JobSet") => Custom::job_set,
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet") => Custom::leader_worker_set,
        ("apps.kruise.io", "CloneSet") => Custom::clone_set,
        ("apps.kruise.io", "StatefulSet") => Custom::stateful_set,
        ("apps.kruise.io", "DaemonSet") => Custom::daemon_set,
        ("batch.volcano.sh", "Job") => Custom::volcano,
        ("kubeflow.org", _) if kubeflow_specs(fields).is_some() => Custom::kubeflow,
        ("ray.io", "RayCluster") => |custom, problems| custom.ray(&["spec"], problems),
        ("ray.io", "RayJob") => |custom, problems| custom.ray(&["spec", "rayClusterSpec"], problems),
        ("ray.io", "RayService") => |custom, problems| custom.ray(&["spec", "rayClusterConfig"], problems),
        ("sparkoperator.k8s.io", "SparkApplication") => Custom::spark,
        _ => return None,
    })
}

/// The name of the field with Kubeflow's replica specs, such as `pytorchReplicaSpecs`.
fn kubeflow_specs(fields: &Map<String, Value>) -> Option<&str> {
    let spec = fields.get("spec")?.as_object()?;
    spec.keys().map(String::as_str).find(|field| field.ends_with("ReplicaSpecs"))
}

impl Custom {
    /// Whether the object is suspended or has ended; both have no pods.
    pub(super) fn is_off(&self) -> bool {
        // The conditions of services describe their current state.
        let is_batch = !matches!(self.group(), "argoproj.io" | "serving.knative.dev" | "apps.kruise.io");
        is_batch && (self.is_suspended() || self.is_over())
    }

    fn is_suspended(&self) -> bool {
        let flag = |keys: &[&str]| self.at(keys).and_then(Value::as_bool).unwrap_or(false);
        flag(&["spec", "suspend"]) || flag(&["spec", "runPolicy", "suspend"])
    }

    /// Whether the status has a final state.
    fn is_over(&self) -> bool {
        let conditions = self.at(&["status", "conditions"]).and_then(Value::as_array).into_iter().flatten();
        let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut ends = conditions.filter(|condition| text(condition, "status") == "True").map(|one| text(one, "type"));
        let states = [&["status", "state", "phase"][..], &["status", "terminalState"], &["status", "jobStatus"]];
        let mut states = states.iter().filter_map(|keys| self.at(keys).and_then(Value::as_str));
        ends.any(|state| matches!(state.as_str(), "Complete" | "Completed" | "Succeeded" | "Failed"))
            || states.any(|state| {
                let finals = ["Completed", "Failed", "Terminated", "Aborted", "SUCCEEDED", "FAILED", "STOPPED"];
                finals.contains(&state)
            })
    }

    fn number(&self, keys: &[&str], default: i64) -> i64 {
        self.at(keys).and_then(Value::as_i64).unwrap_or(default).max(0)
    }

    fn template_at(&self, keys: &[&str], problems: &mut Problems) -> Option<PodTemplateSpec> {
        let value = self.at(keys).filter(|value| !value.is_null())?;
        self.template(value.clone(), &Path::default().keys(keys), problems)
    }

    /// The metadata of an object that this one controls.
    fn child(&self, name: String, labels: Option<BTreeMap<String, String>>) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace: self.metadata.namespace.clone(),
            labels,
            owner_references: Some(vec![reference(&self.api_version, &self.kind, &self.metadata)]),
            ..ObjectMeta::default()
        }
    }

    /// A Rollout has one ReplicaSet for each revision.
    fn rollout(&self, problems: &mut Problems) -> Vec<Planned> {
        const HASH: &str = "rollouts-pod-template-hash";
        let Some(mut template) = self.template_at(&POD_TEMPLATE, problems) else { return Vec::new() };
        let hash = template_hash(&template);
        label(&mut template, HASH, &hash);
        let labels = labels_of(&template);
        let metadata = self.child(format!("{}-{hash}", self.name()), labels.clone());
        let selector = LabelSelector { match_labels: labels, match_expressions: None };
        let replicas = Some(bounded(self.number(&["spec", "replicas"], 1)));
        let spec = ReplicaSetSpec { replicas, selector, template: Some(template), ..ReplicaSetSpec::default() };
        vec![self.selecting(Workload::ReplicaSet(ReplicaSet { metadata, spec, status: None }), &Path::default())]
    }

    /// A DeploymentConfig has one ReplicationController for each version.
    fn deployment_config(&self, problems: &mut Problems) -> Vec<Planned> {
        let Some(mut template) = self.template_at(&POD_TEMPLATE, problems) else { return Vec::new() };
        let version = self.number(&["status", "latestVersion"], 1).max(1);
        let name = format!("{}-{version}", self.name());
        label(&mut template, "deployment", &name);
        label(&mut template, "deploymentconfig", self.name());
        let labels = labels_of(&template);
        let metadata = self.child(name, labels.clone());
        let replicas = Some(bounded(self.number(&["spec", "replicas"], 1)));
        let spec = ReplicationControllerSpec {
            replicas,
            selector: labels,
            template: Some(template),
            ..ReplicationControllerSpec::default()
        };
        let controller = ReplicationController { metadata, spec: Some(spec), status: None };
        vec![self.selecting(Workload::ReplicationController(controller), &Path::default())]
    }

    /// A Service of Knative has one Deployment for each revision, with the minimum scale, or one pod.
    fn knative(&self, problems: &mut Problems) -> Vec<Planned> {
        let Some(value) = self.at(&POD_TEMPLATE) else { return Vec::new() };
        let mut value = value.clone();
        if let Some(Value::Object(spec)) = value.get_mut("spec") {
            spec.retain(|field, _| !REVISION_FIELDS.contains(&field.as_str()));
            // A container of a revision needs no name.
            for (index, container) in
                spec.get_mut("containers").and_then(Value::as_array_mut).into_iter().flatten().enumerate()
            {
                if let Value::Object(container) = container {
                    container.entry("name").or_insert_with(|| format!("user-container-{index}").into());
                }
            }
        }
        let Some(mut template) = self.template(value, &Path::default().keys(&POD_TEMPLATE), problems) else {
            return Vec::new();
        };
        let annotations = template.metadata.as_ref().and_then(|metadata| metadata.annotations.as_ref());
        let annotation = |name: &str| annotations.and_then(|all| all.get(name)).and_then(|text| text.parse().ok());
        let scales = ["autoscaling.knative.dev/min-scale", "autoscaling.knative.dev/minScale"];
        let replicas = scales.into_iter().find_map(annotation).unwrap_or(1).max(1);
        let revision = format!("{}-00001", self.name());
        for (key, value) in [
            ("app", revision.as_str()),
            ("serving.knative.dev/configuration", self.name()),
            ("serving.knative.dev/revision", &revision),
            ("serving.knative.dev/service", self.name()),
        ] {
            label(&mut template, key, value);
        }
        let selector = BTreeMap::from([("serving.knative.dev/revisionUID".to_owned(), revision.clone())]);
        label(&mut template, "serving.knative.dev/revisionUID", &revision);
        let metadata = self.child(format!("{revision}-deployment"), labels_of(&template));
        let selector = LabelSelector { match_labels: Some(selector), match_expressions: None };
        let spec = DeploymentSpec { replicas: Some(replicas), selector, template, ..DeploymentSpec::default() };
        vec![self.planned(Workload::Deployment(Deployment { metadata, spec, status: None }), &Path::default())]
    }

    /// A JobSet has Jobs for each of its replicated jobs.
    fn job_set(&self, problems: &mut Problems) -> Vec<Planned> {
        let mut planned = Vec::new();
        for (index, part) in self.elements(&["spec", "replicatedJobs"]) {
            let path = Path::default().keys(&["spec", "replicatedJobs"]).index(index).key("template");
            let name = part.get("name").and_then(Value::as_str).unwrap_or_default();
            let replicas = part.get("replicas").and_then(Value::as_i64).unwrap_or(1).max(0);
            if self.is_too_much(replicas, "Jobs", &path, problems) {
                continue;
            }
            let Some(template) = part.get("template").filter(|value| !value.is_null()) else { continue };
            let Some(job) = decode::<JobTemplateSpec>(template.clone(), &self.place.at(&path), problems) else {
                continue;
            };
            let Some(mut spec) = job.spec else { continue };
            for (key, value) in
                [("jobset.sigs.k8s.io/jobset-name", self.name()), ("jobset.sigs.k8s.io/replicatedjob-name", name)]
            {
                label(&mut spec.template, key, value);
            }
            let labels = job.metadata.and_then(|metadata| metadata.labels);
            for number in 0..replicas {
                let metadata = self.child(format!("{}-{name}-{number}", self.name()), labels.clone());
                let mut spec = spec.clone();
                label(&mut spec.template, "jobset.sigs.k8s.io/job-index", &number.to_string());
                let mut job = Workload::Job(Job { metadata, spec: Some(spec), status: None });
                job.identify();
                planned.push(self.planned(job, &path));
            }
        }
        planned
    }

    /// A LeaderWorkerSet has a StatefulSet of leaders, and one of workers for each leader.
    fn leader_worker_set(&self, problems: &mut Problems) -> Vec<Planned> {
        const WORKERS: [&str; 3] = ["spec", "leaderWorkerTemplate", "workerTemplate"];
        const LEADER: [&str; 3] = ["spec", "leaderWorkerTemplate", "leaderTemplate"];
        let Some(mut workers) = self.template_at(&WORKERS, problems) else { return Vec::new() };
        let leader = self.template_at(&LEADER, problems);
        let leader_at = if leader.is_some() { &LEADER } else { &WORKERS };
        let mut leader = leader.unwrap_or_else(|| workers.clone());
        let path = Path::default().keys(&WORKERS);
        let replicas = self.number(&["spec", "replicas"], 1);
        let size = self.number(&["spec", "leaderWorkerTemplate", "size"], 1);
        if self.is_too_much(replicas, "StatefulSets", &path, problems) {
            return Vec::new();
        }
        label(&mut leader, "leaderworkerset.sigs.k8s.io/worker-index", "0");
        for template in [&mut leader, &mut workers] {
            label(template, "leaderworkerset.sigs.k8s.io/name", self.name());
        }
        let set = |metadata: ObjectMeta, template: &PodTemplateSpec, replicas: i64, start: Option<i32>| {
            let selector = LabelSelector { match_labels: labels_of(template), match_expressions: None };
            let ordinals = start.map(|start| StatefulSetOrdinals { start: Some(start) });
            let (replicas, template) = (Some(bounded(replicas)), template.clone());
            let spec = StatefulSetSpec { replicas, selector, template, ordinals, ..StatefulSetSpec::default() };
            Workload::StatefulSet(StatefulSet { metadata, spec, status: None })
        };
        let leaders = set(self.child(self.name().to_owned(), None), &leader, replicas, None);
        let mut planned = vec![self.selecting(leaders, &Path::default().keys(leader_at))];
        for group in 0..if size > 1 { replicas } else { 0 } {
            label(&mut workers, "leaderworkerset.sigs.k8s.io/group-index", &group.to_string());
            let workers = set(self.child(format!("{}-{group}", self.name()), None), &workers, size - 1, Some(1));
            planned.push(self.selecting(workers, &path));
        }
        planned
    }

    fn clone_set(&self, problems: &mut Problems) -> Vec<Planned> {
        let template = self.template_at(&POD_TEMPLATE, problems);
        let (path, count) = (Path::default().keys(&POD_TEMPLATE), self.number(&["spec", "replicas"], 1));
        let names = PodNames::Drawn(format!("{}-", self.name()));
        template.map(|template| self.pods(template, &path, count, names)).into_iter().collect()
    }

    fn stateful_set(&self, problems: &mut Problems) -> Vec<Planned> {
        let Some(template) = self.template_at(&POD_TEMPLATE, problems) else { return Vec::new() };
        let mut claims: Vec<PersistentVolumeClaim> = Vec::new();
        for (index, claim) in self.elements(&["spec", "volumeClaimTemplates"]) {
            let path = Path::default().keys(&["spec", "volumeClaimTemplates"]).index(index);
            claims.extend(decode::<PersistentVolumeClaim>(claim.clone(), &self.place.at(&path), problems));
        }
        let spec = StatefulSetSpec {
            replicas: Some(bounded(self.number(&["spec", "replicas"], 1))),
            service_name: self.at(&["spec", "serviceName"]).and_then(Value::as_str).map(str::to_owned),
            selector: LabelSelector { match_labels: labels_of(&template), match_expressions: None },
            volume_claim_templates: Some(claims),
            template,
            ..StatefulSetSpec::default()
        };
        let set = StatefulSet { metadata: self.metadata.clone(), spec, status: None };
        vec![self.planned(Workload::StatefulSet(set), &Path::default())]
    }

    fn daemon_set(&self, problems: &mut Problems) -> Vec<Planned> {
        let Some(template) = self.template_at(&POD_TEMPLATE, problems) else { return Vec::new() };
        let selector = LabelSelector { match_labels: labels_of(&template), match_expressions: None };
        let spec = DaemonSetSpec { selector, template, ..DaemonSetSpec::default() };
        let set = DaemonSet { metadata: self.metadata.clone(), spec, status: None };
        vec![self.planned(Workload::DaemonSet(set), &Path::default())]
    }

    /// The pods of a Volcano Job ask for Volcano's scheduler unless the Job names another.
    fn volcano(&self, problems: &mut Problems) -> Vec<Planned> {
        let scheduler = self.at(&["spec", "schedulerName"]).and_then(Value::as_str).filter(|name| !name.is_empty());
        let mut planned = Vec::new();
        for (index, task) in self.elements(&["spec", "tasks"]) {
            let path = Path::default().keys(&["spec", "tasks"]).index(index).key("template");
            let unnamed = format!("default{index}");
            let name = task.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()).unwrap_or(&unnamed);
            let Some(template) = task.get("template").filter(|value| !value.is_null()) else { continue };
            let Some(mut template) = self.template(template.clone(), &path, problems) else { continue };
            label(&mut template, "volcano.sh/job-name", self.name());
            label(&mut template, "volcano.sh/task-spec", name);
            if let Some(spec) = &mut template.spec {
                spec.scheduler_name.get_or_insert_with(|| scheduler.unwrap_or("volcano").to_owned());
            }
            let count = task.get("replicas").and_then(Value::as_i64).unwrap_or(1);
            planned.push(self.pods(template, &path, count, PodNames::Numbered(format!("{}-{name}", self.name()))));
        }
        planned
    }

    fn kubeflow(&self, problems: &mut Problems) -> Vec<Planned> {
        let Some(field) = kubeflow_specs(&self.fields) else { return Vec::new() };
        let mut planned = Vec::new();
        for (kind, part) in self.at(&["spec", field]).and_then(Value::as_object).into_iter().flatten() {
            let path = Path::default().keys(&["spec", field, kind, "template"]);
            let Some(template) = part.get("template").filter(|value| !value.is_null()) else { continue };
            let Some(mut template) = self.template(template.clone(), &path, problems) else { continue };
            let kind = kind.to_lowercase();
            label(&mut template, "training.kubeflow.org/job-name", self.name());
            label(&mut template, "training.kubeflow.org/replica-type", &kind);
            let count = part.get("replicas").and_then(Value::as_i64).unwrap_or(1);
            planned.push(self.pods(template, &path, count, PodNames::Numbered(format!("{}-{kind}", self.name()))));
        }
        planned
    }

    /// The pods of a RayCluster whose spec is under these keys.
    fn ray(&self, keys: &[&str], problems: &mut Problems) -> Vec<Planned> {
        let mut planned = Vec::new();
        let head: Vec<&str> = keys.iter().copied().chain(["headGroupSpec", "template"]).collect();
        let mark = |template: &mut PodTemplateSpec, node: &str, group: &str| {
            label(template, "ray.io/cluster", self.name());
            label(template, "ray.io/node-type", node);
            label(template, "ray.io/group", group);
        };
        if let Some(mut template) = self.template_at(&head, problems) {
            mark(&mut template, "head", "headgroup");
            let name = PodNames::Exact(format!("{}-head", self.name()));
            planned.push(self.pods(template, &Path::default().keys(&head), 1, name));
        }
        let groups: Vec<&str> = keys.iter().copied().chain(["workerGroupSpecs"]).collect();
        for (index, group) in self.elements(&groups) {
            let path = Path::default().keys(&groups).index(index).key("template");
            let Some(template) = group.get("template").filter(|value| !value.is_null()) else { continue };
            let Some(mut template) = self.template(template.clone(), &path, problems) else { continue };
            let name = group.get("groupName").and_then(Value::as_str).unwrap_or_default();
            mark(&mut template, "worker", name);
            let number = |field: &str| group.get(field).and_then(Value::as_i64);
            let replicas = number("replicas").or_else(|| number("minReplicas")).unwrap_or(0);
            let count = replicas.saturating_mul(number("numOfHosts").unwrap_or(1));
            let names = PodNames::Drawn(format!("{}-{name}-worker-", self.name()));
            planned.push(self.pods(template, &path, count, names));
        }
        planned
    }

    /// A SparkApplication has pods only as far as it has templates.
    fn spark(&self, problems: &mut Problems) -> Vec<Planned> {
        let executors = self.number(&["spec", "executor", "instances"], 1);
        let roles = [
            ("driver", 1, PodNames::Exact(format!("{}-driver", self.name()))),
            ("executor", executors, PodNames::Numbered(format!("{}-exec", self.name()))),
        ];
        let mut planned = Vec::new();
        for (role, count, names) in roles {
            let keys = ["spec", role, "template"];
            let Some(mut template) = self.template_at(&keys, problems) else { continue };
            label(&mut template, "spark-role", role);
            planned.push(self.pods(template, &Path::default().keys(&keys), count, names));
        }
        planned
    }

    fn elements(&self, keys: &[&str]) -> impl Iterator<Item = (usize, &Value)> {
        self.at(keys).and_then(Value::as_array).into_iter().flatten().enumerate()
    }

    /// A workload whose selector counts for default spreading.
    fn selecting(&self, mut workload: Workload, path: &Path) -> Planned {
        workload.identify();
        let origin = Origin { selects: true, ..self.origin() };
        Planned { origin: Some(origin), ..self.planned(workload, path) }
    }

    fn is_too_much(&self, count: i64, what: &str, path: &Path, problems: &mut Problems) -> bool {
        if count > MOST_CHILDREN {
            let text = format!("{} asks for {count} {what}; expected {MOST_CHILDREN} at most", self.title());
            problems.error(self.place.at(path), text);
        }
        count > MOST_CHILDREN
    }
}

fn bounded(count: i64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn label(template: &mut PodTemplateSpec, key: &str, value: &str) {
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(key.to_owned(), value.to_owned());
}

fn labels_of(template: &PodTemplateSpec) -> Option<BTreeMap<String, String>> {
    template.metadata.as_ref().and_then(|metadata| metadata.labels.clone())
}
