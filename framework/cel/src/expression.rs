//! A selector: from text to verdict.

use std::{fmt, sync::Arc};

use crate::{
    check::check,
    device::Device,
    evaluate::evaluate,
    plan::{Node, plan},
    reach::Reach,
    regex::Patterns,
    source::{Errors, Source},
    syntax::parser::parse,
    types::Type,
    value::{Value, convert},
};

/// The cost at which upstream gives an evaluation up. Source: resource.k8s.io/v1 CELSelectorExpressionMaxCost.
pub const MAX_COST: u64 = 1_000_000;

/// Why an expression cannot be used: upstream's text, of which only the words on syntax errors differ.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(String);

/// Why an expression has no verdict on a device: upstream's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuntimeError(String);

/// A selector that compiled.
#[derive(Debug)]
pub struct Expression {
    text: Arc<str>,
    plan: Node,
    reach: Reach,
    nodes: usize,
}

/// What an evaluation gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// Whether the device matches.
    pub verdict: Result<bool, RuntimeError>,
    /// What it cost in upstream's units.
    pub cost: u64,
    /// The work that it took, in units of some 10 ns.
    pub work: u64,
    /// Whether there was not enough work left for it: the verdict says nothing about the device then.
    pub is_exhausted: bool,
}

impl Expression {
    /// Reads a selector and checks it by upstream's rules.
    ///
    /// # Errors
    /// Upstream would refuse it.
    pub fn compile(text: &str) -> Result<Self, CompileError> {
        let mut source = Source::new(text);
        let mut errors = Errors::default();
        let tree = parse(text, &mut source, &mut errors);
        let refused = |errors: &Errors, source: &Source| {
            Err(CompileError(format!("compilation failed: {}", errors.show(source))))
        };
        if !errors.is_empty() {
            return refused(&errors, &source);
        }
        let checked = check(&tree, &source, &mut errors);
        if !errors.is_empty() {
            return refused(&errors, &source);
        }
        if !matches!(checked.result, Type::Bool | Type::Dyn) {
            let told = format!("must evaluate to bool or the unknown type, not {}", Declared(&checked.result));
            return Err(CompileError(told));
        }
        let plan =
            plan(&tree, &checked).map_err(|told| CompileError(format!("program instantiation failed: {told}")))?;
        Ok(Self { text: text.into(), plan, reach: Reach::of(&tree), nodes: source.nodes() })
    }

    /// The text that was compiled.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many nodes it has, those that macros made included.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// What of a device the verdict can depend on.
    pub fn reaches(&self) -> &Reach {
        &self.reach
    }

    /// Whether a device matches. `budget` is the most that the evaluation may cost, [`MAX_COST`] upstream.
    ///
    /// # Errors
    /// There is no verdict; the allocation ends with the error.
    pub fn matches(&self, device: &Device, budget: u64) -> Result<bool, RuntimeError> {
        self.matches_at_cost(device, budget).0
    }

    /// As [`Expression::matches`], with what the evaluation cost in upstream's units.
    pub fn matches_at_cost(&self, device: &Device, budget: u64) -> (Result<bool, RuntimeError>, u64) {
        let Evaluation { verdict, cost, .. } = self.evaluate(device, &mut Patterns::default(), budget, u64::MAX);
        (verdict, cost)
    }

    /// Whether a device matches, at a cost and with work up to limits. Patterns are compiled once for all evaluations that use the
    /// same [`Patterns`].
    pub fn evaluate(&self, device: &Device, patterns: &mut Patterns, max_cost: u64, max_work: u64) -> Evaluation {
        if let Some(told) = &device.unreadable {
            return Evaluation { verdict: Err(RuntimeError(told.clone())), cost: 0, work: 0, is_exhausted: false };
        }
        let evaluated = evaluate(&self.plan, device.value(), patterns, max_cost, max_work);
        let verdict = match evaluated.outcome {
            Ok(Value::Bool(verdict)) => Ok(verdict),
            Ok(value) => convert::to_verdict(&value).map_err(|failure| {
                let prefix = format!("CEL result of type {} could not be converted to bool", value.type_name());
                RuntimeError(format!("{prefix}: {}", failure.text()))
            }),
            Err(failure) => Err(RuntimeError(failure.text().to_owned())),
        };
        let effort = evaluated.effort;
        Evaluation { verdict, cost: evaluated.cost, work: effort.done(), is_exhausted: effort.is_exhausted() }
    }
}

/// A type as upstream declares it, which is not how the check writes it.
struct Declared<'of>(&'of Type);

impl fmt::Display for Declared<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.name())?;
        let parameters: Vec<String> =
            self.0.parameters().into_iter().map(|parameter| Declared(parameter).to_string()).collect();
        if parameters.is_empty() { Ok(()) } else { write!(formatter, "({})", parameters.join(", ")) }
    }
}
