//! Clients of a scheduler, which tests run with Flotilla and with kube-scheduler.

use anyhow::Result;
use flotilla_go_programs::{Files, Module, Program, Programs};

use crate::target;

/// The CustomResourceDefinitions of Karpenter and of its provider.
const KARPENTER_DEFINITIONS: &[&str] = &[
    "kwok/charts/crds/autoscaling.x-k8s.io_capacitybuffers.yaml",
    "kwok/charts/crds/karpenter.sh_nodeclaims.yaml",
    "kwok/charts/crds/karpenter.sh_nodeoverlays.yaml",
    "kwok/charts/crds/karpenter.sh_nodepools.yaml",
    "kwok/apis/crds/karpenter.kwok.sh_kwoknodeclasses.yaml",
];

/// The definition of JobSets, and the webhooks of its controller.
const JOBSET_MANIFESTS: &[&str] =
    &["config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml", "config/components/webhook/manifests.yaml"];

/// Kueue's definitions, and its webhooks.
const KUEUE_MANIFESTS: &[&str] = &[
    "config/components/crd/bases/kueue.x-k8s.io_admissionchecks.yaml",
    "config/components/crd/bases/kueue.x-k8s.io_clusterqueues.yaml",
    "config/components/crd/bases/kueue.x-k8s.io_cohorts.yaml",
    "config/components/crd/bases/kueue.x-k8s.io_localqueues.yaml",
    "config/components/crd/bases/kueue.x-k8s.io_multikueueclusters.yaml",
    "config/components/crd/bases/kueue.x-k8s.io_multikueueconfigs.yaml",
    "config/components/crd/bases/kueue.x-k8s.io_provisioningrequestconfigs.yaml",
    "config/components/crd/bases/kueue.x-k8s.io_resourceflavors.yaml",
    "config/components/crd/bases/kueue.x-k8s.io_topologies.yaml",
    "config/components/crd/bases/kueue.x-k8s.io_workloadpriorityclasses.yaml",
    "config/components/crd/bases/kueue.x-k8s.io_workloads.yaml",
    "config/components/webhook/manifests.yaml",
];

/// The definitions of Ray's objects.
const KUBERAY_DEFINITIONS: &[&str] = &[
    "config/crd/bases/ray.io_rayclusters.yaml",
    "config/crd/bases/ray.io_raycronjobs.yaml",
    "config/crd/bases/ray.io_rayjobs.yaml",
    "config/crd/bases/ray.io_rayservices.yaml",
];

/// The descheduler, as the program `descheduler`.
///
/// # Errors
/// Its `go.mod` has no version of it.
pub fn descheduler() -> Result<Programs> {
    const LIST: &[Program] = &[Program::new("descheduler", "sigs.k8s.io/descheduler/cmd/descheduler", 120)];
    Programs::small(module!("clients/descheduler"), "sigs.k8s.io/descheduler", LIST, &target().join("clients"))
}

/// JobSet's controller as the program `jobset`, and its manifests.
///
/// # Errors
/// Its `go.mod` has no JobSet version.
pub fn jobset() -> Result<Programs> {
    const LIST: &[Program] = &[Program::new("jobset", "sigs.k8s.io/jobset", 120)];
    with_files(module!("clients/jobset"), "sigs.k8s.io/jobset", LIST, JOBSET_MANIFESTS)
}

/// Kueue's controller as the program `kueue`, and its manifests.
///
/// # Errors
/// Its `go.mod` has no Kueue version.
pub fn kueue() -> Result<Programs> {
    const LIST: &[Program] = &[Program::new("kueue", "sigs.k8s.io/kueue/cmd/kueue", 300)];
    with_files(module!("clients/kueue"), "sigs.k8s.io/kueue", LIST, KUEUE_MANIFESTS)
}

/// The operator of KubeRay as the program `ray-operator`, and its definitions.
///
/// # Errors
/// Its `go.mod` has no KubeRay version.
pub fn kuberay() -> Result<Programs> {
    const OPERATOR: &str = "github.com/ray-project/kuberay/ray-operator";
    const LIST: &[Program] = &[Program::new("ray-operator", OPERATOR, 240)];
    with_files(module!("clients/kuberay"), OPERATOR, LIST, KUBERAY_DEFINITIONS)
}

/// Karpenter with its provider of kwok nodes, as the program `karpenter`, and its CustomResourceDefinitions.
///
/// # Errors
/// Its `go.mod` has no Karpenter version.
pub fn karpenter() -> Result<Programs> {
    const LIST: &[Program] = &[Program::new("karpenter", "sigs.k8s.io/karpenter/kwok", 150)];
    with_files(module!("clients/karpenter"), "sigs.k8s.io/karpenter", LIST, KARPENTER_DEFINITIONS)
}

/// Programs of a module, with some of its files in the folder `manifests`.
fn with_files(
    module: Module,
    required: &'static str,
    list: &'static [Program],
    paths: &'static [&'static str],
) -> Result<Programs> {
    let programs = Programs::small(module, required, list, &target().join("clients"))?;
    let files = Some(Files { module: required, paths, into: programs.folder.join("manifests") });
    Ok(Programs { files, ..programs })
}
