//! Comprehensions: the variables of their bodies, and their accumulators.

use std::{cell::RefCell, sync::Arc};

use super::{Around, Evaluator, is_fatal};
use crate::{
    plan::Fold,
    value::{EvalResult, Failure, List, Map, Value, show::go_type},
};

/// Variables of a comprehension and of the enclosing ones.
pub(super) struct Scope<'scope> {
    fold: &'scope Fold,
    outer: Around<'scope>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// `None` before its first use.
    accumulator: Option<EvalResult>,
    first: Option<Value>,
    second: Option<Value>,
    /// Whether a list or map accumulator grows in place.
    grows: bool,
}

impl Evaluator<'_> {
    pub(super) fn local(&mut self, name: &str, scope: &Scope<'_>) -> EvalResult {
        if name == scope.fold.accumulator {
            return self.accumulated(scope);
        }
        {
            let state = scope.state.borrow();
            if name == scope.fold.variable
                && let Some(value) = &state.first
            {
                return Ok(value.clone());
            }
            if scope.fold.second.as_deref() == Some(name)
                && let Some(value) = &state.second
            {
                return Ok(value.clone());
            }
        }
        match scope.outer {
            Some(outer) => self.local(name, outer),
            None if name == "device" => Ok(self.device.clone()),
            None => Err(Failure::new(format!("no such attribute(s): {name}"))),
        }
    }

    /// Value of the accumulator. Like upstream, it evaluates the initial value on first use.
    fn accumulated(&mut self, scope: &Scope<'_>) -> EvalResult {
        if let Some(outcome) = &scope.state.borrow().accumulator {
            return outcome.clone();
        }
        let initial = self.node(&scope.fold.initial, scope.outer);
        if is_fatal(&initial) {
            return initial;
        }
        let mut state = scope.state.borrow_mut();
        let initial = match initial {
            Ok(Value::List(list)) if list.len() == 0 => {
                state.grows = true;
                Ok(Value::List(List::growing()))
            }
            Ok(Value::Map(map)) if map.len() == 0 => {
                state.grows = true;
                Ok(Value::Map(Map::growing()))
            }
            other => other,
        };
        state.accumulator = Some(initial.clone());
        initial
    }

    pub(super) fn fold(&mut self, fold: &Fold, outer: Around<'_>) -> EvalResult {
        let range = self.node(&fold.range, outer)?;
        let scope = Scope { fold, outer, state: RefCell::default() };
        let two = fold.second.is_some();
        let rounds = match &range {
            Value::List(list) => {
                // A growing list is copied.
                self.effort.collection(if list.is_growing() { list.len() } else { 0 }, false)?;
                Rounds::List(list.values())
            }
            Value::Map(map) => {
                self.effort.collection(map.len(), true)?;
                Rounds::Map(map.entries())
            }
            other if two => {
                let told = format!("unsupported comprehension range type: {}", go_type(other));
                return Err(Failure::new(told));
            }
            other => return Err(Failure::new(format!("got '{}', expected iterable type", go_type(other)))),
        };
        for at in 0..rounds.len() {
            self.effort.node()?;
            let (first, second) = rounds.get(at, two);
            {
                let mut state = scope.state.borrow_mut();
                state.first = Some(first);
                state.second = second;
            }
            match self.node(&fold.condition, Some(&scope)) {
                Ok(Value::Bool(false)) => break,
                Err(failure @ Failure::Fatal(_)) => return Err(failure),
                _ => {}
            }
            let step = self.node(&fold.step, Some(&scope));
            if is_fatal(&step) {
                return step;
            }
            scope.state.borrow_mut().accumulator = Some(step);
        }
        {
            let mut state = scope.state.borrow_mut();
            state.first = None;
            state.second = None;
        }
        let result = self.node(&fold.result, Some(&scope))?;
        let grows = scope.state.borrow().grows;
        Ok(match result {
            Value::List(list) if grows && list.is_growing() => {
                self.effort.collection(list.len(), false)?;
                Value::List(list.fixed())
            }
            Value::Map(map) if grows && map.is_growing() => {
                self.effort.collection(map.len(), true)?;
                Value::Map(map.fixed())
            }
            other => other,
        })
    }
}

enum Rounds {
    List(Arc<[Value]>),
    Map(Vec<(Value, Value)>),
}

impl Rounds {
    fn len(&self) -> usize {
        match self {
            Self::List(values) => values.len(),
            Self::Map(entries) => entries.len(),
        }
    }

    fn get(&self, at: usize, two: bool) -> (Value, Option<Value>) {
        match self {
            Self::List(values) if two => (Value::Int(i64::try_from(at).unwrap_or(i64::MAX)), Some(values[at].clone())),
            Self::List(values) => (values[at].clone(), None),
            Self::Map(entries) => (entries[at].0.clone(), two.then(|| entries[at].1.clone())),
        }
    }
}
