//! CEL as the language of selectors.
//!
//! Knows: how a device is shown to an expression. Must not know: how expressions are evaluated ([`flotilla_cel`]), or when a
//! verdict is used again.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use flotilla_cel::{Expression, MAX_COST};

use super::{
    model::slice::{Attribute, Device},
    selectors::{Language, Reach, Selector},
};

/// CEL, in the environment and with the limits that Kubernetes has for selectors of devices.
#[derive(Debug)]
pub struct Cel;

#[derive(Debug)]
struct Compiled {
    expression: Expression,
    reach: Reach,
}

impl Language for Cel {
    fn compile(&self, expression: &str) -> Result<Box<dyn Selector>, String> {
        let expression = Expression::compile(expression).map_err(|error| error.to_string())?;
        let reaches = expression.reaches();
        let reach = match (reaches.attribute_ids(), reaches.capacity_ids()) {
            (Some(attributes), Some(capacities)) => Reach::Some { attributes, capacities },
            _ => Reach::All,
        };
        Ok(Box::new(Compiled { expression, reach }))
    }
}

impl Selector for Compiled {
    fn matches(&self, driver: &str, device: &Device) -> Result<bool, String> {
        let attributes = device.attributes.iter().map(|(name, value)| (&**name, shown(value)));
        let capacities = device.capacity.iter().map(|(name, capacity)| (&**name, &**capacity.value.text()));
        let shown = flotilla_cel::Device::new(driver, device.allow_multiple == Some(true), attributes, capacities);
        let shown = shown.map_err(|error| error.to_string())?;
        self.expression.matches(&shown, MAX_COST).map_err(|error| error.to_string())
    }

    fn reach(&self) -> &Reach {
        &self.reach
    }
}

fn shown(value: &Attribute) -> flotilla_cel::Attribute {
    use flotilla_cel::Attribute as Shown;
    match value {
        Attribute::Int(value) => Shown::Int(*value),
        Attribute::Bool(value) => Shown::Bool(*value),
        Attribute::Text(value) => Shown::String(Arc::clone(value)),
        Attribute::Version(value) => Shown::Version(Arc::clone(value)),
        Attribute::Ints(values) => Shown::Ints(values.clone()),
        Attribute::Bools(values) => Shown::Bools(values.clone()),
        Attribute::Texts(values) => Shown::Strings(values.clone()),
        Attribute::Versions(values) => Shown::Versions(values.clone()),
        Attribute::Unknown => Shown::Unknown,
    }
}
