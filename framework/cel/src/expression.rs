//! Selectors: compilation and evaluation.

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

/// Cost at which upstream cancels an evaluation. Source: resource.k8s.io/v1 CELSelectorExpressionMaxCost.
pub const MAX_COST: u64 = 1_000_000;

/// Why an expression is invalid: upstream's text, except for the wording of syntax errors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(String);

/// Why an evaluation failed: upstream's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuntimeError(String);

/// A compiled selector.
#[derive(Debug)]
pub struct Expression {
    text: Arc<str>,
    plan: Node,
    reach: Reach,
    nodes: usize,
}

/// Result of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// Whether the device matches.
    pub verdict: Result<bool, RuntimeError>,
    /// Cost in upstream's units.
    pub cost: u64,
    /// Work in units of about 10 ns.
    pub work: u64,
    /// Whether the work limit was reached. The verdict is then meaningless.
    pub is_exhausted: bool,
}

impl Expression {
    /// Parses and checks a selector by upstream's rules.
    ///
    /// # Errors
    /// Upstream would reject it.
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

    /// The source text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Number of nodes, including those that macros created.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The parts of a device that can change the verdict.
    pub fn reaches(&self) -> &Reach {
        &self.reach
    }

    /// Whether a device matches. `budget` limits the cost; upstream uses [`MAX_COST`].
    ///
    /// # Errors
    /// The evaluation failed. The allocation ends with the error.
    pub fn matches(&self, device: &Device, budget: u64) -> Result<bool, RuntimeError> {
        self.matches_at_cost(device, budget).0
    }

    /// Like [`Expression::matches`], and returns the cost in upstream's units.
    pub fn matches_at_cost(&self, device: &Device, budget: u64) -> (Result<bool, RuntimeError>, u64) {
        let Evaluation { verdict, cost, .. } = self.evaluate(device, &mut Patterns::default(), budget, u64::MAX);
        (verdict, cost)
    }

    /// Whether a device matches, within limits of cost and work. Evaluations that share `patterns` compile each pattern once.
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

/// A type in the notation of upstream's declarations, which differs from that of the type check.
struct Declared<'of>(&'of Type);

impl fmt::Display for Declared<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.name())?;
        let parameters: Vec<String> =
            self.0.parameters().into_iter().map(|parameter| Declared(parameter).to_string()).collect();
        if parameters.is_empty() { Ok(()) } else { write!(formatter, "({})", parameters.join(", ")) }
    }
}
