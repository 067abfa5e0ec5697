//! What drivers of devices alone read, left out: the parameters of claims, classes and allocations, and the data that a driver
//! reports of a device. It is free text and may be a secret.
//!
//! The scheduler copies it, and compares it with what it was: two claims that ask for the same with other parameters are not the
//! same. So a mark stands in its place, equal where what it stands for is equal. A mark is a hash under a key that the process draws
//! and nobody writes down, so that nobody can try out what it stands for.
//!
//! Must not know: what is written of anything else.

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

/// Gives the marks of one recording.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    key: RandomState,
}

// === impl Marks ===

impl Marks {
    /// The event without it.
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

    /// A string of JSON, as the text that it stands for is JSON.
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
