//! ResourceQuotas: the pods and claims that a namespace may have.
//!
//! Source: `k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go` and `pkg/quota/v1/evaluator/core`.

use std::collections::{BTreeMap, BTreeSet};

use flotilla_framework::{class::PodInfo, quantity::Quantity, resources::Resources, volumes::objects::Claim};
use k8s_openapi::api::core::v1 as api;

use super::amounts::{self, Amount, Amounts, Side};

mod charges;
mod scope;

pub use charges::Quotas;
pub(crate) use charges::{Charge, Charges};
use scope::{Facts, Scope};

/// The resources that each container must specify if a quota limits them.
const REQUIRED: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
const POD_COUNT: &str = "count/pods";
const CLAIM_COUNT: &str = "count/persistentvolumeclaims";
const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
const BY_CLASS: &str = ".storageclass.storage.k8s.io/";

/// A quota with the usage so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Quota {
    pub(crate) name: String,
    hard: Amounts,
    used: Amounts,
    /// The usage that the status reports.
    reported: Amounts,
    scopes: Vec<Scope>,
}

impl Quota {
    pub(crate) fn new(name: &str, quota: &api::ResourceQuota) -> Self {
        let spec = quota.spec.clone().unwrap_or_default();
        let scopes = spec.scopes.iter().flatten().map(|name| Scope::exists(name));
        let selectors = spec.scope_selector.iter().flat_map(|selector| selector.match_expressions.iter().flatten());
        Self {
            name: name.to_owned(),
            hard: amounts::list(spec.hard.as_ref()),
            used: Amounts::new(),
            reported: amounts::list(quota.status.as_ref().and_then(|status| status.used.as_ref())),
            scopes: scopes.chain(selectors.map(Scope::new)).collect(),
        }
    }

    /// Counts an object that exists.
    fn count(&mut self, facts: &Facts<'_>, usage: &Amounts) {
        if self.scopes.iter().all(|scope| scope.matches(facts)) {
            let usage = self.of(usage);
            amounts::add(&mut self.used, &usage);
        }
    }

    /// The status counts objects that the input may lack, and the input may have objects that are newer than the status.
    fn settle(&mut self) {
        amounts::raise(&mut self.used, &self.reported);
    }

    fn of(&self, usage: &Amounts) -> Amounts {
        let is_limited = |(name, amount): &(&String, &Amount)| self.hard.contains_key(*name) && !amount.is_zero();
        usage.iter().filter(is_limited).map(|(name, amount)| (name.clone(), *amount)).collect()
    }

    fn matches(&self, facts: &Facts<'_>, is_read: fn(&str) -> bool) -> bool {
        self.hard.keys().any(|name| is_read(name)) && self.scopes.iter().all(|scope| scope.matches(facts))
    }

    /// Source: `CheckRequest`.
    fn check(&self, usage: &Amounts) -> Result<(), String> {
        let (mut requested, mut used, mut limited) = (Amounts::new(), Amounts::new(), Amounts::new());
        for (name, amount) in self.of(usage) {
            let before = self.used.get(&name).copied().unwrap_or_default();
            let Some(hard) = self.hard.get(&name).filter(|hard| before.plus(amount).value > hard.value) else {
                continue;
            };
            used.insert(name.clone(), before);
            limited.insert(name.clone(), *hard);
            requested.insert(name, amount);
        }
        if requested.is_empty() {
            return Ok(());
        }
        let [requested, used, limited] = [&requested, &used, &limited].map(amounts::print);
        Err(format!("exceeded quota: {}, requested: {requested}, used: {used}, limited: {limited}", self.name))
    }
}

/// The charge of a pod that is created, without charging it.
///
/// # Errors
/// The pod does not specify what a quota limits.
pub(super) fn charge_of(quotas: &[Quota], pod: &api::Pod, default_class: Option<&str>) -> Result<Charge, String> {
    let Some(spec) = &pod.spec else { return Ok(Charge::default()) };
    let facts = Facts::of_pod(spec, default_class);
    for quota in quotas.iter().filter(|quota| quota.matches(&facts, is_of_pods)) {
        specified(quota, spec).map_err(|error| format!("failed quota: {}: {error}", quota.name))?;
    }
    Ok(Charge::new(quotas, &facts, &usage_of_new(spec), is_of_pods))
}

pub(super) fn charge_claim(quotas: &mut [Quota], claim: &api::PersistentVolumeClaim) -> Result<(), String> {
    let spec = claim.spec.clone().unwrap_or_default();
    let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let storage = requests.and_then(|requests| Amount::parse(&requests.get("storage")?.0));
    let class = crate::workloads::class_of(claim).unwrap_or_default();
    let attributes = spec.volume_attributes_class_name.unwrap_or_default();
    Charge::new(quotas, &Facts::Claim(&attributes), &usage_of_claim(class, storage), is_of_claims).make(quotas)
}

/// Counts the pods and claims that exist, before any is charged. Returns the charges of the pods.
pub(crate) fn count_existing<'a>(
    quotas: &mut BTreeMap<String, Vec<Quota>>,
    pods: impl Iterator<Item = &'a PodInfo>,
    claims: impl Iterator<Item = &'a Claim>,
    class_of: impl Fn(&PodInfo) -> Option<&'a str>,
) -> Charges {
    let mut charges = Charges::default();
    for pod in pods {
        let Some(quotas) = quotas.get_mut(&*pod.class.namespace) else { continue };
        let usage = usage_of(pod);
        let facts = Facts::of_info(pod, class_of(pod));
        quotas.iter_mut().for_each(|quota| quota.count(&facts, &usage));
        if !pod.finished {
            charges.insert(std::sync::Arc::clone(&pod.uid), Charge::new(quotas, &facts, &usage, is_of_pods));
        }
    }
    for claim in claims {
        let Some(quotas) = quotas.get_mut(&*claim.namespace) else { continue };
        let usage = usage_of_claim(&claim.storage_class, claim.requested.map(Amount::bytes));
        quotas.iter_mut().for_each(|quota| quota.count(&Facts::Claim(&claim.attributes_class), &usage));
    }
    quotas.values_mut().flatten().for_each(Quota::settle);
    charges
}

/// Whether a quota of this resource concerns pods. Source: `MatchingResources` of `podEvaluator`.
fn is_of_pods(name: &str) -> bool {
    let is_extended = |name: &str| name.contains('/') && !name.contains("kubernetes.io/");
    matches!(name, POD_COUNT | "pods" | "ephemeral-storage" | "requests.ephemeral-storage" | "limits.ephemeral-storage")
        || REQUIRED.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
        || name.starts_with("requests.deviceclass.resource.kubernetes.io/")
        || name.strip_prefix("requests.").is_some_and(is_extended)
}

/// Source: `MatchingResources` of `pvcEvaluator`.
fn is_of_claims(name: &str) -> bool {
    matches!(name, CLAIM_COUNT | CLAIMS | STORAGE)
        || name.split_once(BY_CLASS).is_some_and(|(_, resource)| matches!(resource, CLAIMS | STORAGE))
}

/// Source: `podComputeUsageHelper`.
fn compute_usage(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::from([("pods".to_owned(), Amount::ONE)]);
    for (name, amount) in requests {
        let is_native = matches!(&**name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
        if is_native {
            usage.insert(name.clone(), *amount);
        }
        if is_native || name.contains('/') {
            usage.insert(format!("requests.{name}"), *amount);
        }
    }
    for (name, amount) in limits {
        if matches!(&**name, "cpu" | "memory" | "ephemeral-storage") {
            usage.insert(format!("limits.{name}"), *amount);
        }
    }
    usage
}

/// Source: `PodUsageFunc`.
fn usage_of_new(spec: &api::PodSpec) -> Amounts {
    let is_pod_level = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    let mut requests = amounts::pod(spec, Side::Requests, is_pod_level);
    let mut limits = amounts::pod(spec, Side::Limits, is_pod_level);
    let overhead = amounts::list(spec.overhead.as_ref());
    amounts::add(&mut requests, &overhead);
    limits.retain(|_, amount| !amount.is_zero());
    let limited: Amounts = overhead.into_iter().filter(|(name, _)| limits.contains_key(name)).collect();
    amounts::add(&mut limits, &limited);
    with_count(compute_usage(&requests, &limits))
}

fn with_count(mut usage: Amounts) -> Amounts {
    usage.insert(POD_COUNT.to_owned(), Amount::ONE);
    usage
}

/// The usage of a pod that exists. A terminated pod only counts as an object.
fn usage_of(pod: &PodInfo) -> Amounts {
    if pod.finished {
        return with_count(Amounts::new());
    }
    let limits = pod.limits.as_deref().map(amounts_of).unwrap_or_default();
    with_count(compute_usage(&amounts_of(&pod.class.requests), &limits))
}

fn amounts_of(resources: &Resources) -> Amounts {
    let bytes = |bytes: i64| Amount::bytes(Quantity::from_units(bytes));
    let cpu = Amount::parse(&format!("{}m", resources.milli_cpu)).unwrap_or_default();
    let native =
        [("cpu", cpu), ("memory", bytes(resources.memory)), ("ephemeral-storage", bytes(resources.ephemeral_storage))];
    let native = native.into_iter().map(|(name, amount)| (name.to_owned(), amount));
    let scalar = |(name, amount): &(std::sync::Arc<str>, i64)| {
        let amount = if name.starts_with("hugepages-") { bytes(*amount) } else { count(*amount) };
        (name.to_string(), amount)
    };
    native.chain(resources.scalars.iter().map(scalar)).filter(|(_, amount)| !amount.is_zero()).collect()
}

fn count(number: i64) -> Amount {
    Amount::parse(&number.to_string()).unwrap_or_default()
}

/// Source: `Usage` of `pvcEvaluator`.
fn usage_of_claim(class: &str, storage: Option<Amount>) -> Amounts {
    let mut usage = Amounts::from([(CLAIMS.to_owned(), Amount::ONE), (CLAIM_COUNT.to_owned(), Amount::ONE)]);
    let storage = storage.map(Amount::rounded_up);
    usage.extend(storage.map(|storage| (STORAGE.to_owned(), storage)));
    if !class.is_empty() {
        usage.insert(format!("{class}{BY_CLASS}{CLAIMS}"), Amount::ONE);
        usage.extend(storage.map(|storage| (format!("{class}{BY_CLASS}{STORAGE}"), storage)));
    }
    usage
}

/// Each container must specify the CPU and memory that the quota limits, unless the pod does.
///
/// Source: `Constraints` of `podEvaluator`.
fn specified(quota: &Quota, spec: &api::PodSpec) -> Result<(), String> {
    let is_pod_level = |name: &String| matches!(&**name, "cpu" | "memory") || name.starts_with("hugepages-");
    let sides = [Side::Requests, Side::Limits];
    if sides.iter().any(|side| side.of(spec.resources.as_ref()).keys().any(is_pod_level)) {
        return Ok(());
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
        let [requests, limits] = sides.map(|side| side.of(container.resources.as_ref()));
        let usage = compute_usage(&requests, &limits);
        for name in REQUIRED.into_iter().filter(|name| quota.hard.contains_key(*name) && !usage.contains_key(*name)) {
            missing.entry(name).or_default().insert(&container.name);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let part = |(name, containers): (&str, BTreeSet<&str>)| {
        format!("{name} for: {}", containers.into_iter().collect::<Vec<_>>().join(","))
    };
    let parts: Vec<String> = missing.into_iter().map(part).collect();
    Err(format!("must specify {}", parts.join("; ")))
}

/// The number of further copies of a pod that the quotas of its namespace admit, and the error of the next one; `None` if no quota limits it.
pub(crate) fn copies(quotas: &[Quota], pod: &api::Pod, default_class: Option<&str>) -> Option<(usize, String)> {
    let spec = pod.spec.as_ref()?;
    let (facts, usage) = (Facts::of_pod(spec, default_class), usage_of_new(spec));
    let concerned = quotas.iter().filter(|quota| quota.matches(&facts, is_of_pods));
    let most = |quota: &Quota| {
        let left = |(name, amount): (String, Amount)| {
            let (hard, used) = (quota.hard.get(&name)?, quota.used.get(&name).copied().unwrap_or_default());
            let left = hard.value.milli().saturating_sub(used.value.milli());
            usize::try_from(left.checked_div(amount.value.milli())?.max(0)).ok()
        };
        quota.of(&usage).into_iter().filter_map(left).min()
    };
    let (most, quota) = concerned.filter_map(|quota| Some((most(quota)?, quota))).min_by_key(|(most, _)| *most)?;
    let mut full = quota.clone();
    for (name, amount) in quota.of(&usage) {
        let times = i64::try_from(most).unwrap_or(i64::MAX);
        let total = Quantity::parse(&format!("{}m", amount.value.milli().saturating_mul(times))).unwrap_or_default();
        let used = full.used.entry(name).or_default();
        *used = used.plus(amount.with(total));
    }
    full.check(&usage).err().map(|error| (most, error))
}
