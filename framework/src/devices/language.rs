//! CEL as the language of selectors.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use flotilla_cel::{Evaluation, Expression, MAX_COST, Patterns};

use super::{
    model::slice::{Attribute, Device},
    selectors::{Derivation, Language, Reach, Selector, SelectorEvaluation},
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
        Ok(Box::new(self.compiled(Expression::compile(expression).map_err(|error| error.to_string())?)))
    }

    fn compile_derived(&self, expression: &str) -> Result<Box<dyn Derivation>, String> {
        Ok(Box::new(self.compiled(Expression::compile_derived(expression).map_err(|error| error.to_string())?)))
    }
}

impl Cel {
    fn compiled(&self, expression: Expression) -> Compiled {
        let reaches = expression.reaches();
        let reach = match (reaches.attribute_ids(), reaches.capacity_ids()) {
            (Some(attributes), Some(capacities)) => Reach::Some { attributes, capacities },
            _ => Reach::All,
        };
        Compiled { expression, patterns: Arc::clone(&self.patterns), reach }
    }
}

impl Compiled {
    fn evaluate<T>(
        &self,
        driver: &str,
        device: &Device,
        evaluate: impl FnOnce(&Expression, &flotilla_cel::Device, &mut Patterns) -> Evaluation<T>,
    ) -> SelectorEvaluation<T> {
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
        let evaluation = evaluate(&self.expression, &shown, &mut patterns);
        SelectorEvaluation {
            verdict: evaluation.verdict.map_err(|error| error.to_string()),
            work: work.saturating_add(evaluation.work),
            is_exhausted: evaluation.is_exhausted,
        }
    }
}

impl Selector for Compiled {
    fn matches(&self, driver: &str, device: &Device) -> Result<bool, String> {
        self.judge(driver, device, u64::MAX).verdict
    }

    fn judge(&self, driver: &str, device: &Device, max_work: u64) -> SelectorEvaluation {
        self.evaluate(driver, device, |expression, device, patterns| {
            expression.evaluate(device, patterns, MAX_COST, max_work)
        })
    }

    fn nodes(&self) -> usize {
        self.expression.nodes()
    }

    fn reach(&self) -> &Reach {
        &self.reach
    }
}

impl Derivation for Compiled {
    fn derive(&self, driver: &str, device: &Device, max_work: u64) -> SelectorEvaluation<Attribute> {
        let derived = self.evaluate(driver, device, |expression, device, patterns| {
            expression.derive(device, patterns, MAX_COST, max_work)
        });
        SelectorEvaluation {
            verdict: derived.verdict.map(read),
            work: derived.work,
            is_exhausted: derived.is_exhausted,
        }
    }

    fn nodes(&self) -> usize {
        self.expression.nodes()
    }

    fn reach(&self) -> &Reach {
        &self.reach
    }
}

fn read(value: flotilla_cel::Attribute) -> Attribute {
    use flotilla_cel::Attribute as Shown;
    match value {
        Shown::Int(value) => Attribute::Int(value),
        Shown::Bool(value) => Attribute::Bool(value),
        Shown::String(value) => Attribute::Text(value),
        Shown::Version(value) => Attribute::Version(value),
        Shown::Ints(values) => Attribute::Ints(values),
        Shown::Bools(values) => Attribute::Bools(values),
        Shown::Strings(values) => Attribute::Texts(values),
        Shown::Versions(values) => Attribute::Versions(values),
        Shown::Unknown => Attribute::Unknown,
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
