//! Admission of the pods and claims that are created now, as by the API server.
//!
//! Source: `plugin/pkg/admission`. Objects that were in a cluster before are already admitted, and stay unchanged.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::{
    api::core::v1 as api,
    apimachinery::pkg::{api::resource::Quantity as ApiQuantity, apis::meta::v1::ObjectMeta},
};
use serde::{Deserialize, Serialize};

use super::defaults;

pub(crate) mod amounts;
mod limit_range;
mod node_selector;
pub(crate) mod quota;
mod runtime_class;
pub(crate) mod unmodelled;

use limit_range::Limit;
pub(crate) use node_selector::ANNOTATION;
use node_selector::Selector;
pub use quota::Quotas;
use quota::{Charges, Quota};
use runtime_class::Runtime;
use unmodelled::Unmodelled;

/// The objects that change or refuse a pod without regard to other pods.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// The items of LimitRanges by namespace and name.
    limits: BTreeMap<String, BTreeMap<String, Vec<Limit>>>,
    runtimes: BTreeMap<String, Runtime>,
    /// The node selectors that namespaces annotate.
    selectors: BTreeMap<String, Selector>,
    /// Namespaces that are being deleted.
    terminating: BTreeSet<String>,
}

/// The state of admission while objects are gathered.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    pub(crate) rules: Rules,
    /// The quotas by namespace, sorted by name.
    pub(crate) quotas: BTreeMap<String, Vec<Quota>>,
    /// The charges of pods.
    pub(crate) charges: Charges,
    /// The name of the default priority class.
    pub(crate) default_class: Option<String>,
    pub(crate) unmodelled: Unmodelled,
    /// All objects of the input are known.
    pub(crate) is_closed: bool,
    /// Objects that are added now are complete.
    pub(crate) is_off: bool,
    /// The index of the workload that owns the added objects.
    pub(crate) workload: Option<usize>,
}

/// Whether an object was never in a cluster.
pub(crate) fn is_new(metadata: &ObjectMeta) -> bool {
    let is_absent = |field: &Option<String>| field.as_deref().is_none_or(str::is_empty);
    is_absent(&metadata.uid) && is_absent(&metadata.resource_version)
}

/// The namespace of an object.
pub(crate) fn namespace(metadata: &ObjectMeta) -> &str {
    metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

impl Rules {
    pub(crate) fn add_limits(&mut self, namespace: &str, name: &str, range: &api::LimitRange) {
        let items = range.spec.iter().flat_map(|spec| &spec.limits).map(Limit::new).collect();
        self.limits.entry(namespace.to_owned()).or_default().insert(name.to_owned(), items);
    }

    pub(crate) fn add_runtime(&mut self, name: &str, class: &k8s_openapi::api::node::v1::RuntimeClass) {
        self.runtimes.insert(name.to_owned(), Runtime::new(class));
    }

    pub(crate) fn see_namespace(&mut self, namespace: &api::Namespace) {
        let metadata = &namespace.metadata;
        let name = metadata.name.clone().unwrap_or_default();
        let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
        if phase == Some("Terminating") || metadata.deletion_timestamp.is_some() {
            self.terminating.insert(name.clone());
        }
        if let Some(text) = metadata.annotations.as_ref().and_then(|annotations| annotations.get(ANNOTATION)) {
            self.selectors.insert(name, Selector::parse(text));
        }
    }

    /// Whether the input has any RuntimeClass.
    pub(crate) fn knows_runtimes(&self) -> bool {
        !self.runtimes.is_empty()
    }

    /// The annotated node selector of a namespace.
    pub(crate) fn selector(&self, namespace: &str) -> Option<&Selector> {
        self.selectors.get(namespace)
    }

    /// Source: `NamespaceLifecycle`.
    fn check_namespace(&self, namespace: &str) -> Result<(), String> {
        if self.terminating.contains(namespace) {
            let text = format!("unable to create new content in namespace {namespace} because it is being terminated");
            return Err(text);
        }
        Ok(())
    }

    fn limits(&self, namespace: &str) -> impl Iterator<Item = &Vec<Limit>> {
        self.limits.get(namespace).into_iter().flat_map(BTreeMap::values)
    }

    /// Sets defaults and checks limits, as all plugins but ResourceQuota. `pod_level`: the pod-level resources before their defaults.
    ///
    /// Source: `AllOrderedPlugins`: first all plugins change the pod, then it is validated, then the plugins validate it.
    fn admit(&self, pod: &mut api::Pod, pod_level: Option<api::ResourceRequirements>) -> Result<(), String> {
        let namespace = namespace(&pod.metadata).to_owned();
        self.check_namespace(&namespace)?;
        let Some(spec) = &mut pod.spec else { return Ok(()) };
        self.limits(&namespace).for_each(|limits| limit_range::set_defaults(limits, spec));
        if let Some(selector) = self.selectors.get(&namespace) {
            selector.merge(spec)?;
        }
        runtime_class::apply(&self.runtimes, spec)?;
        if pod_level.is_some() {
            // Source: `DefaultPodLevelResources`, after the plugins that set containers' requests.
            spec.resources = pod_level;
            defaults::pod_level_requests(pod);
        }
        let Some(spec) = &pod.spec else { return Ok(()) };
        limit_range::validate_resources(spec)?;
        limit_range::validate_pod_level(spec)?;
        self.limits(&namespace).try_for_each(|limits| limit_range::check_pod(limits, spec))
    }
}

impl Admission {
    /// Whether any rule of the input may concern a pod.
    pub(crate) fn concerns(&self, pod: &api::Pod) -> bool {
        let namespace = namespace(&pod.metadata);
        let has_runtime =
            || pod.spec.as_ref().is_some_and(|spec| spec.runtime_class_name.is_some() || spec.overhead.is_some());
        self.rules.limits.contains_key(namespace)
            || self.quotas.contains_key(namespace)
            || self.rules.selectors.contains_key(namespace)
            || self.rules.terminating.contains(namespace)
            || self.rules.knows_runtimes() && has_runtime()
    }

    /// Whether a rule of the input may concern any pod or claim.
    pub(crate) fn has_rules(&self) -> bool {
        !self.rules.limits.is_empty()
            || !self.rules.runtimes.is_empty()
            || !self.rules.selectors.is_empty()
            || !self.rules.terminating.is_empty()
            || !self.quotas.is_empty()
    }

    /// Admits a pod: sets its defaults, and charges it to the quotas unless it is created later.
    ///
    /// # Errors
    /// Why the API server refuses it.
    pub(crate) fn admit_pod(
        &mut self,
        (pod, uid): (&mut api::Pod, &Arc<str>),
        pod_level: Option<api::ResourceRequirements>,
        is_later: bool,
    ) -> Result<(), String> {
        self.rules.admit(pod, pod_level)?;
        let Some(quotas) = self.quotas.get_mut(namespace(&pod.metadata)) else { return Ok(()) };
        let charge = quota::charge_of(quotas, pod, self.default_class.as_deref())?;
        if !is_later {
            charge.make(quotas)?;
        }
        self.charges.insert(Arc::clone(uid), charge);
        Ok(())
    }

    /// The number of further copies of a pod that the quotas admit, and the error of the next one; `None` if no quota limits it.
    pub(crate) fn copies(&self, pod: &api::Pod) -> Option<(usize, String)> {
        let quotas = self.quotas.get(namespace(&pod.metadata))?;
        quota::copies(quotas, pod, self.default_class.as_deref())
    }

    /// Admits a claim.
    ///
    /// # Errors
    /// Why the API server refuses it.
    pub(crate) fn admit_claim(&mut self, claim: &api::PersistentVolumeClaim) -> Result<(), String> {
        let namespace = namespace(&claim.metadata);
        self.rules.check_namespace(namespace)?;
        self.rules.limits(namespace).try_for_each(|limits| limit_range::check_claim(limits, claim))?;
        let Some(quotas) = self.quotas.get_mut(namespace) else { return Ok(()) };
        quota::charge_claim(quotas, claim)
    }
}

/// An aggregated error. Source: `utilerrors.NewAggregate`.
fn aggregate(mut errors: Vec<String>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    errors.retain(|error| seen.insert(error.clone()));
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

fn quantities(list: &amounts::Amounts) -> BTreeMap<String, ApiQuantity> {
    list.iter().map(|(name, amount)| (name.clone(), ApiQuantity(amount.to_string()))).collect()
}

#[cfg(test)]
mod tests;
