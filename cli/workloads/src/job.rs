//! Pods of Jobs, and of one run of a CronJob.
//!
//! Source: `manageJob` in `pkg/controller/job/job_controller.go`, `generateSelector` in `pkg/registry/batch/job` and `getJobFromTemplate2`
//! in `pkg/controller/cronjob`.

use std::collections::BTreeSet;

use k8s_openapi::{
    Resource,
    api::{
        batch::v1::{CronJob, Job, JobSpec},
        core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::{
    Workload,
    made::{Made, Surroundings},
    names,
    owned::{COMPLETION_INDEX, OwnedPod, Phase, controller, refers},
    replicas::owned,
    template,
};

const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
const OWN_CONTROLLER: &str = "kubernetes.io/job-controller";
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// The pods of one run of a CronJob; none if it is suspended or one of its Jobs is active.
pub(crate) fn of_cron_job(
    cron_job: &CronJob,
    workloads: &[Workload],
    around: Surroundings<'_>,
    taken: &mut BTreeSet<String>,
) -> Made {
    let spec = &cron_job.spec;
    if spec.suspend.unwrap_or(false) {
        return Made::default();
    }
    let runs = |workload: &Workload| match workload {
        Workload::Job(job) => {
            let owner = controller(&job.metadata).filter(|_| job.metadata.namespace == cron_job.metadata.namespace);
            !is_over(job) && owner.is_some_and(|owner| refers(owner, CronJob::KIND, &cron_job.metadata))
        }
        _ => false,
    };
    if workloads.iter().any(runs) {
        return Made::default();
    }
    let known = spec.job_template.metadata.clone().unwrap_or_default();
    let name = cron_job.metadata.name.as_deref().unwrap_or_default();
    let minute = names::minute(cron_job.metadata.uid.as_deref().unwrap_or_default());
    let mut metadata = ObjectMeta {
        name: Some(format!("{name}-{minute:08}")),
        namespace: cron_job.metadata.namespace.clone(),
        labels: known.labels,
        annotations: known.annotations,
        owner_references: Some(vec![template::reference::<CronJob>(&cron_job.metadata)]),
        ..ObjectMeta::default()
    };
    names::identify(Job::KIND, &mut metadata);
    make(&Job { metadata, spec: spec.job_template.spec.clone(), status: None }, around, taken)
}

/// The concurrent pods of a Job; none if it is suspended, finished, or managed by another controller.
pub(crate) fn make(job: &Job, around: Surroundings<'_>, taken: &mut BTreeSet<String>) -> Made {
    let Some(spec) = &job.spec else { return Made::default() };
    let is_ours = spec.managed_by.as_deref().is_none_or(|by| by == OWN_CONTROLLER);
    if spec.suspend.unwrap_or(false) || !is_ours || is_over(job) {
        return Made::default();
    }
    let pods = owned(Job::KIND, &job.metadata, around);
    let active = pods.iter().filter(|pod| pod.is_active()).count();
    let missing = wanted(job, spec, &pods).saturating_sub(active);
    let model = model(job, spec);
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let mut draw = |base: &str, number| names::drawn(namespace, base, number, taken);
    let named = |name: String| {
        let mut pod = model.clone();
        pod.metadata.name = Some(name);
        pod
    };
    let made: Vec<Pod> = if is_indexed(spec) {
        let indexes = open_indexes(job, spec, &pods).take(missing);
        indexes.map(|index| indexed(named(draw(&names::with_index(name, index), 0)), name, index)).collect()
    } else {
        (active..active + missing).map(|number| named(draw(&format!("{name}-"), number))).collect()
    };
    Made { pods: made, ..Made::default() }
}

fn is_over(job: &Job) -> bool {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| {
        let ends = ["Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"];
        ends.contains(&condition.type_.as_str()) && condition.status == "True"
    })
}

fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

fn completions(spec: &JobSpec) -> Option<i32> {
    match (spec.completions, spec.parallelism) {
        (None, None) => Some(1),
        (completions, _) => completions,
    }
}

/// The number of pods that should run.
fn wanted(job: &Job, spec: &JobSpec, pods: &[&OwnedPod]) -> usize {
    let parallelism = spec.parallelism.unwrap_or(1);
    let counted = pods.iter().filter(|pod| pod.phase == Phase::Succeeded).count();
    let told = job.status.as_ref().and_then(|status| status.succeeded).unwrap_or(0);
    let succeeded = told.max(i32::try_from(counted).unwrap_or(i32::MAX));
    let wanted = match completions(spec) {
        // After a success no more pods are created.
        None if succeeded > 0 => 0,
        None => parallelism,
        Some(completions) => completions.saturating_sub(succeeded).min(parallelism),
    };
    usize::try_from(wanted).unwrap_or(0)
}

/// The indexes without an active or succeeded pod.
fn open_indexes<'a>(job: &'a Job, spec: &JobSpec, pods: &'a [&OwnedPod]) -> impl Iterator<Item = i32> + 'a {
    let status = job.status.as_ref();
    let completed = ranges(status.and_then(|status| status.completed_indexes.as_deref()));
    let failed = ranges(status.and_then(|status| status.failed_indexes.as_deref()));
    let is_taken = move |index: i32| {
        pods.iter().any(|pod| pod.index == Some(index) && matches!(pod.phase, Phase::Active | Phase::Succeeded))
    };
    let is_told =
        move |index: i32| completed.iter().chain(&failed).any(|(first, last)| (*first..=*last).contains(&index));
    (0..completions(spec).unwrap_or(0)).filter(move |&index| !is_told(index) && !is_taken(index))
}

/// Parses indexes of a status: `1,3-5,7`.
fn ranges(text: Option<&str>) -> Vec<(i32, i32)> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    };
    text.unwrap_or_default().split(',').filter_map(range).collect()
}

/// The common fields of a Job's pods.
fn model(job: &Job, spec: &JobSpec) -> Pod {
    let mut pod = template::pod::<Job>(&spec.template, &job.metadata, String::new());
    if !spec.manual_selector.unwrap_or(false) {
        let labels = pod.metadata.labels.get_or_insert_default();
        let name = job.metadata.name.clone().unwrap_or_default();
        let uid = job.metadata.uid.clone().unwrap_or_default();
        for (keys, value) in [(NAME_LABELS, name), (UID_LABELS, uid)] {
            for key in keys {
                labels.entry(key.to_owned()).or_insert_with(|| value.clone());
            }
        }
    }
    let finalizers = pod.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|known| known == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    pod
}

fn indexed(mut pod: Pod, job: &str, index: i32) -> Pod {
    template::label(&mut pod.metadata, COMPLETION_INDEX, index.to_string());
    pod.metadata.annotations.get_or_insert_default().insert(COMPLETION_INDEX.to_owned(), index.to_string());
    if let Some(spec) = &mut pod.spec {
        spec.hostname = Some(format!("{job}-{index}"));
        spec.init_containers.iter_mut().flatten().chain(&mut spec.containers).for_each(tell_index);
    }
    pod
}

fn tell_index(container: &mut Container) {
    let variables = container.env.get_or_insert_default();
    if variables.iter().any(|variable| variable.name == INDEX_VARIABLE) {
        return;
    }
    let field_path = format!("metadata.labels['{COMPLETION_INDEX}']");
    let source = EnvVarSource {
        // The API server's default.
        field_ref: Some(ObjectFieldSelector { api_version: Some("v1".to_owned()), field_path }),
        ..EnvVarSource::default()
    };
    let (name, value_from) = (INDEX_VARIABLE.to_owned(), Some(source));
    variables.push(EnvVar { name, value_from, ..EnvVar::default() });
}
