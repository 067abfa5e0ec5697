//! Evaluates a plan on a device, and counts cost as upstream does.

mod attribute;
mod fold;

use self::fold::Scope;
use std::sync::Arc;

use crate::{
    cost::Meter,
    effort::Effort,
    plan::{Attribute, Call, Implementation, Node, Root, Step, is_member},
    regex::Patterns,
    syntax::Id,
    value::{EvalResult, Failure, List, Map, Value, compare, show},
};

pub(crate) struct Evaluated {
    pub(crate) outcome: EvalResult,
    pub(crate) cost: u64,
    pub(crate) effort: Effort,
}

pub(crate) fn evaluate(plan: &Node, device: Value, patterns: &mut Patterns, limit: u64, work: u64) -> Evaluated {
    let mut evaluator = Evaluator { device, meter: Meter::new(limit), effort: Effort::new(work), patterns };
    let outcome = evaluator.node(plan, None);
    evaluator.patterns.end();
    Evaluated { outcome, cost: evaluator.meter.cost(), effort: evaluator.effort }
}

pub(super) struct Evaluator<'patterns> {
    device: Value,
    meter: Meter,
    effort: Effort,
    patterns: &'patterns mut Patterns,
}

fn is_search(call: &Call) -> bool {
    matches!(call.implementation, Implementation::Pattern) || matches!(&*call.function, "matches" | "find" | "findAll")
}

type Around<'scope> = Option<&'scope Scope<'scope>>;

fn is_fatal(outcome: &EvalResult) -> bool {
    matches!(outcome, Err(Failure::Fatal(_)))
}

impl Evaluator<'_> {
    fn node(&mut self, node: &Node, scope: Around<'_>) -> EvalResult {
        self.effort.node()?;
        let outcome = self.step(node, scope);
        if is_fatal(&outcome) {
            return outcome;
        }
        match &node.step {
            Step::Attribute(attribute) => return self.attribute_done(attribute, outcome),
            Step::Has(attribute) => {
                self.meter.drop(&[attribute.id()]);
            }
            Step::And(operands) | Step::Or(operands) => self.meter.drop(&[operands[0].id, operands[1].id]),
            Step::Fold(fold) => self.meter.drop(&[fold.range.id]),
            Step::Equal { operands, negated } => {
                let (function, overload) = if *negated { ("_!=_", "not_equals") } else { ("_==_", "equals") };
                self.meter.call(function, overload, &[operands[0].id, operands[1].id], &outcome)?;
            }
            Step::Call(call) => {
                let arguments: Vec<Id> = call.arguments.iter().map(|argument| argument.id).collect();
                self.meter.call(&call.function, call.overload, &arguments, &outcome)?;
            }
            Step::List { elements } => {
                let ids: Vec<Id> = elements.iter().map(|(element, _)| element.id).collect();
                self.meter.construct(&ids, crate::cost::LIST);
            }
            Step::Map { entries } => {
                let ids: Vec<Id> = entries.iter().flat_map(|(key, value, _)| [key.id, value.id]).collect();
                self.meter.construct(&ids, crate::cost::MAP);
            }
            Step::Message { fields, .. } => {
                let ids: Vec<Id> = fields.iter().map(|(field, _)| field.id).collect();
                self.meter.construct(&ids, crate::cost::MESSAGE);
            }
            Step::Constant(_) | Step::Member { .. } | Step::OptionalOr { .. } => {}
        }
        self.meter.push(node.id, &outcome)?;
        outcome
    }

    fn attribute_done(&mut self, attribute: &Attribute, outcome: EvalResult) -> EvalResult {
        if let Root::Choice { condition, yes, no } = &attribute.root {
            self.meter.drop(&[no.id(), yes.id(), condition.id]);
        } else {
            self.meter.drop(&[attribute.id()]);
            self.meter.add(1);
        }
        self.meter.push(attribute.id(), &outcome)?;
        outcome
    }

    fn step(&mut self, node: &Node, scope: Around<'_>) -> EvalResult {
        match &node.step {
            Step::Constant(value) => Ok(value.clone()),
            Step::Attribute(attribute) => self.resolve(attribute, scope),
            Step::Has(attribute) => match self.resolve(attribute, scope)? {
                Value::Optional(value) => Ok(Value::Bool(value.is_some())),
                value => Ok(value),
            },
            Step::And(operands) => self.logic(operands, false, scope),
            Step::Or(operands) => self.logic(operands, true, scope),
            Step::Equal { operands, negated } => {
                let (left, right) = self.both(operands, scope)?;
                self.effort.comparison(&left, &right)?;
                match (compare::equal(&left, &right), negated) {
                    (Ok(equal), negated) => Ok(Value::Bool(equal != *negated)),
                    (Err(Failure::Error(_)), true) => Ok(Value::Bool(true)),
                    (Err(failure), _) => Err(failure),
                }
            }
            Step::Call(call) => self.call(call, scope),
            Step::List { elements } => self.list(elements, scope),
            Step::Map { entries } => self.map(entries, scope),
            Step::Message { name, fields } => {
                for (field, _) in fields {
                    self.node(field, scope)?;
                }
                Err(Failure::new(format!("unknown type '{}'", name.trim_start_matches('.'))))
            }
            Step::Member { sought, among } => {
                let sought = self.node(sought, scope)?;
                self.effort.work(among.len() as u64)?;
                is_member(&sought, among)
            }
            Step::OptionalOr { operands, unwrap } => match self.node(&operands[0], scope)? {
                Value::Optional(Some(value)) if *unwrap => Ok((*value).clone()),
                some @ Value::Optional(Some(_)) => Ok(some),
                Value::Optional(None) => self.node(&operands[1], scope),
                _ => Err(Failure::no_such_overload()),
            },
            Step::Fold(fold) => self.fold(fold, scope),
        }
    }

    /// Evaluates both operands. If both fail, the error of the first is returned.
    fn both(&mut self, operands: &[Node; 2], scope: Around<'_>) -> Result<(Value, Value), Failure> {
        let left = self.node(&operands[0], scope);
        if is_fatal(&left) {
            return left.map(|value| (value.clone(), value));
        }
        let right = self.node(&operands[1], scope);
        if is_fatal(&right) {
            return right.map(|value| (value.clone(), value));
        }
        Ok((left?, right?))
    }

    /// `&&` and `||`: either operand may decide the value. Otherwise the first error is returned.
    fn logic(&mut self, operands: &[Node; 2], decides: bool, scope: Around<'_>) -> EvalResult {
        let mut error = None;
        for operand in operands {
            match self.node(operand, scope) {
                Ok(Value::Bool(value)) if value == decides => return Ok(Value::Bool(decides)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => error = error.or_else(|| Some(Failure::no_such_overload())),
                Err(failure @ Failure::Fatal(_)) => return Err(failure),
                Err(failure) => error = error.or(Some(failure)),
            }
        }
        error.map_or(Ok(Value::Bool(!decides)), Err)
    }

    fn call(&mut self, call: &Call, scope: Around<'_>) -> EvalResult {
        if call.function == "@not_strictly_false" {
            return match self.node(&call.arguments[0], scope) {
                Ok(value @ Value::Bool(_)) => Ok(value),
                Err(failure @ Failure::Fatal(_)) => Err(failure),
                _ => Ok(Value::Bool(true)),
            };
        }
        let evaluates_all = call.implementation.evaluates_all(call.arguments.len());
        let mut values = Vec::with_capacity(call.arguments.len());
        let mut error = None;
        for argument in &call.arguments {
            match self.node(argument, scope) {
                Ok(value) => values.push(value),
                Err(failure) if evaluates_all && matches!(failure, Failure::Error(_)) => {
                    error = error.or(Some(failure));
                }
                Err(failure) => return Err(failure),
            }
        }
        match error {
            Some(failure) => Err(failure),
            None => self.apply(call, &values),
        }
    }

    /// Calls a function if its bounds fit into the remaining limits.
    fn apply(&mut self, call: &Call, values: &[Value]) -> EvalResult {
        if let (true, [Value::String(text), Value::String(pattern), rest @ ..]) = (is_search(call), values)
            && matches!(rest, [] | [Value::Int(_)])
        {
            let outcome = self.search(call, (text, pattern), rest)?;
            self.effort.made(&call.function, values, &outcome)?;
            return outcome;
        }
        self.effort.call(&call.function, values)?;
        let outcome = call.implementation.apply(&call.function, values);
        self.effort.made(&call.function, values, &outcome)?;
        outcome
    }

    /// Searches for a pattern. The outer error ends the evaluation.
    fn search(&mut self, call: &Call, of: (&str, &Arc<str>), rest: &[Value]) -> Result<EvalResult, Failure> {
        let (text, pattern) = of;
        let found = match self.patterns.get(pattern, &mut self.effort)? {
            Ok(found) => found,
            Err(told) if call.function == "matches" => return Ok(Err(Failure::new(told))),
            Err(told) => return Ok(Err(Failure::new(format!("Illegal regex: {told}")))),
        };
        if call.function == "matches" {
            return Ok(Ok(Value::Bool(found.is_match(text, &mut self.effort)?)));
        }
        let most = match rest {
            _ if call.function == "find" => 1,
            [Value::Int(most)] => usize::try_from(*most).unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        let all = found.find_all(text, most, &mut self.effort)?;
        let mut all = all.into_iter().filter_map(|range| text.get(range)).map(Value::string);
        Ok(Ok(if call.function == "find" {
            all.next().unwrap_or_else(|| Value::string(""))
        } else {
            let all: Vec<Value> = all.collect();
            Value::List(List::new(all))
        }))
    }

    fn list(&mut self, elements: &[(Node, bool)], scope: Around<'_>) -> EvalResult {
        self.effort.collection(elements.len(), false)?;
        let mut values = Vec::with_capacity(elements.len());
        for (element, optional) in elements {
            let value = self.node(element, scope)?;
            match value {
                Value::Optional(inner) if *optional => values.extend(inner.map(|inner| (*inner).clone())),
                value if *optional => {
                    let shown = show::show(&value);
                    let told = format!("cannot initialize optional list element from non-optional value {shown}");
                    return Err(Failure::new(told));
                }
                value => values.push(value),
            }
        }
        Ok(Value::List(List::new(values)))
    }

    fn map(&mut self, entries: &[(Node, Node, bool)], scope: Around<'_>) -> EvalResult {
        self.effort.collection(entries.len(), true)?;
        let mut made: Vec<(Value, Value)> = Vec::with_capacity(entries.len());
        for (key, value, optional) in entries {
            let key = self.node(key, scope)?;
            let value = self.node(value, scope)?;
            match value {
                Value::Optional(Some(inner)) if *optional => made.push((key, (*inner).clone())),
                Value::Optional(None) if *optional => {
                    made.retain(|(known, _)| !compare::is_equal_to(known, &key).unwrap_or(false));
                }
                value if *optional => {
                    let (key, value) = (show::show(&key), show::show(&value));
                    let told = format!("cannot initialize optional entry '{key}' from non-optional value {value}");
                    return Err(Failure::new(told));
                }
                value => made.push((key, value)),
            }
        }
        Map::new(made).map(Value::Map)
    }
}
