//! CEL as the language of selectors.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use flotilla_cel::{Expression, MAX_COST, Patterns};

use super::{
    model::slice::{Attribute, Device},
    selectors::{Language, Reach, Selector, SelectorEvaluation},
};

/// CEL with Kubernetes' environment and limits for device selectors.
#[derive(Debug, Default)]
pub struct Cel {
    patterns: Arc<Mutex<Patterns>>,
}

#[derive(Debug)]
struct Compiled {
    expression: Expression,
    patterns: Arc<Mutex<Patterns>>,
    reach: Reach,
}

/// Work of converting an attribute or a capacity for an expression, in units of about 10 ns.
const SHOWN: u64 = 30;

impl Language for Cel {
    fn compile(&self, expression: &str) -> Result<Box<dyn Selector>, String> {
        let expression = Expression::compile(expression).map_err(|error| error.to_string())?;
        let reaches = expression.reaches();
        let reach = match (reaches.attribute_ids(), reaches.capacity_ids()) {
            (Some(attributes), Some(capacities)) => Reach::Some { attributes, capacities },
            _ => Reach::All,
        };
        Ok(Box::new(Compiled { expression, patterns: Arc::clone(&self.patterns), reach }))
    }
}

impl Selector for Compiled {
    fn matches(&self, driver: &str, device: &Device) -> Result<bool, String> {
        self.judge(driver, device, u64::MAX).verdict
    }

    fn judge(&self, driver: &str, device: &Device, max_work: u64) -> SelectorEvaluation {
        let attributes = device.attributes.iter().map(|(name, value)| (&**name, shown(value)));
        let capacities = device.capacity.iter().map(|(name, capacity)| (&**name, &**capacity.value.text()));
        let shown = flotilla_cel::Device::new(driver, device.allow_multiple == Some(true), attributes, capacities);
        // Work of converting a device, in addition to its attributes.
        let work = SHOWN * (2 + device.attributes.len() as u64 + device.capacity.len() as u64);
        let shown = match shown {
            Ok(shown) => shown,
            Err(error) => return SelectorEvaluation { verdict: Err(error.to_string()), work, is_exhausted: false },
        };
        // Patterns are added one by one, so a panic leaves the cache consistent.
        let mut patterns = self.patterns.lock().unwrap_or_else(PoisonError::into_inner);
        let evaluation = self.expression.evaluate(&shown, &mut patterns, MAX_COST, max_work);
        SelectorEvaluation {
            verdict: evaluation.verdict.map_err(|error| error.to_string()),
            work: work.saturating_add(evaluation.work),
            is_exhausted: evaluation.is_exhausted,
        }
    }

    fn nodes(&self) -> usize {
        self.expression.nodes()
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
