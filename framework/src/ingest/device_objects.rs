//! Reads objects of `resource.k8s.io`: claims, classes, slices and taint rules. API defaults are not applied.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{core::v1 as core, resource::v1 as api},
    apimachinery::pkg::{api::resource::Quantity as ApiQuantity, apis::meta::v1::Time},
};

use super::{
    Features,
    fields::{IngestError, name, node_term, text},
};
use crate::{
    class::NodeTerm,
    devices::{
        amount::Amount,
        model::{
            class::DeviceClass,
            request::{Configuration, OpaqueConfiguration},
            taint::{DeviceTaint, DeviceTaintRule, DeviceToleration, TaintEffect, TaintSelector},
        },
    },
};

mod allocation;
mod claim;
mod slice;

pub use claim::{claim, spec};
pub use slice::slice;

/// Reads a device class.
///
/// # Errors
/// A missing name.
pub fn device_class(class: &api::DeviceClass) -> Result<DeviceClass, IngestError> {
    let none = api::DeviceClassSpec::default();
    let spec = class.spec.as_ref().unwrap_or(&none);
    Ok(DeviceClass {
        name: name(&class.metadata)?,
        created_s: class.metadata.creation_timestamp.as_ref().map_or(0, seconds),
        selectors: selectors(spec.selectors.as_ref()),
        config: spec.config.iter().flatten().map(|config| configuration(config.opaque.as_ref())).collect(),
        extended_resource: spec.extended_resource_name.as_deref().map(text),
    })
}

/// Reads a device taint rule as a scheduler with these features. Without DRADeviceTaintRules it selects no device.
///
/// # Errors
/// A missing name.
pub fn taint_rule(rule: &api::DeviceTaintRule, features: Features) -> Result<DeviceTaintRule, IngestError> {
    let selector = rule.spec.device_selector.as_ref().filter(|_| features.devices.taint_rules);
    Ok(DeviceTaintRule {
        name: name(&rule.metadata)?,
        selector: selector.map(|selector| TaintSelector {
            driver: selector.driver.as_deref().map(text),
            pool: selector.pool.as_deref().map(text),
            device: selector.device.as_deref().map(text),
        }),
        taint: taint(&rule.spec.taint),
    })
}

fn taint(taint: &api::DeviceTaint) -> DeviceTaint {
    DeviceTaint {
        key: text(&taint.key),
        value: text(taint.value.as_deref().unwrap_or_default()),
        effect: TaintEffect::of(&taint.effect),
    }
}

fn tolerations(list: Option<&Vec<api::DeviceToleration>>) -> Vec<DeviceToleration> {
    let field = |field: &Option<String>| text(field.as_deref().unwrap_or_default());
    let toleration = |toleration: &api::DeviceToleration| DeviceToleration {
        key: field(&toleration.key),
        operator: field(&toleration.operator),
        value: field(&toleration.value),
        effect: field(&toleration.effect),
        toleration_s: toleration.toleration_seconds,
    };
    list.into_iter().flatten().map(toleration).collect()
}

fn selectors(list: Option<&Vec<api::DeviceSelector>>) -> Vec<Option<Arc<str>>> {
    let expression = |selector: &api::DeviceSelector| selector.cel.as_ref().map(|cel| text(&cel.expression));
    list.into_iter().flatten().map(expression).collect()
}

fn configuration(opaque: Option<&api::OpaqueDeviceConfiguration>) -> Configuration {
    let opaque = opaque.map(|opaque| OpaqueConfiguration {
        driver: text(&opaque.driver),
        parameters: opaque.parameters.0.to_string().into(),
    });
    Configuration { opaque }
}

fn terms(selector: Option<&core::NodeSelector>) -> Option<Vec<NodeTerm>> {
    selector.map(|selector| selector.node_selector_terms.iter().map(node_term).collect())
}

fn texts(list: Option<&Vec<String>>) -> Vec<Arc<str>> {
    list.into_iter().flatten().map(text).collect()
}

fn seconds(time: &Time) -> i64 {
    time.0.as_second()
}

/// An amount, which may be negative. An empty text is 0, as in Go.
fn amount(amount: &ApiQuantity, path: impl FnOnce() -> String) -> Result<Amount, IngestError> {
    match amount.0.as_str() {
        "" => Ok(Amount::default()),
        text => Amount::parse(text).map_err(|source| IngestError::Quantity { path: path(), source }),
    }
}

fn amounts(
    list: Option<&BTreeMap<String, ApiQuantity>>,
    path: impl Fn() -> String,
) -> Result<Vec<(Arc<str>, Amount)>, IngestError> {
    let read =
        |(name, value): (&String, &ApiQuantity)| Ok((text(name), amount(value, || format!("{}[{name}]", path()))?));
    list.into_iter().flatten().map(read).collect()
}

#[cfg(test)]
mod tests;
