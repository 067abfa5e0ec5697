//! Upstream's validation after the type check: invalid constants, literals of mixed types, format strings.

use std::collections::BTreeMap;

use super::Reference;
use crate::{
    functions::formatting::{self, Clause, Wrong},
    regex::Pattern,
    source::{Errors, Source},
    syntax::{Expr, Id, Kind},
    time::{Timestamp, parse_duration},
    types::Type,
    value::Value,
};

struct Validator<'text> {
    types: &'text BTreeMap<Id, Type>,
    references: &'text BTreeMap<Id, Reference>,
    source: &'text Source,
    errors: &'text mut Errors,
}

pub(super) fn validate(
    tree: &Expr,
    types: &BTreeMap<Id, Type>,
    references: &BTreeMap<Id, Reference>,
    source: &Source,
    errors: &mut Errors,
) {
    let mut validator = Validator { types, references, source, errors };
    for function in ["duration", "timestamp", "matches"] {
        tree.walk(&mut |node| validator.constant(node, function));
    }
    validator.homogeneous(tree, false);
    tree.walk(&mut |node| validator.format(node));
}

impl Validator<'_> {
    fn report(&mut self, id: Id, told: String) {
        self.errors.at(self.source.offset(id), told);
    }

    fn type_of(&self, node: &Expr) -> Type {
        self.types.get(&node.id).cloned().unwrap_or(Type::Error)
    }

    fn constant(&mut self, node: &Expr, wanted: &str) {
        let Kind::Call { function, arguments, .. } = &node.kind else { return };
        let Some(Expr { id, kind: Kind::Literal(value) }) = arguments.first() else { return };
        if function != wanted {
            return;
        }
        let is_good = match (wanted, value) {
            ("duration", Value::String(text)) => parse_duration(text).is_some(),
            ("timestamp", Value::String(text)) => matches!(Timestamp::parse(text), Some(Ok(_))),
            ("timestamp", Value::Int(second)) => Timestamp::from_seconds(*second).is_ok(),
            ("matches", Value::String(text)) => Pattern::check(text).is_ok(),
            _ => true,
        };
        if !is_good {
            self.report(*id, format!("invalid {wanted} argument"));
        }
    }

    /// Elements of a literal must have one type, except in arguments of `format`.
    fn homogeneous(&mut self, node: &Expr, exempt: bool) {
        let exempt = exempt || matches!(&node.kind, Kind::Call { function, .. } if function == "format");
        if !exempt {
            match &node.kind {
                Kind::List(elements) => {
                    let all: Vec<_> = elements.iter().map(|element| (&element.value, element.optional)).collect();
                    self.same(&all, true);
                }
                Kind::Map(entries) => {
                    let keys: Vec<_> = entries.iter().map(|entry| (&entry.key, false)).collect();
                    let values: Vec<_> = entries.iter().map(|entry| (&entry.value, entry.optional)).collect();
                    self.same(&keys, false);
                    self.same(&values, false);
                }
                _ => {}
            }
        }
        for child in node.children() {
            self.homogeneous(child, exempt);
        }
    }

    fn same(&mut self, nodes: &[(&Expr, bool)], only_first: bool) {
        let mut wanted: Option<Type> = None;
        for (node, optional) in nodes {
            let mut of = self.type_of(node);
            if *optional {
                let Some(inner) = of.in_optional() else {
                    // Upstream panics here.
                    self.report(node.id, format!("expected an optional type but found '{of}'"));
                    return;
                };
                of = inner.clone();
            }
            match &wanted {
                None => wanted = Some(of),
                Some(first) if *first != of => {
                    let told = format!("expected type '{first}' but found '{of}'");
                    self.report(node.id, told);
                    if only_first {
                        return;
                    }
                }
                Some(_) => {}
            }
        }
    }

    fn format(&mut self, node: &Expr) {
        let Kind::Call { target: Some(target), arguments, .. } = &node.kind else { return };
        let is_format = matches!(self.references.get(&node.id), Some(Reference::Call { overloads, .. })
            if overloads.contains(&"string_format"));
        let (true, Kind::Literal(Value::String(text)), [Expr { kind: Kind::List(elements), .. }]) =
            (is_format, &target.kind, &arguments[..])
        else {
            return;
        };
        let mut asked = 0;
        let mut at_fault = node.id;
        let outcome = formatting::interpolate(text, elements.len(), false, &mut |clause, index| {
            asked += 1;
            let element = &elements[index].value;
            match self.unfit(element, clause) {
                Some((id, of)) => {
                    at_fault = id;
                    Err(Wrong::Formatting(clause.refuses(of.name())))
                }
                None => Ok(String::new()),
            }
        });
        match outcome {
            Err(told) => self.report(at_fault, told),
            Ok(_) if elements.len() > asked => {
                let told =
                    format!("too many arguments supplied to string.format (expected {asked}, got {})", elements.len());
                self.report(node.id, told);
            }
            Ok(_) => {}
        }
    }

    fn unfit(&self, node: &Expr, clause: Clause) -> Option<(Id, Type)> {
        let of = self.type_of(node);
        let fits = match clause {
            _ if of == Type::Dyn => true,
            Clause::Text => !matches!(of, Type::Opaque(..) | Type::Struct(_) | Type::Error),
            Clause::Decimal | Clause::Octal => matches!(of, Type::Int | Type::Uint),
            Clause::Fixed(_) | Clause::Scientific(_) => matches!(of, Type::Double | Type::String),
            Clause::Binary => matches!(of, Type::Int | Type::Uint | Type::Bool),
            Clause::Hex { .. } => matches!(of, Type::Int | Type::Uint | Type::String | Type::Bytes),
        };
        if !fits {
            return Some((node.id, of));
        }
        match (&node.kind, clause) {
            (Kind::List(elements), Clause::Text) => {
                elements.iter().find_map(|element| self.unfit(&element.value, clause))
            }
            (Kind::Map(entries), Clause::Text) => entries
                .iter()
                .find_map(|entry| self.unfit(&entry.key, clause).or_else(|| self.unfit(&entry.value, clause))),
            _ => None,
        }
    }
}
