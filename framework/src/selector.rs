//! Node selectors and affinity terms, compiled against a table of strings: `matchExpressions` and `matchFields`.

use std::sync::Arc;

use crate::{
    class::{NodeTerm, Requirement},
    node::NodeInfo,
    symbols::{Lookup, Symbol, Symbols},
};

mod over;
pub(crate) mod spelling;

pub(crate) use over::TermOver;

/// A compiled term; it matches a node if all its requirements do.
#[derive(Debug)]
pub(crate) struct Term {
    labels: Vec<(Symbol, Test)>,
    names: Vec<(bool, Symbol)>,
}

#[derive(Debug)]
enum Test {
    /// Sorted.
    In(Vec<Symbol>),
    /// Sorted.
    NotIn(Vec<Symbol>),
    Exists,
    DoesNotExist,
    Above(i64),
    Below(i64),
}

/// Compiles a term. `None`: it is empty, which matches nothing and is not an error. Source: component-helpers
/// `nodeaffinity.newNodeSelectorTerm`, `labels.NewRequirement`.
///
/// # Errors
/// The problem of its first invalid requirement. An API server accepts none of these in a new pod.
pub(crate) fn compile(term: &NodeTerm, symbols: &mut Lookup<'_>) -> Result<Option<Term>, String> {
    if term.expressions.is_empty() && term.fields.is_empty() {
        return Ok(None);
    }
    let labels = term
        .expressions
        .iter()
        .map(|requirement| Ok((symbols.number(&requirement.key), test(requirement, symbols)?)))
        .collect::<Result<_, String>>()?;
    let names = term.fields.iter().map(|requirement| name_test(requirement, symbols)).collect::<Result<_, String>>()?;
    Ok(Some(Term { labels, names }))
}

fn test(requirement: &Requirement, symbols: &mut Lookup<'_>) -> Result<Test, String> {
    let Requirement { key, operator, values } = requirement;
    if !spelling::is_label_key(key) {
        return Err(format!("label {key:?} is not a label key"));
    }
    if let Some(value) = values.iter().find(|value| !spelling::is_label_value(value)) {
        return Err(format!("label {key}: {value:?} is not a label value"));
    }
    let mut numbers = || {
        let mut numbers: Vec<Symbol> = values.iter().map(|value| symbols.number(value)).collect();
        numbers.sort_unstable();
        numbers
    };
    match &**operator {
        "In" | "NotIn" if values.is_empty() => {
            Err(format!("label {key}: operator {operator} needs at least one value"))
        }
        "In" => Ok(Test::In(numbers())),
        "NotIn" => Ok(Test::NotIn(numbers())),
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            Err(format!("label {key}: operator {operator} takes no values"))
        }
        "Exists" => Ok(Test::Exists),
        "DoesNotExist" => Ok(Test::DoesNotExist),
        "Gt" | "Lt" => {
            let [value] = values.as_slice() else {
                return Err(format!("label {key}: operator {operator} takes exactly one value"));
            };
            let bound: i64 = value
                .parse()
                .map_err(|_| format!("label {key}: operator {operator} needs an integer, not {value:?}"))?;
            Ok(if &**operator == "Gt" { Test::Above(bound) } else { Test::Below(bound) })
        }
        _ => Err(format!("label {key}: operator {operator:?} is unknown")),
    }
}

fn name_test(requirement: &Requirement, symbols: &mut Lookup<'_>) -> Result<(bool, Symbol), String> {
    let Requirement { key, operator, values } = requirement;
    let wanted = match &**operator {
        "In" => true,
        "NotIn" => false,
        _ => return Err(format!("field {key}: operator {operator:?} is unknown, only In and NotIn are")),
    };
    let [value] = values.as_slice() else {
        return Err(format!("field {key}: operator {operator} takes exactly one value"));
    };
    // metadata.name is the only field of a node; any other field is an empty text.
    if &**key == "metadata.name" {
        return Ok((wanted, symbols.number(value)));
    }
    let empty = value.is_empty();
    Ok((wanted != empty, Symbol::NONE))
}

impl Term {
    fn suits_name(&self, name: Symbol) -> bool {
        self.names
            .iter()
            .all(|&(wanted, other)| if other == Symbol::NONE { !wanted } else { (name == other) == wanted })
    }
}

impl Test {
    fn holds(&self, value: Symbol, symbols: &Symbols) -> bool {
        let present = value != Symbol::NONE;
        let number = || symbols.text(value).parse::<i64>().ok();
        match self {
            Self::In(values) => present && has(values, value),
            Self::NotIn(values) => !present || !has(values, value),
            Self::Exists => present,
            Self::DoesNotExist => !present,
            Self::Above(bound) => present && number().is_some_and(|number| number > *bound),
            Self::Below(bound) => present && number().is_some_and(|number| number < *bound),
        }
    }
}

/// Whether a sorted list has a value: comparing a few values one by one is faster than a search.
fn has(values: &[Symbol], value: Symbol) -> bool {
    if values.len() <= 16 { values.contains(&value) } else { values.binary_search(&value).is_ok() }
}

/// `spec.nodeSelector` compiled: every label must be equal.
pub(crate) fn compile_equal(labels: &[(Arc<str>, Arc<str>)], symbols: &mut Lookup<'_>) -> Vec<(Symbol, Symbol)> {
    labels.iter().map(|(key, value)| (symbols.number(key), symbols.number(value))).collect()
}

/// A single node without columns, for events.
pub(crate) struct LoneNode {
    symbols: Symbols,
    name: Symbol,
    labels: Vec<(Symbol, Symbol)>,
}

impl LoneNode {
    /// The node with its own table of strings.
    pub(crate) fn new(node: &NodeInfo) -> Self {
        let mut symbols = Symbols::default();
        let name = symbols.intern(&node.name);
        let labels = node.labels.iter().map(|(key, value)| (symbols.intern(key), symbols.intern(value))).collect();
        Self { symbols, name, labels }
    }

    /// Whether the node has all labels and matches any of the terms. Source: component-helpers `nodeaffinity.RequiredNodeAffinity.Match`.
    ///
    /// # Errors
    /// No term matches, and one of them is invalid.
    pub(crate) fn matches(
        &mut self,
        node_selector: &[(Arc<str>, Arc<str>)],
        required: Option<&[NodeTerm]>,
    ) -> Result<bool, String> {
        let mut lookup = Lookup::of(&self.symbols);
        let equal = compile_equal(node_selector, &mut lookup);
        if !equal.iter().all(|&(key, value)| self.label(key) == value) {
            return Ok(false);
        }
        let Some(terms) = required else { return Ok(true) };
        let mut unreadable = None;
        for term in terms {
            match compile(term, &mut lookup) {
                Ok(Some(term)) if self.suits(&term) => return Ok(true),
                Ok(_) => {}
                Err(error) => unreadable = unreadable.or(Some(error)),
            }
        }
        unreadable.map_or(Ok(false), Err)
    }

    fn suits(&self, term: &Term) -> bool {
        term.labels.iter().all(|(key, test)| test.holds(self.label(*key), &self.symbols)) && term.suits_name(self.name)
    }

    fn label(&self, key: Symbol) -> Symbol {
        self.labels.iter().find(|(known, _)| *known == key).map_or(Symbol::NONE, |&(_, value)| value)
    }
}
