//! Names with their fields and indices.

use super::{Around, Evaluator, is_fatal};
use crate::{
    plan::{Attribute, By, Qualifier, Root},
    value::{EvalResult, Failure, Value, number, show},
};

impl Evaluator<'_> {
    pub(super) fn resolve(&mut self, attribute: &Attribute, scope: Around<'_>) -> EvalResult {
        let value = match &attribute.root {
            Root::Choice { condition, yes, no } => {
                return match self.node(condition, scope)? {
                    Value::Bool(true) => self.resolve(yes, scope),
                    Value::Bool(false) => self.resolve(no, scope),
                    _ => Err(Failure::no_such_overload()),
                };
            }
            Root::Operand(node) => self.node(node, scope)?,
            Root::Variable { name, is_global } => self.variable(name, *is_global, scope)?,
        };
        // Upstream does not count lookups of variables that a local variable hides.
        let is_counted = !matches!(attribute.root, Root::Variable { is_global: true, .. });
        self.qualify_all(value, &attribute.qualifiers, is_counted, scope)
    }

    fn variable(&mut self, name: &str, is_global: bool, scope: Around<'_>) -> EvalResult {
        match scope {
            Some(scope) if !is_global => self.local(name, scope),
            _ if name == "device" => Ok(self.device.clone()),
            _ => Err(Failure::new(format!("no such attribute(s): {name}"))),
        }
    }

    fn qualify_all(
        &mut self,
        value: Value,
        qualifiers: &[Qualifier],
        is_counted: bool,
        scope: Around<'_>,
    ) -> EvalResult {
        let (mut value, mut optional) = match value {
            Value::Optional(None) => return Ok(Value::NONE),
            Value::Optional(Some(inner)) => ((*inner).clone(), true),
            value => (value, false),
        };
        for qualifier in qualifiers {
            self.effort.node()?;
            optional |= qualifier.optional;
            let found = self.qualify(&value, qualifier, optional, scope);
            value = match if is_counted { self.counted(qualifier, optional, found)? } else { found? } {
                Some(found) => found,
                None => return Ok(Value::NONE),
            };
        }
        Ok(if optional { Value::some(value) } else { value })
    }

    /// Resolves one field or index. For optional and presence-test qualifiers a missing value is no error.
    fn qualify(
        &mut self,
        value: &Value,
        qualifier: &Qualifier,
        optional: bool,
        scope: Around<'_>,
    ) -> Result<Option<Value>, Failure> {
        match &qualifier.by {
            By::Constant(key) if qualifier.test => {
                let found = find(value, key, true);
                if optional { found } else { found.map(|found| Some(Value::Bool(found.is_some()))) }
            }
            By::Constant(key) => find(value, key, optional),
            By::Attribute { attribute, .. } => match self.resolve(attribute, scope) {
                Err(failure) => Err(failure),
                Ok(key) if is_key(&key) => find(value, &key, optional),
                Ok(key) => Err(Failure::new(format!("invalid qualifier type: {}", show::go_type(&key)))),
            },
        }
    }

    /// Counts a qualifier, except if a value that may be missing is missing.
    fn counted(
        &mut self,
        qualifier: &Qualifier,
        optional: bool,
        found: Result<Option<Value>, Failure>,
    ) -> Result<Option<Value>, Failure> {
        let outcome: EvalResult = match &found {
            Ok(Some(found)) => Ok(found.clone()),
            Ok(None) => return Ok(None),
            Err(failure) => Err(failure.clone()),
        };
        if is_fatal(&outcome) || (optional && outcome.is_err()) {
            return found;
        }
        if let By::Attribute { attribute, is_operand: true } = &qualifier.by {
            self.meter.drop(&[attribute.id()]);
        }
        self.meter.add(1);
        self.meter.push(qualifier.id, &outcome)?;
        found
    }
}

fn is_key(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Int(_) | Value::Uint(_) | Value::Bool(_) | Value::Double(_))
}

/// Looks up a key. A missing key is an error unless `may_miss`.
fn find(value: &Value, key: &Value, may_miss: bool) -> Result<Option<Value>, Failure> {
    let missing = |told: String| if may_miss { Ok(None) } else { Err(Failure::new(told)) };
    match value {
        Value::Map(map) => match map.find(key)? {
            Some(found) => Ok(Some(found)),
            None => missing(format!("no such key: {}", show::show(key))),
        },
        Value::List(list) => {
            let index = index(key)?;
            match usize::try_from(index).ok().and_then(|index| list.get(index)) {
                Some(found) => Ok(Some(found)),
                None => missing(format!("index out of bounds: {}", show::show(key))),
            }
        }
        _ => missing(format!("no such key: {}", show::show(key))),
    }
}

fn index(key: &Value) -> Result<i64, Failure> {
    let whole = match key {
        Value::Int(index) => Some(*index),
        Value::Double(index) => number::double_to_int_lossless(*index),
        Value::Uint(index) => i64::try_from(*index).ok(),
        _ => return Err(Failure::new(format!("unsupported index type '{}' in list", key.type_name()))),
    };
    whole.ok_or_else(|| Failure::new(format!("unsupported index value {} in list", show::show(key))))
}
