//! LimitRanges: defaults and limits of containers, pods and claims.
//!
//! Source: `plugin/pkg/admission/limitranger/admission.go`.

use k8s_openapi::api::core::v1 as api;
use serde::{Deserialize, Serialize};

use super::{
    aggregate,
    amounts::{self, Amount, Amounts, Side},
    quantities,
};

const CONTAINER: &str = "Container";
const POD: &str = "Pod";
const CLAIM: &str = "PersistentVolumeClaim";

/// One item of a LimitRange, with its defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Limit {
    kind: String,
    default: Amounts,
    default_request: Amounts,
    min: Amounts,
    max: Amounts,
    ratio: Amounts,
}

impl Limit {
    /// Source: `SetDefaults_LimitRangeItem`.
    pub(super) fn new(item: &api::LimitRangeItem) -> Self {
        let mut limit = Self {
            kind: item.type_.clone(),
            default: amounts::list(item.default.as_ref()),
            default_request: amounts::list(item.default_request.as_ref()),
            min: amounts::list(item.min.as_ref()),
            max: amounts::list(item.max.as_ref()),
            ratio: amounts::list(item.max_limit_request_ratio.as_ref()),
        };
        if limit.kind == CONTAINER {
            complete(&mut limit.default, &limit.max);
            complete(&mut limit.default_request, &limit.default);
            complete(&mut limit.default_request, &limit.min);
        }
        limit
    }

    /// All violations of a container or a pod.
    fn check(&self, requests: &Amounts, limits: &Amounts, errors: &mut Vec<String>) {
        let kind = &self.kind;
        let mut expect = |found: Result<(), String>| errors.extend(found.err());
        for (name, enforced) in &self.min {
            expect(at_least(kind, name, *enforced, requests.get(name), limits.get(name)));
        }
        for (name, enforced) in &self.max {
            expect(at_most(kind, name, *enforced, requests.get(name), limits.get(name)));
        }
        for (name, enforced) in &self.ratio {
            expect(ratio(kind, name, *enforced, requests.get(name), limits.get(name)));
        }
    }
}

fn complete(list: &mut Amounts, with: &Amounts) {
    for (name, amount) in with {
        list.entry(name.clone()).or_insert(*amount);
    }
}

/// Sets the defaults of all containers that lack them. A limit never becomes a request here.
///
/// Source: `PodMutateLimitFunc`.
pub(super) fn set_defaults(limits: &[Limit], spec: &mut api::PodSpec) {
    let (mut requests, mut most) = (Amounts::new(), Amounts::new());
    for limit in limits.iter().filter(|limit| limit.kind == CONTAINER) {
        requests.extend(limit.default_request.clone());
        most.extend(limit.default.clone());
    }
    if requests.is_empty() && most.is_empty() {
        return;
    }
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        let resources = container.resources.get_or_insert_default();
        let mut known = quantities(&requests);
        known.extend(resources.requests.take().unwrap_or_default());
        resources.requests = Some(known).filter(|list| !list.is_empty());
        let mut known = quantities(&most);
        known.extend(resources.limits.take().unwrap_or_default());
        resources.limits = Some(known).filter(|list| !list.is_empty());
    }
}

/// A default limit may be below a request that the pod names.
///
/// Source: `validateResourceRequirements` in `pkg/apis/core/validation`.
pub(super) fn validate_resources(spec: &api::PodSpec) -> Result<(), String> {
    let containers = spec.containers.iter().enumerate().map(|(index, container)| ("containers", index, container));
    let init = spec.init_containers.iter().flatten().enumerate();
    for (list, index, container) in
        containers.chain(init.map(|(index, container)| ("initContainers", index, container)))
    {
        let resources = container.resources.as_ref();
        let limits = Side::Limits.of(resources);
        for (name, request) in Side::Requests.of(resources) {
            let Some(limit) = limits.get(&name).filter(|limit| request.value > limit.value) else { continue };
            let path = format!("spec.{list}[{index}].resources.requests");
            return Err(format!(
                "{path}: Invalid value: \"{request}\": must be less than or equal to {name} limit of {limit}"
            ));
        }
    }
    Ok(())
}

/// Requests from defaults may exceed those of the pod.
///
/// Source: `validatePodResourceConsistency` in `pkg/apis/core/validation`.
pub(super) fn validate_pod_level(spec: &api::PodSpec) -> Result<(), String> {
    let containers = amounts::pod(spec, Side::Requests, |_| false);
    for (name, request) in Side::Requests.of(spec.resources.as_ref()) {
        if let Some(sum) = containers.get(&name).filter(|sum| sum.value > request.value) {
            return Err(format!(
                "spec.resources.requests[{name}]: Invalid value: \"{request}\": must be greater than or equal to aggregate \
                 container requests of {sum}"
            ));
        }
    }
    let limits = Side::Limits.of(spec.resources.as_ref());
    for (index, container) in spec.containers.iter().enumerate() {
        for (name, own) in Side::Limits.of(container.resources.as_ref()) {
            let Some(limit) = limits.get(&name).filter(|limit| own.value > limit.value) else { continue };
            return Err(format!(
                "spec.resources.containers[{index}][{name}].limits: Invalid value: \"{own}\": must be less than or equal to \
                 pod limits of {limit}"
            ));
        }
    }
    Ok(())
}

/// Source: `PodValidateLimitFunc`.
pub(super) fn check_pod(limits: &[Limit], spec: &api::PodSpec) -> Result<(), String> {
    let mut errors = Vec::new();
    for limit in limits {
        match &*limit.kind {
            CONTAINER => {
                for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
                    let resources = container.resources.as_ref();
                    limit.check(&Side::Requests.of(resources), &Side::Limits.of(resources), &mut errors);
                }
            }
            POD => {
                let is_pod_level = |name: &str| matches!(name, "cpu" | "memory");
                let sum = |side| amounts::pod(spec, side, is_pod_level);
                limit.check(&sum(Side::Requests), &sum(Side::Limits), &mut errors);
            }
            _ => {}
        }
    }
    aggregate(errors)
}

/// Source: `PersistentVolumeClaimValidateLimitFunc`.
pub(super) fn check_claim(limits: &[Limit], claim: &api::PersistentVolumeClaim) -> Result<(), String> {
    let requests = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
    let requests = amounts::list(requests);
    let mut errors = Vec::new();
    for limit in limits.iter().filter(|limit| limit.kind == CLAIM) {
        let least = limit.min.iter().map(|(name, enforced)| at_least(CLAIM, name, *enforced, requests.get(name), None));
        let most = limit.max.iter().map(|(name, enforced)| request_at_most(name, *enforced, requests.get(name)));
        errors.extend(least.chain(most).filter_map(Result::err));
    }
    aggregate(errors)
}

/// Source: `minConstraint`.
fn at_least(
    kind: &str,
    name: &str,
    enforced: Amount,
    request: Option<&Amount>,
    limit: Option<&Amount>,
) -> Result<(), String> {
    let Some(request) = request else {
        return Err(format!("minimum {name} usage per {kind} is {enforced}.  No request is specified"));
    };
    if request.value < enforced.value {
        return Err(format!("minimum {name} usage per {kind} is {enforced}, but request is {request}"));
    }
    match limit {
        Some(limit) if limit.value < enforced.value => {
            Err(format!("minimum {name} usage per {kind} is {enforced}, but limit is {limit}"))
        }
        _ => Ok(()),
    }
}

/// Source: `maxConstraint`.
fn at_most(
    kind: &str,
    name: &str,
    enforced: Amount,
    request: Option<&Amount>,
    limit: Option<&Amount>,
) -> Result<(), String> {
    let Some(limit) = limit else {
        return Err(format!("maximum {name} usage per {kind} is {enforced}.  No limit is specified"));
    };
    if limit.value > enforced.value {
        return Err(format!("maximum {name} usage per {kind} is {enforced}, but limit is {limit}"));
    }
    match request {
        Some(request) if request.value > enforced.value => {
            Err(format!("maximum {name} usage per {kind} is {enforced}, but request is {request}"))
        }
        _ => Ok(()),
    }
}

/// Source: `maxRequestConstraint`.
fn request_at_most(name: &str, enforced: Amount, request: Option<&Amount>) -> Result<(), String> {
    match request {
        None => Err(format!("maximum {name} usage per {CLAIM} is {enforced}.  No request is specified")),
        Some(request) if request.value > enforced.value => {
            Err(format!("maximum {name} usage per {CLAIM} is {enforced}, but request is {request}"))
        }
        Some(_) => Ok(()),
    }
}

/// Source: `limitRequestRatioConstraint`.
#[expect(clippy::cast_precision_loss, reason = "as upstream")]
fn ratio(
    kind: &str,
    name: &str,
    enforced: Amount,
    request: Option<&Amount>,
    limit: Option<&Amount>,
) -> Result<(), String> {
    let words = format!("{name} max limit to request ratio per {kind} is {enforced}");
    let Some(request) = request.filter(|request| !request.is_zero()) else {
        return Err(format!("{words}, but no request is specified or request is 0"));
    };
    let Some(limit) = limit.filter(|limit| !limit.is_zero()) else {
        return Err(format!("{words}, but no limit is specified or limit is 0"));
    };
    let is_small = |amount: &Amount| amount.value.units() <= i64::MAX / 1000;
    let found = match is_small(request) && is_small(limit) {
        true => limit.value.milli() as f64 / request.value.milli() as f64,
        false => limit.value.units() as f64 / request.value.units() as f64,
    };
    let (found_milli, most) = (found * 1000.0, enforced.value.milli() as f64);
    if found_milli > most { Err(format!("{words}, but provided ratio is {found:.6}")) } else { Ok(()) }
}
