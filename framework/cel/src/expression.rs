//! Selectors and derived attributes: compilation and evaluation.

use std::{fmt, sync::Arc};

use crate::{
    check::check,
    derived,
    device::{Attribute, Device},
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
pub struct Evaluation<T = bool> {
    /// Whether the device matches, or its derived attribute.
    pub verdict: Result<T, RuntimeError>,
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
        Self::compile_to(text, |result| {
            let told = || format!("must evaluate to bool or the unknown type, not {}", Declared(result));
            if matches!(result, Type::Bool | Type::Dyn) { Ok(()) } else { Err(told()) }
        })
    }

    /// Parses and checks the expression of a derived attribute by upstream's rules.
    ///
    /// # Errors
    /// Upstream would reject it.
    pub fn compile_derived(text: &str) -> Result<Self, CompileError> {
        Self::compile_to(text, |result| {
            let is_scalar = |of: &Type| {
                matches!(of, Type::Bool | Type::Int | Type::String | Type::Dyn) || of.name() == "kubernetes.Semver"
            };
            if is_scalar(result) || matches!(result, Type::List(element) if is_scalar(element)) {
                return Ok(());
            }
            Err(format!(
                "must evaluate to a primitive scalar (string, integer, boolean, semver) or a list of these scalars, not {}",
                Declared(result)
            ))
        })
    }

    fn compile_to(text: &str, accepts: impl Fn(&Type) -> Result<(), String>) -> Result<Self, CompileError> {
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
        accepts(&checked.result).map_err(CompileError)?;
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
        self.evaluate_to(device, patterns, (max_cost, max_work), |value| match value {
            Value::Bool(verdict) => Ok(*verdict),
            value => convert::to_verdict(value).map_err(|failure| {
                let prefix = format!("CEL result of type {} could not be converted to bool", value.type_name());
                format!("{prefix}: {}", failure.text())
            }),
        })
    }

    /// The derived attribute of a device, within limits of cost and work.
    pub fn derive(
        &self,
        device: &Device,
        patterns: &mut Patterns,
        max_cost: u64,
        max_work: u64,
    ) -> Evaluation<Attribute> {
        self.evaluate_to(device, patterns, (max_cost, max_work), derived::attribute)
    }

    fn evaluate_to<T>(
        &self,
        device: &Device,
        patterns: &mut Patterns,
        (max_cost, max_work): (u64, u64),
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Evaluation<T> {
        if let Some(told) = &device.unreadable {
            return Evaluation { verdict: Err(RuntimeError(told.clone())), cost: 0, work: 0, is_exhausted: false };
        }
        let evaluated = evaluate(&self.plan, device.value(), patterns, max_cost, max_work);
        let verdict = match evaluated.outcome {
            Ok(value) => read(&value).map_err(RuntimeError),
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
