//! Pods that stand on a node and ask for amounts that cannot be read.
//!
//! Such a pod takes something of its node whether it can be read or not, and a node that seems emptier than it is gets pods
//! that its kubelet turns away. So what can be read is charged, and of a resource whose amount cannot be read, all of it:
//! its node takes no other pod that asks for some.
//!
//! Knows: where in a pod amounts are. Must not know: how they add up.

use k8s_openapi::{api::core::v1 as api, apimachinery::pkg::api::resource::Quantity as ApiQuantity};

use super::fields::ResourceList;
use crate::quantity::Quantity;

/// More than any node has.
const ALL: &str = "9223372036854775807";

/// The pod with all of a resource for each amount of it that cannot be read, and nothing for one that is below zero.
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
