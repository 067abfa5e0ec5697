//! Plans a checked tree: names become attributes with qualifiers, calls get implementations, and constants are folded as upstream does.

use std::sync::Arc;

use crate::{
    check::{Checked, DEVICE, Reference},
    declarations::{Overload, overloads},
    functions::{self, Operation, Singleton},
    regex::Pattern,
    syntax::{Expr, Id, Kind},
    value::{EvalResult, Failure, List, Map, Value, compare, map::unhashable, show},
};

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: Id,
    pub(crate) step: Step,
}

#[derive(Debug)]
pub(crate) enum Step {
    Constant(Value),
    Attribute(Attribute),
    /// `has`: whether the last qualifier finds a value.
    Has(Attribute),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Equal {
        operands: Box<[Node; 2]>,
        negated: bool,
    },
    Call(Call),
    List {
        elements: Vec<(Node, bool)>,
    },
    Map {
        entries: Vec<(Node, Node, bool)>,
    },
    Message {
        name: String,
        fields: Vec<(Node, bool)>,
    },
    /// `in` a list of constants.
    Member {
        sought: Box<Node>,
        among: Vec<Value>,
    },
    /// `or` and `orValue`.
    OptionalOr {
        operands: Box<[Node; 2]>,
        unwrap: bool,
    },
    Fold(Box<Fold>),
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: String,
    /// The overload, if only one fits.
    pub(crate) overload: &'static str,
    pub(crate) arguments: Vec<Node>,
    pub(crate) implementation: Implementation,
}

#[derive(Debug)]
pub(crate) enum Implementation {
    Singleton(&'static Singleton),
    /// The only overload that fits. The call compares its types again.
    Overload(&'static Overload, Operation),
    /// The first overload with types that fit the values.
    Dynamic(Vec<(&'static Overload, Operation)>),
    /// Search for a constant pattern; implemented in the evaluation.
    Pattern,
}

#[derive(Clone, Debug)]
pub(crate) struct Attribute {
    id: Id,
    pub(crate) root: Root,
    pub(crate) qualifiers: Vec<Qualifier>,
}

#[derive(Clone, Debug)]
pub(crate) enum Root {
    Variable { name: String, is_global: bool },
    Operand(Arc<Node>),
    Choice { condition: Arc<Node>, yes: Box<Attribute>, no: Box<Attribute> },
}

#[derive(Clone, Debug)]
pub(crate) struct Qualifier {
    pub(crate) id: Id,
    /// A missing value yields an optional without a value.
    pub(crate) optional: bool,
    pub(crate) test: bool,
    pub(crate) by: By,
}

#[derive(Clone, Debug)]
pub(crate) enum By {
    Constant(Value),
    /// The value of an attribute. Upstream counts calls differently.
    Attribute {
        attribute: Box<Attribute>,
        is_operand: bool,
    },
}

impl Attribute {
    /// Id of its value: that of the last qualifier.
    pub(crate) fn id(&self) -> Id {
        match &self.root {
            Root::Choice { yes, no, .. } => {
                if yes.id() == no.id() {
                    yes.id()
                } else {
                    self.id
                }
            }
            _ => self.qualifiers.last().map_or(self.id, |last| last.id),
        }
    }

    fn qualify(&mut self, qualifier: Qualifier) {
        match &mut self.root {
            Root::Choice { yes, no, .. } => {
                yes.qualify(qualifier.clone());
                no.qualify(qualifier);
            }
            _ => self.qualifiers.push(qualifier),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) range: Node,
    pub(crate) variable: String,
    pub(crate) second: Option<String>,
    pub(crate) accumulator: String,
    pub(crate) initial: Node,
    pub(crate) condition: Node,
    pub(crate) step: Node,
    pub(crate) result: Node,
}

/// Plans a tree. Errors are upstream's texts for constants that cannot be folded.
pub(crate) fn plan(tree: &Expr, checked: &Checked) -> Result<Node, String> {
    Planner { checked }.node(tree)
}

struct Planner<'tree> {
    checked: &'tree Checked,
}

impl Planner<'_> {
    fn node(&self, tree: &Expr) -> Result<Node, String> {
        let step = match &tree.kind {
            Kind::Literal(value) => Step::Constant(value.clone()),
            Kind::Ident(_) => self.named(tree)?,
            Kind::Select { operand, field, test_only } => return self.select(tree, operand, field, *test_only),
            Kind::Call { function, target, arguments } => {
                return self.call(tree, function, target.as_deref(), arguments);
            }
            Kind::List(elements) => {
                let plan = |element: &crate::syntax::Element| Ok((self.node(&element.value)?, element.optional));
                list(elements.iter().map(plan).collect::<Result<_, String>>()?)?
            }
            Kind::Map(entries) => {
                let plan = |entry: &crate::syntax::Entry| {
                    Ok((self.node(&entry.key)?, self.node(&entry.value)?, entry.optional))
                };
                map(entries.iter().map(plan).collect::<Result<_, String>>()?)?
            }
            Kind::Struct { name, fields } => {
                let plan = |field: &crate::syntax::Field| Ok((self.node(&field.value)?, field.optional));
                Step::Message { name: name.clone(), fields: fields.iter().map(plan).collect::<Result<_, String>>()? }
            }
            Kind::Fold(fold) => self.fold(fold)?,
            Kind::Broken => return Err("the expression was not read".to_owned()),
        };
        Ok(Node { id: tree.id, step })
    }

    fn named(&self, tree: &Expr) -> Result<Step, String> {
        match self.checked.references.get(&tree.id) {
            Some(Reference::Type(name)) if **name == *DEVICE => Err(format!("reference to undefined type: {name}")),
            Some(Reference::Type(name)) => Ok(Step::Constant(Value::Type(Arc::clone(name)))),
            Some(Reference::Variable { name, is_global }) => {
                let root = Root::Variable { name: name.clone(), is_global: *is_global };
                Ok(Step::Attribute(Attribute { id: tree.id, root, qualifiers: Vec::new() }))
            }
            _ => Err("a name without a meaning".to_owned()),
        }
    }

    fn select(&self, tree: &Expr, operand: &Expr, field: &str, test: bool) -> Result<Node, String> {
        if matches!(self.checked.references.get(&tree.id), Some(Reference::Type(_))) {
            return Ok(Node { id: tree.id, step: self.named(tree)? });
        }
        let mut attribute = attribute(self.node(operand)?);
        let by = By::Constant(Value::string(field));
        attribute.qualify(Qualifier { id: tree.id, optional: false, test, by });
        Ok(Node { id: tree.id, step: if test { Step::Has(attribute) } else { Step::Attribute(attribute) } })
    }

    fn call(&self, tree: &Expr, function: &str, target: Option<&Expr>, arguments: &[Expr]) -> Result<Node, String> {
        let Some(Reference::Call { function: named, is_qualified, overloads: fitting }) =
            self.checked.references.get(&tree.id)
        else {
            return Err(format!("a call of {function} without a meaning"));
        };
        let target = target.filter(|_| !is_qualified);
        let planned = target.into_iter().chain(arguments).map(|argument| self.node(argument));
        let mut planned = planned.collect::<Result<Vec<_>, String>>()?;
        let overload = if let [only] = fitting[..] { only } else { "" };
        let id = tree.id;
        let step = match (named.as_str(), planned.len()) {
            ("_&&_", 2) => Step::And(pair(planned)),
            ("_||_", 2) => Step::Or(pair(planned)),
            ("_==_" | "_!=_", 2) => Step::Equal { operands: pair(planned), negated: named == "_!=_" },
            ("_?_:_", 3) => Step::Attribute(choice(id, planned)),
            ("_[_]" | "_[?_]" | "_?._", 2) => {
                let index = planned.pop();
                let operand = planned.pop();
                let (Some(operand), Some(index)) = (operand, index) else { return Err("no operands".to_owned()) };
                Step::Attribute(indexed(id, operand, index, named != "_[_]")?)
            }
            ("or", 2) if matches!(overload, "" | "optional_or_optional") => {
                Step::OptionalOr { operands: pair(planned), unwrap: false }
            }
            ("orValue", 2) if matches!(overload, "" | "optional_orValue_value") => {
                Step::OptionalOr { operands: pair(planned), unwrap: true }
            }
            _ => return implement(id, named, overload, planned),
        };
        let id = match &step {
            Step::Attribute(attribute) => attribute.id(),
            _ => id,
        };
        Ok(Node { id, step })
    }

    fn fold(&self, fold: &crate::syntax::Fold) -> Result<Step, String> {
        Ok(Step::Fold(Box::new(Fold {
            initial: self.node(&fold.initial)?,
            range: self.node(&fold.range)?,
            variable: fold.variable.clone(),
            second: fold.second.clone(),
            accumulator: fold.accumulator.clone(),
            condition: self.node(&fold.condition)?,
            step: self.node(&fold.step)?,
            result: self.node(&fold.result)?,
        })))
    }
}

fn pair(nodes: Vec<Node>) -> Box<[Node; 2]> {
    let mut nodes = nodes.into_iter();
    let mut next = || nodes.next().unwrap_or(Node { id: 0, step: Step::Constant(Value::Null) });
    Box::new([next(), next()])
}

/// The node as an attribute, or an attribute that starts with its value.
fn attribute(node: Node) -> Attribute {
    match node.step {
        Step::Attribute(attribute) => attribute,
        _ => Attribute { id: node.id, root: Root::Operand(Arc::new(node)), qualifiers: Vec::new() },
    }
}

fn choice(id: Id, nodes: Vec<Node>) -> Attribute {
    let mut nodes = nodes.into_iter();
    let mut next = || nodes.next().unwrap_or(Node { id: 0, step: Step::Constant(Value::Null) });
    let branch = |node: Node| match node.step {
        // Upstream unwraps the attribute of `has`.
        Step::Has(attribute) => attribute,
        _ => attribute(node),
    };
    let condition = Arc::new(next());
    let (yes, no) = (Box::new(branch(next())), Box::new(branch(next())));
    Attribute { id, root: Root::Choice { condition, yes, no }, qualifiers: Vec::new() }
}

fn indexed(id: Id, operand: Node, index: Node, optional: bool) -> Result<Attribute, String> {
    let mut qualified = attribute(operand);
    let by = match index.step {
        Step::Constant(value) if is_plain(&value) => By::Constant(value),
        Step::Constant(value) => return Err(format!("invalid qualifier type: {}", show::go_type(&value))),
        Step::Attribute(attribute) | Step::Has(attribute) => {
            By::Attribute { attribute: Box::new(attribute), is_operand: false }
        }
        step => {
            let root = Root::Operand(Arc::new(Node { id: index.id, step }));
            By::Attribute { attribute: Box::new(Attribute { id, root, qualifiers: Vec::new() }), is_operand: true }
        }
    };
    qualified.qualify(Qualifier { id, optional, test: false, by });
    Ok(qualified)
}

/// Whether a constant can be a qualifier.
fn is_plain(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Int(_) | Value::Uint(_) | Value::Bool(_) | Value::Double(_))
}

fn constants<'nodes>(nodes: impl IntoIterator<Item = &'nodes Node>) -> Option<Vec<Value>> {
    let constant = |node: &Node| match &node.step {
        Step::Constant(value) => Some(value.clone()),
        _ => None,
    };
    nodes.into_iter().map(constant).collect()
}

fn instantiation(failure: Failure) -> String {
    failure.text().to_owned()
}

fn list(elements: Vec<(Node, bool)>) -> Result<Step, String> {
    match constants(elements.iter().map(|(node, _)| node)) {
        Some(values) if elements.iter().all(|(_, optional)| !optional) => {
            Ok(Step::Constant(Value::List(List::new(values))))
        }
        _ => Ok(Step::List { elements }),
    }
}

fn map(entries: Vec<(Node, Node, bool)>) -> Result<Step, String> {
    match constants(entries.iter().flat_map(|(key, value, _)| [key, value])) {
        Some(values) if entries.iter().all(|(_, _, optional)| !optional) => {
            let entries = values.chunks(2).map(|entry| (entry[0].clone(), entry[1].clone())).collect();
            Ok(Step::Constant(Value::Map(Map::new(entries).map_err(instantiation)?)))
        }
        _ => Ok(Step::Map { entries }),
    }
}

/// Selects the implementation of a call, and folds constants as upstream does.
fn implement(id: Id, function: &str, overload: &'static str, arguments: Vec<Node>) -> Result<Node, String> {
    if overload == "in_list"
        && let [_, Node { step: Step::Constant(Value::List(among)), .. }] = &arguments[..]
    {
        let among: Vec<Value> = among.values().to_vec();
        if among.is_empty() {
            return Ok(Node { id, step: Step::Constant(Value::Bool(false)) });
        }
        if among.iter().all(is_plain) {
            let sought = arguments.into_iter().next().ok_or("no operand")?;
            return Ok(Node { id, step: Step::Member { sought: Box::new(sought), among } });
        }
    }
    let implementation = implementation(function, overload, &arguments)?;
    if functions::is_conversion(function)
        && let [Node { step: Step::Constant(argument), .. }] = &arguments[..]
    {
        let value = implementation.apply(function, std::slice::from_ref(argument)).map_err(instantiation)?;
        return Ok(Node { id, step: Step::Constant(value) });
    }
    let call = Call { function: function.to_owned(), overload, arguments, implementation };
    Ok(Node { id, step: Step::Call(call) })
}

fn implementation(function: &str, overload: &'static str, arguments: &[Node]) -> Result<Implementation, String> {
    if matches!(function, "matches" | "find" | "findAll")
        && let Some(Node { step: Step::Constant(Value::String(pattern)), .. }) = arguments.get(1)
    {
        return Pattern::check(pattern).map(|()| Implementation::Pattern);
    }
    if let Some(singleton) = functions::singleton(function) {
        return Ok(Implementation::Singleton(singleton));
    }
    let all = overloads(function).unwrap_or_default().iter();
    let mut all: Vec<_> = all.filter_map(|overload| Some((overload, functions::operation(overload.id)?))).collect();
    match all.iter().position(|(known, _)| known.id == overload) {
        Some(at) => {
            let (overload, operation) = all.swap_remove(at);
            Ok(Implementation::Overload(overload, operation))
        }
        None if all.is_empty() => Err(format!("no such overload: {function}")),
        None if all.len() == 1 => {
            let (overload, operation) = all.swap_remove(0);
            Ok(Implementation::Overload(overload, operation))
        }
        None => Ok(Implementation::Dynamic(all)),
    }
}

impl Implementation {
    /// Whether upstream evaluates all arguments even if the first one fails. This affects only cost.
    pub(crate) fn evaluates_all(&self, arguments: usize) -> bool {
        match self {
            Self::Singleton(_) => arguments == 2,
            Self::Overload(overload, _) => arguments == 2 && !functions::is_variadic(overload.id),
            Self::Dynamic(_) | Self::Pattern => false,
        }
    }

    pub(crate) fn apply(&self, function: &str, arguments: &[Value]) -> EvalResult {
        match self {
            Self::Singleton(singleton) => match arguments.first() {
                Some(first) if (singleton.takes)(first) => (singleton.operation)(arguments),
                Some(Value::String(_) | Value::Duration(_) | Value::Timestamp(_)) => Err(Failure::no_such_overload()),
                _ => Err(Failure::new(format!("no such overload: {function}"))),
            },
            Self::Overload(overload, operation) => {
                if fits(overload, arguments) || functions::is_unguarded(function) {
                    operation(arguments)
                } else {
                    Err(no_such_overload(function, arguments))
                }
            }
            Self::Dynamic(all) => {
                let unguarded = functions::is_unguarded(function);
                let found = all.iter().find(|(overload, _)| {
                    overload.arguments.len() == arguments.len() && (unguarded || fits(overload, arguments))
                });
                match found {
                    Some((_, operation)) => operation(arguments),
                    None => Err(no_such_overload(function, arguments)),
                }
            }
            Self::Pattern => functions::text::not_searched(arguments),
        }
    }
}

fn fits(overload: &Overload, arguments: &[Value]) -> bool {
    overload.arguments.len() == arguments.len()
        && overload.arguments.iter().zip(arguments).all(|(wanted, given)| wanted.takes(given))
}

fn no_such_overload(function: &str, arguments: &[Value]) -> Failure {
    let types: Vec<&str> = arguments.iter().map(Value::type_name).collect();
    Failure::new(format!("no such overload: {function}({})", types.join(", ")))
}

/// Whether a value is among constants. Like upstream's table lookup, it compares numbers across types, and all other values only with the
/// same type.
pub(crate) fn is_member(sought: &Value, among: &[Value]) -> EvalResult {
    if let Some(go_type) = unhashable(sought) {
        return Err(Failure::unhashable(go_type));
    }
    for value in among {
        if compare::is_equal_to(sought, value)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
