//! The KubeRay operator, which tests run with Flotilla and with kube-scheduler.

use anyhow::Result;
use flotilla_go_programs::{Files, Module, Program, Programs};

use crate::target;

const KUBERAY: Module = Module {
    place: "integration-tests/clients/kuberay/go.mod",
    go_mod: include_str!("../../clients/kuberay/go.mod"),
    go_sum: include_str!("../../clients/kuberay/go.sum"),
};

const OPERATOR: &str = "github.com/ray-project/kuberay/ray-operator";

const DEFINITIONS: &[&str] = &[
    "config/crd/bases/ray.io_rayclusters.yaml",
    "config/crd/bases/ray.io_raycronjobs.yaml",
    "config/crd/bases/ray.io_rayjobs.yaml",
    "config/crd/bases/ray.io_rayservices.yaml",
];

/// The operator, as the program `ray-operator`, and the CustomResourceDefinitions of Ray.
///
/// # Errors
/// Its `go.mod` has no version of the operator.
pub fn kuberay() -> Result<Programs> {
    const LIST: &[Program] = &[Program::new("ray-operator", OPERATOR, 240)];
    let programs = Programs::small(KUBERAY, OPERATOR, LIST, &target().join("clients"))?;
    let into = programs.folder.join("definitions");
    let files = Some(Files { module: OPERATOR, paths: DEFINITIONS, into });
    Ok(Programs { files, ..programs })
}
