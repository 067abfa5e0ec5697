//! Syntax tree of an expression, before type checking.

pub(crate) mod lexer;
pub(crate) mod literals;
pub(crate) mod macros;
pub(crate) mod parser;

use crate::value::Value;

/// Id of a node. Nodes that macros create have separate ids.
pub(crate) type Id = u32;

#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) id: Id,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// A constant.
    Literal(Value),
    /// A variable, a type, or the first part of a qualified name.
    Ident(String),
    /// `operand.field`, or `has(operand.field)` with `test_only`.
    Select { operand: Box<Expr>, field: String, test_only: bool },
    /// A call of a function or an operator.
    Call { function: String, target: Option<Box<Expr>>, arguments: Vec<Expr> },
    /// `[a, ?b]`.
    List(Vec<Element>),
    /// `{a: b, ?c: d}`.
    Map(Vec<Entry>),
    /// `Name{field: value}`.
    Struct { name: String, fields: Vec<Field> },
    /// Expansion of the macros on lists and maps.
    Fold(Box<Fold>),
    /// A syntax error, already reported.
    Broken,
}

#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) id: Id,
    pub(crate) name: String,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A comprehension: `accumulator` starts as `initial`. For each element of `range`, while `condition` is true, it becomes `step`. The value
/// is `result`.
#[derive(Clone, Debug)]
pub(crate) struct Fold {
    pub(crate) range: Expr,
    pub(crate) variable: String,
    pub(crate) second: Option<String>,
    pub(crate) accumulator: String,
    pub(crate) initial: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

impl Expr {
    pub(crate) fn walk<'tree>(&'tree self, visit: &mut dyn FnMut(&'tree Self)) {
        visit(self);
        for child in self.children() {
            child.walk(visit);
        }
    }

    /// Direct children in source or evaluation order.
    pub(crate) fn children(&self) -> Vec<&Self> {
        match &self.kind {
            Kind::Literal(_) | Kind::Ident(_) | Kind::Broken => Vec::new(),
            Kind::Select { operand, .. } => vec![operand],
            Kind::Call { target, arguments, .. } => target.iter().map(Box::as_ref).chain(arguments).collect(),
            Kind::List(elements) => elements.iter().map(|element| &element.value).collect(),
            Kind::Map(entries) => entries.iter().flat_map(|entry| [&entry.key, &entry.value]).collect(),
            Kind::Struct { fields, .. } => fields.iter().map(|field| &field.value).collect(),
            Kind::Fold(fold) => vec![&fold.range, &fold.initial, &fold.condition, &fold.step, &fold.result],
        }
    }
}
