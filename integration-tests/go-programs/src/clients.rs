//! Clients of a scheduler, which tests run with Flotilla and with kube-scheduler.

use anyhow::Result;
use flotilla_go_programs::{Files, Module, Program, Programs};

use crate::target;

const KARPENTER: Module = Module {
    place: "integration-tests/clients/karpenter/go.mod",
    go_mod: include_str!("../../clients/karpenter/go.mod"),
    go_sum: include_str!("../../clients/karpenter/go.sum"),
};

/// The CustomResourceDefinitions of Karpenter and of its provider.
const KARPENTER_DEFINITIONS: &[&str] = &[
    "kwok/charts/crds/autoscaling.x-k8s.io_capacitybuffers.yaml",
    "kwok/charts/crds/karpenter.sh_nodeclaims.yaml",
    "kwok/charts/crds/karpenter.sh_nodeoverlays.yaml",
    "kwok/charts/crds/karpenter.sh_nodepools.yaml",
    "kwok/apis/crds/karpenter.kwok.sh_kwoknodeclasses.yaml",
];

/// Karpenter with its provider of kwok nodes, as the program `karpenter`, and its CustomResourceDefinitions.
///
/// # Errors
/// Its `go.mod` has no Karpenter version.
pub fn karpenter() -> Result<Programs> {
    const LIST: &[Program] = &[Program::new("karpenter", "sigs.k8s.io/karpenter/kwok", 150)];
    let programs = Programs::small(KARPENTER, "sigs.k8s.io/karpenter", LIST, &target().join("clients"))?;
    let into = programs.folder.join("definitions");
    let files = Some(Files { module: "sigs.k8s.io/karpenter", paths: KARPENTER_DEFINITIONS, into });
    Ok(Programs { files, ..programs })
}
