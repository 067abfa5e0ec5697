//! Validates quantities and reports the position of invalid ones.

use std::collections::BTreeMap;

use flotilla_framework::quantity::Quantity;
use k8s_openapi::{
    api::core::v1::{self as api, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity as ApiQuantity,
};

use crate::{
    place::{InputPosition, Path},
    problem::Problems,
};

/// Whether all quantities of a pod spec are valid.
pub(super) fn check_pod(spec: &api::PodSpec, title: &str, place: &InputPosition, problems: &mut Problems) -> bool {
    let containers = spec.containers.iter().enumerate().map(|(index, container)| ("containers", index, container));
    let init = spec.init_containers.iter().flatten().enumerate();
    let mut are_good = true;
    for (list, index, container) in
        containers.chain(init.map(|(index, container)| ("initContainers", index, container)))
    {
        let path = Path::default().keys(&["spec", list]).index(index).key("resources");
        are_good &= check_resources(container.resources.as_ref(), title, place, &path, problems);
    }
    let path = Path::default().keys(&["spec", "resources"]);
    are_good &= check_resources(spec.resources.as_ref(), title, place, &path, problems);
    are_good & check(spec.overhead.as_ref(), title, place, &["spec", "overhead"], problems)
}

fn check_resources(
    resources: Option<&ResourceRequirements>,
    title: &str,
    place: &InputPosition,
    path: &Path,
    problems: &mut Problems,
) -> bool {
    let Some(resources) = resources else { return true };
    let requests = check_at(resources.requests.as_ref(), title, place, &path.key("requests"), problems);
    requests & check_at(resources.limits.as_ref(), title, place, &path.key("limits"), problems)
}

/// Whether all quantities of a list are valid.
pub(super) fn check(
    list: Option<&BTreeMap<String, ApiQuantity>>,
    title: &str,
    place: &InputPosition,
    keys: &[&str],
    problems: &mut Problems,
) -> bool {
    check_at(list, title, place, &Path::default().keys(keys), problems)
}

fn check_at(
    list: Option<&BTreeMap<String, ApiQuantity>>,
    title: &str,
    place: &InputPosition,
    path: &Path,
    problems: &mut Problems,
) -> bool {
    let mut are_good = true;
    for (name, amount) in list.into_iter().flatten() {
        let complaint = match Quantity::parse(&amount.0) {
            Ok(quantity) if quantity.is_negative() => {
                format!("{:?} is negative; expected 0 or more", amount.0)
            }
            Ok(_) => continue,
            Err(error) => error.to_string(),
        };
        let path = path.key(name);
        problems.error(place.at(&path), format!("{title}: {path}: {complaint}"));
        are_good = false;
    }
    are_good
}
