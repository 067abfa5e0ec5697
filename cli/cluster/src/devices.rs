//! The object kinds of Dynamic Resource Allocation.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{
    class::{Class, PodInfo},
    devices::{
        claimed::{ClaimSource, PodDevices},
        model::{
            claim::{Controller, DeviceClaim, SCHEDULING},
            request::ClaimSpec,
        },
        objects::DeviceObject,
    },
    ingest::{Features, IngestError, device_objects},
    pod_group::{GroupApi, PodGroup},
};
use flotilla_objects::Object;
use k8s_openapi::{
    api::{
        core::v1 as api,
        resource::v1::{
            DeviceClass, DeviceTaintRule, DeviceToleration, ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate,
            ResourceSlice,
        },
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

/// An object of Dynamic Resource Allocation.
pub trait Device: Object {
    /// The name of the kind.
    const NAME: &'static str;
    /// Whether the kind is namespaced.
    const IS_NAMESPACED: bool = false;

    /// The metadata.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    /// Sets the API server's defaults.
    fn fill_in(&mut self) {}

    /// The part that scheduling reads with these features.
    fn read(&self, features: Features) -> Result<Read, IngestError>;
}

/// The result of reading an object.
pub enum Read {
    /// An object that scheduling reads.
    Object(DeviceObject),
    /// The spec of a ResourceClaimTemplate.
    Template(ClaimSpec),
}

impl Device for ResourceClaim {
    const NAME: &'static str = "ResourceClaim";
    const IS_NAMESPACED: bool = true;

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn fill_in(&mut self) {
        self.spec.iter_mut().for_each(fill_in);
    }

    fn read(&self, features: Features) -> Result<Read, IngestError> {
        device_objects::claim(self, features).map(|claim| Read::Object(claim.into()))
    }
}

impl Device for ResourceClaimTemplate {
    const NAME: &'static str = "ResourceClaimTemplate";
    const IS_NAMESPACED: bool = true;

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn fill_in(&mut self) {
        self.spec.iter_mut().flat_map(|spec| &mut spec.spec).for_each(fill_in);
    }

    fn read(&self, features: Features) -> Result<Read, IngestError> {
        let spec = self.spec.as_ref().and_then(|spec| spec.spec.as_ref());
        spec.map_or_else(|| Ok(ClaimSpec::default()), |spec| device_objects::spec(spec, features)).map(Read::Template)
    }
}

impl Device for DeviceClass {
    const NAME: &'static str = "DeviceClass";

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn read(&self, _features: Features) -> Result<Read, IngestError> {
        device_objects::device_class(self).map(|class| Read::Object(class.into()))
    }
}

impl Device for ResourceSlice {
    const NAME: &'static str = "ResourceSlice";

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn read(&self, features: Features) -> Result<Read, IngestError> {
        device_objects::slice(self, features).map(|slice| Read::Object(slice.into()))
    }
}

impl Device for DeviceTaintRule {
    const NAME: &'static str = "DeviceTaintRule";

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn read(&self, features: Features) -> Result<Read, IngestError> {
        device_objects::taint_rule(self, features).map(|rule| Read::Object(rule.into()))
    }
}

/// Source: `SetDefaults_ExactDeviceRequest`, `SetDefaults_DeviceSubRequest` and `SetDefaults_DeviceToleration`.
fn fill_in(spec: &mut ResourceClaimSpec) {
    let requests = spec.devices.iter_mut().flat_map(|devices| devices.requests.iter_mut().flatten());
    for request in requests {
        if let Some(exactly) = &mut request.exactly {
            fill_in_ask(&mut exactly.allocation_mode, &mut exactly.count, exactly.tolerations.as_mut());
        }
        for alternative in request.first_available.iter_mut().flatten() {
            fill_in_ask(&mut alternative.allocation_mode, &mut alternative.count, alternative.tolerations.as_mut());
        }
    }
}

fn fill_in_ask(mode: &mut Option<String>, count: &mut Option<i64>, tolerations: Option<&mut Vec<DeviceToleration>>) {
    let mode = mode.get_or_insert_default();
    if mode.is_empty() {
        *mode = "ExactCount".to_owned();
    }
    if mode == "ExactCount" && count.unwrap_or(0) == 0 {
        *count = Some(1);
    }
    for toleration in tolerations.into_iter().flatten() {
        toleration.operator.get_or_insert_with(|| "Equal".to_owned());
    }
}

/// Adds missing claim names to the pod's status for claims from templates. Returns the templates by claim name.
///
/// Source: the ResourceClaim controller, which appends five random letters.
pub(super) fn name_claims(pod: &mut api::Pod) -> BTreeMap<Arc<str>, String> {
    let own = pod.metadata.name.clone().unwrap_or_default();
    let mut made = BTreeMap::new();
    let Some(claims) = pod.spec.as_ref().and_then(|spec| spec.resource_claims.as_ref()) else { return made };
    let mut named = pod.status.as_ref().and_then(|status| status.resource_claim_statuses.clone()).unwrap_or_default();
    let known: BTreeSet<String> = named.iter().map(|status| status.name.clone()).collect();
    for claim in claims.iter().filter(|claim| claim.resource_claim_name.is_none() && !known.contains(&claim.name)) {
        let Some(template) = &claim.resource_claim_template_name else { continue };
        let name = format!("{own}-{}", claim.name);
        made.insert(name.as_str().into(), template.clone());
        named.push(api::PodResourceClaimStatus { name: claim.name.clone(), resource_claim_name: Some(name) });
    }
    if !made.is_empty() {
        pod.status.get_or_insert_default().resource_claim_statuses = Some(named);
    }
    made
}

/// The specs of ResourceClaimTemplates by namespace and name.
pub(super) type Templates = BTreeMap<(Arc<str>, Arc<str>), Arc<ClaimSpec>>;

/// Names the missing claims of pod groups in them, and returns the claims.
///
/// Source: the ResourceClaim controller, which appends five random letters.
pub(super) fn made_for_groups(groups: Option<&mut Vec<PodGroup>>, templates: &Templates) -> Vec<DeviceObject> {
    let mut claims = Vec::new();
    for PodGroup { namespace, name: group, uid, claims: entries, .. } in groups.into_iter().flatten() {
        for entry in entries.iter_mut().filter(|entry| entry.source == ClaimSource::NotCreated) {
            let template = entry.template.clone().map(|template| (Arc::clone(namespace), template));
            let Some(spec) = template.and_then(|template| templates.get(&template)) else { continue };
            let name: Arc<str> = format!("{group}-{}", entry.entry).into();
            let controller = Controller {
                api_group: SCHEDULING.into(),
                kind: "PodGroup".into(),
                name: Arc::clone(group),
                uid: Arc::clone(uid),
            };
            claims.push(claim((namespace, &name), controller, spec));
            entry.source = ClaimSource::Generated(name);
        }
    }
    claims
}

fn claim((namespace, name): (&Arc<str>, &Arc<str>), controller: Controller, spec: &Arc<ClaimSpec>) -> DeviceObject {
    let claim = DeviceClaim {
        namespace: Arc::clone(namespace),
        name: Arc::clone(name),
        uid: format!("{namespace}/{name}").into(),
        controller: Some(controller),
        spec: Arc::clone(spec),
        ..DeviceClaim::default()
    };
    claim.into()
}

/// The claims that the ResourceClaim controller would create from these templates; none for a missing template. A claim that the pod shares
/// with its group is that of the group.
pub(super) fn made_for(
    pod: &mut PodInfo,
    made: &BTreeMap<Arc<str>, String>,
    templates: &Templates,
    groups: Option<&[PodGroup]>,
) -> Vec<DeviceObject> {
    let mut claims = Vec::new();
    let Some(devices) = pod.class.devices.clone().filter(|_| !made.is_empty()) else { return claims };
    let is_its = |group: &&PodGroup| {
        let (name, api) = (Some(&group.name), group.api);
        group.namespace == pod.class.namespace && name == devices.group.as_ref() && api == GroupApi::Kubernetes
    };
    let group = groups.into_iter().flatten().find(is_its);
    let mut devices = PodDevices::clone(&devices);
    for own in &mut devices.claims {
        let ClaimSource::Generated(name) = &own.source else { continue };
        let Some(template) = made.get(name) else { continue };
        let of_group = group.and_then(|group| group.claims.iter().find(|of_group| own.is_of_group(of_group)));
        if let Some(of_group) = of_group {
            own.source = of_group.source.clone();
            continue;
        }
        let Some(spec) = templates.get(&(Arc::clone(&pod.class.namespace), template.as_str().into())) else {
            own.source = ClaimSource::NotCreated;
            continue;
        };
        let (pod_name, uid) = (Arc::clone(&pod.name), Arc::clone(&pod.uid));
        let controller = Controller { kind: "Pod".into(), name: pod_name, uid, ..Controller::default() };
        claims.push(claim((&pod.class.namespace, name), controller, spec));
    }
    if pod.class.devices.as_deref() != Some(&devices) {
        pod.class = Arc::new(Class { devices: Some(Arc::new(devices)), ..Class::clone(&pod.class) });
    }
    claims
}
