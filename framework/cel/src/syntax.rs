//! The syntax tree: what an expression says, before anything is known of its types.

pub(crate) mod lexer;
pub(crate) mod literals;
pub(crate) mod macros;
pub(crate) mod parser;

use crate::value::Value;

/// Names a node of the tree. Macros make nodes with numbers of their own.
pub(crate) type Id = u32;

/// A node of the tree.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) id: Id,
    pub(crate) kind: Kind,
}

/// What a node is.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// A constant.
    Literal(Value),
    /// A variable, a type, or the head of a qualified name.
    Ident(String),
    /// `operand.field`, or `has(operand.field)` where only presence is tested.
    Select { operand: Box<Expr>, field: String, test_only: bool },
    /// A call of a function or an operator.
    Call { function: String, target: Option<Box<Expr>>, arguments: Vec<Expr> },
    /// `[a, ?b]`.
    List(Vec<Element>),
    /// `{a: b, ?c: d}`.
    Map(Vec<Entry>),
    /// `Name{field: value}`.
    Struct { name: String, fields: Vec<Field> },
    /// What the macros over lists and maps become.
    Fold(Box<Fold>),
    /// What could not be read; an error was reported.
    Broken,
}

/// An element of a list.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// An entry of a map.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A field of a message.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) id: Id,
    pub(crate) name: String,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A comprehension: `accumulator` begins as `initial`; for each element of `range`, as long as `condition` holds, it becomes
/// `step`; the value is `result`.
#[derive(Clone, Debug)]
pub(crate) struct Fold {
    pub(crate) range: Expr,
    pub(crate) variable: String,
    /// The second variable of comprehensions that have two.
    pub(crate) second: Option<String>,
    pub(crate) accumulator: String,
    pub(crate) initial: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

impl Expr {
    /// All nodes below this one and itself, parents first.
    pub(crate) fn walk<'tree>(&'tree self, visit: &mut dyn FnMut(&'tree Self)) {
        visit(self);
        for child in self.children() {
            child.walk(visit);
        }
    }

    /// The nodes directly below this one, in the order in which they are written or evaluated.
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
