//! Charges bound pods with invalid amounts: such an amount charges all of its resource.
//!
//! Otherwise the node would seem emptier than it is, and its kubelet would reject further pods.

use k8s_openapi::{api::core::v1 as api, apimachinery::pkg::api::resource::Quantity as ApiQuantity};

use super::fields::ResourceList;
use crate::quantity::Quantity;

const ALL: &str = "9223372036854775807";

/// Replaces each invalid amount with all of the resource, and each negative amount with 0.
pub(super) fn charging_all(pod: &api::Pod) -> api::Pod {
    let mut pod = pod.clone();
    if let Some(spec) = &mut pod.spec {
        let containers = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
        containers.for_each(|container| of_requirements(container.resources.as_mut()));
        of_requirements(spec.resources.as_mut());
        of_list(spec.overhead.as_mut());
    }
    if let Some(status) = &mut pod.status {
        let containers = status.container_statuses.iter_mut().chain(&mut status.init_container_statuses).flatten();
        for container in containers {
            of_requirements(container.resources.as_mut());
            of_list(container.allocated_resources.as_mut());
        }
        of_requirements(status.resources.as_mut());
        of_list(status.allocated_resources.as_mut());
    }
    pod
}

fn of_requirements(requirements: Option<&mut api::ResourceRequirements>) {
    if let Some(requirements) = requirements {
        of_list(requirements.requests.as_mut());
        of_list(requirements.limits.as_mut());
    }
}

fn of_list(list: Option<&mut ResourceList>) {
    for amount in list.into_iter().flatten().map(|(_, amount)| amount) {
        match Quantity::parse(&amount.0) {
            Ok(quantity) if quantity.is_negative() => *amount = ApiQuantity("0".to_owned()),
            Ok(_) => {}
            Err(_) => *amount = ApiQuantity(ALL.to_owned()),
        }
    }
}
