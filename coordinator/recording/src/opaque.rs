//! Masks data for device drivers: parameters of claims, classes and allocations, and device data. It is free text and may be secret.
//!
//! The scheduler compares this data only for equality: claims with different parameters differ. A mark therefore replaces it, equal for
//! equal data. A mark is a hash under a random key that is never written, so that the data cannot be guessed.

use std::{borrow::Cow, collections::hash_map::RandomState, hash::BuildHasher as _, sync::Arc};

use flotilla_framework::{
    devices::{
        model::{
            allocation::Allocation,
            claim::{DeviceClaim, DeviceStatus},
            class::DeviceClass,
            request::{ClaimSpec, Configuration},
        },
        objects::DeviceObject,
    },
    extension::objects::Object,
};
use flotilla_machine::event::Event;

#[derive(Debug, Default)]
pub(crate) struct Marks {
    key: RandomState,
}

impl Marks {
    pub(crate) fn left_out<'a>(&self, event: &'a Event) -> Cow<'a, Event> {
        let Event::ObjectApplied(Object::Device(object)) = event else { return Cow::Borrowed(event) };
        let object: DeviceObject = match object {
            DeviceObject::Claim(claim) if is_claim_concerned(claim) => self.claim(claim).into(),
            DeviceObject::Class(class) if class.config.iter().any(is_opaque) => self.class(class).into(),
            _ => return Cow::Borrowed(event),
        };
        Cow::Owned(Event::ObjectApplied(object.into()))
    }

    fn claim(&self, claim: &DeviceClaim) -> DeviceClaim {
        let mut claim = DeviceClaim::clone(claim);
        if is_spec_concerned(&claim.spec) {
            let configs = &mut Arc::make_mut(&mut claim.spec).config;
            configs.iter_mut().for_each(|config| self.configuration(&mut config.configuration));
        }
        if let Some(allocation) = &mut claim.allocation
            && is_allocation_concerned(allocation)
        {
            let configs = &mut Arc::make_mut(allocation).config;
            configs.iter_mut().for_each(|config| self.configuration(&mut config.configuration));
        }
        for DeviceStatus { data, network_data, .. } in &mut claim.statuses {
            data.iter_mut().chain(network_data).for_each(|text| self.mark(text));
        }
        claim
    }

    fn class(&self, class: &DeviceClass) -> DeviceClass {
        let mut class = DeviceClass::clone(class);
        class.config.iter_mut().for_each(|configuration| self.configuration(configuration));
        class
    }

    fn configuration(&self, configuration: &mut Configuration) {
        configuration.opaque.iter_mut().for_each(|opaque| self.mark(&mut opaque.parameters));
    }

    /// A JSON string, because the data is JSON.
    fn mark(&self, text: &mut Arc<str>) {
        *text = format!("\"left out {:016x}\"", self.key.hash_one(&**text)).into();
    }
}

const fn is_opaque(configuration: &Configuration) -> bool {
    configuration.opaque.is_some()
}

fn is_spec_concerned(spec: &ClaimSpec) -> bool {
    spec.config.iter().any(|config| is_opaque(&config.configuration))
}

fn is_allocation_concerned(allocation: &Allocation) -> bool {
    allocation.config.iter().any(|config| is_opaque(&config.configuration))
}

fn is_claim_concerned(claim: &DeviceClaim) -> bool {
    is_spec_concerned(&claim.spec)
        || claim.allocation.as_deref().is_some_and(is_allocation_concerned)
        || claim.statuses.iter().any(|status| status.data.is_some() || status.network_data.is_some())
}
