//! Type check. Upstream rejects ill-typed expressions before evaluation. The check also selects the overloads of each call.

mod unify;
mod validate;

use std::{collections::BTreeMap, sync::Arc};

use self::unify::{Unifier, most_general};
use crate::{
    declarations::overloads,
    source::{Errors, Source},
    syntax::{Element, Entry, Expr, Field, Fold, Id, Kind},
    types::Type,
};

pub(crate) const DEVICE: &str = "kubernetes.DRADevice";

/// Types that expressions can name.
const NAMED: [(&str, &str); 15] = [
    ("bool", "bool"),
    ("bytes", "bytes"),
    ("double", "double"),
    ("int", "int"),
    ("uint", "uint"),
    ("string", "string"),
    ("list", "list<dyn>"),
    ("map", "map<dyn, dyn>"),
    ("null_type", "null"),
    ("type", "type"),
    ("optional_type", "optional_type<$V>"),
    ("google.protobuf.Duration", "google.protobuf.Duration"),
    ("google.protobuf.Timestamp", "google.protobuf.Timestamp"),
    ("net.IP", "net.IP"),
    ("net.CIDR", "net.CIDR"),
];

#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) result: Type,
    pub(crate) references: BTreeMap<Id, Reference>,
}

#[derive(Clone, Debug)]
pub(crate) enum Reference {
    /// `is_global`: a variable of the environment, even if a local variable hides it.
    Variable { name: String, is_global: bool },
    /// A type.
    Type(Arc<str>),
    /// For a qualified name, `function` differs from the name in the call.
    Call { function: String, is_qualified: bool, overloads: Vec<&'static str> },
}

/// Type-checks a tree. The result is valid only if no errors were reported.
pub(crate) fn check(tree: &Expr, source: &Source, errors: &mut Errors) -> Checked {
    let mut checker = Checker {
        source,
        errors,
        unifier: Unifier::default(),
        types: BTreeMap::new(),
        references: BTreeMap::new(),
        scopes: Vec::new(),
    };
    checker.check(tree);
    let types: BTreeMap<Id, Type> =
        checker.types.iter().map(|(id, of)| (*id, checker.unifier.resolve(of, true))).collect();
    let references = checker.references;
    if errors.is_empty() {
        validate::validate(tree, &types, &references, source, errors);
    }
    Checked { result: types.get(&tree.id).cloned().unwrap_or(Type::Error), references }
}

struct Checker<'text> {
    source: &'text Source,
    errors: &'text mut Errors,
    unifier: Unifier,
    types: BTreeMap<Id, Type>,
    references: BTreeMap<Id, Reference>,
    /// Variables of the enclosing macros, innermost last.
    scopes: Vec<(String, Type)>,
}

impl Checker<'_> {
    fn report(&mut self, id: Id, told: String) {
        self.errors.at(self.source.offset(id), told);
    }

    fn set(&mut self, node: &Expr, of: Type) -> Type {
        self.types.insert(node.id, of.clone());
        of
    }

    fn resolved(&self, of: &Type) -> Type {
        self.unifier.resolve(of, false)
    }

    fn check(&mut self, node: &Expr) -> Type {
        let of = match &node.kind {
            Kind::Literal(value) => Type::parse(value.type_name()).map_or(Type::Error, |of| match of {
                Type::Struct(_) => Type::Null,
                other => other,
            }),
            Kind::Ident(name) => self.ident(node.id, name),
            Kind::Select { operand, field, test_only } => return self.select(node, operand, field, *test_only),
            Kind::Call { function, target, arguments } => self.call(node, function, target.as_deref(), arguments),
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Struct { name, fields } => self.message(node.id, name, fields),
            Kind::Fold(fold) => self.fold(fold),
            Kind::Broken => Type::Error,
        };
        self.set(node, of)
    }

    fn undeclared(&mut self, id: Id, name: &str) -> Type {
        self.report(id, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn local(&self, name: &str) -> Option<Type> {
        self.scopes.iter().rev().find(|(known, _)| known == name).map(|(_, of)| of.clone())
    }

    /// Type of a name of the environment. For the name of a type, also that name.
    fn global(name: &str) -> Option<(Type, Option<Arc<str>>)> {
        match name {
            "device" => Some((Type::Struct(DEVICE.into()), None)),
            DEVICE => Some((Type::Of(Some(Arc::new(Type::Struct(DEVICE.into())))), Some(DEVICE.into()))),
            _ => {
                let (name, of) = NAMED.iter().find(|(known, _)| *known == name)?;
                let of = Type::parse(of).unwrap_or(Type::Dyn);
                Some((Type::Of(Some(Arc::new(of))), Some((*name).into())))
            }
        }
    }

    fn ident(&mut self, id: Id, name: &str) -> Type {
        if let Some(of) = self.local(name) {
            self.references.insert(id, Reference::Variable { name: name.to_owned(), is_global: false });
            return of;
        }
        let plain = name.strip_prefix('.').unwrap_or(name);
        match Self::global(plain) {
            Some((of, named)) => {
                let is_global = self.local(plain).is_some();
                let reference =
                    named.map_or_else(|| Reference::Variable { name: plain.to_owned(), is_global }, Reference::Type);
                self.references.insert(id, reference);
                of
            }
            None => self.undeclared(id, name),
        }
    }

    fn select(&mut self, node: &Expr, operand: &Expr, field: &str, test_only: bool) -> Type {
        if !test_only && let Some(name) = qualified(node) {
            let head = name.split('.').next().unwrap_or_default().to_owned();
            let is_hidden = !name.starts_with('.') && self.local(&head).is_some();
            let plain = name.strip_prefix('.').unwrap_or(&name);
            if !is_hidden && let Some((of, Some(named))) = Self::global(plain) {
                self.references.insert(node.id, Reference::Type(named));
                return self.set(node, of);
            }
        }
        let of = self.field(node.id, operand, field, false);
        let of = if test_only { Type::Bool } else { self.resolved(&of) };
        self.set(node, of)
    }

    fn field(&mut self, id: Id, operand: &Expr, field: &str, optional: bool) -> Type {
        let of = self.check(operand);
        let of = self.resolved(&of);
        let (target, was_optional) = of.in_optional().map_or((&of, false), |inner| (inner, true));
        let result = match target {
            Type::Map(_, value) => (**value).clone(),
            Type::Struct(name) => self.field_of(id, name, field),
            Type::Var(_) => {
                self.unifier.fit(&Type::Dyn, target);
                Type::Dyn
            }
            other => {
                if !other.is_dyn_or_error() {
                    let told = format!("type '{other}' does not support field selection");
                    self.report(id, told);
                }
                Type::Dyn
            }
        };
        if was_optional || optional { Type::optional(result) } else { result }
    }

    fn field_of(&mut self, id: Id, message: &str, field: &str) -> Type {
        if message != DEVICE {
            self.report(id, format!("unexpected failed resolution of '{message}'"));
            return Type::Error;
        }
        let of = match field {
            "driver" => "string",
            "allowMultipleAllocations" => "bool",
            "attributes" => "map<string, map<string, dyn>>",
            "capacity" => "map<string, map<string, kubernetes.Quantity>>",
            _ => {
                self.report(id, format!("undefined field '{field}'"));
                return Type::Error;
            }
        };
        Type::parse(of).unwrap_or(Type::Error)
    }

    fn call(&mut self, node: &Expr, function: &str, target: Option<&Expr>, arguments: &[Expr]) -> Type {
        if function == "_?._" {
            return self.optional_field(node, arguments);
        }
        for argument in arguments {
            self.check(argument);
        }
        let plain = function.strip_prefix('.').unwrap_or(function);
        let Some(target) = target else {
            return match overloads(plain) {
                Some(_) => self.overload(node, plain, None, arguments, plain != function),
                None => self.undeclared(node.id, function),
            };
        };
        if let Some(prefix) = qualified(target) {
            let name = format!("{prefix}.{function}");
            let name = name.strip_prefix('.').unwrap_or(&name);
            if overloads(name).is_some() {
                return self.overload(node, name, None, arguments, true);
            }
        }
        self.check(target);
        match overloads(function) {
            Some(_) => self.overload(node, function, Some(target), arguments, false),
            None => self.undeclared(node.id, function),
        }
    }

    fn optional_field(&mut self, node: &Expr, arguments: &[Expr]) -> Type {
        let [operand, field] = arguments else { return Type::Error };
        let Kind::Literal(crate::value::Value::String(name)) = &field.kind else { return Type::Error };
        let of = self.field(node.id, operand, name, true);
        let of = self.resolved(&of);
        self.refer(node.id, "_?._", false, vec!["select_optional_field"]);
        of
    }

    fn refer(&mut self, id: Id, function: &str, is_qualified: bool, overloads: Vec<&'static str>) {
        self.references.insert(id, Reference::Call { function: function.to_owned(), is_qualified, overloads });
    }

    fn type_of(&self, node: &Expr) -> Type {
        self.types.get(&node.id).cloned().unwrap_or(Type::Error)
    }

    fn overload(
        &mut self,
        node: &Expr,
        function: &str,
        target: Option<&Expr>,
        arguments: &[Expr],
        is_qualified: bool,
    ) -> Type {
        let given: Vec<Type> = target.into_iter().chain(arguments).map(|argument| self.type_of(argument)).collect();
        let all = overloads(function).unwrap_or_default();
        if matches!(function, "_&&_" | "_||_") {
            let id = all.first().map(|overload| overload.id).unwrap_or_default();
            return self.logic(node.id, function, id, arguments, &given);
        }
        let (mut result, mut fitting): (Option<Type>, Vec<&'static str>) = (None, Vec::new());
        for overload in all.iter().filter(|overload| overload.is_member == target.is_some()) {
            let mut fresh: BTreeMap<Arc<str>, Type> = BTreeMap::new();
            let wanted: Vec<Type> =
                overload.arguments.iter().map(|argument| self.instantiate(argument, &mut fresh)).collect();
            let gives = self.instantiate(&overload.result, &mut fresh);
            if !self.unifier.fit_all(&given, &wanted) {
                continue;
            }
            fitting.push(overload.id);
            let gives = self.resolved(&gives);
            result = Some(match result {
                None => gives,
                Some(before) if before == Type::Dyn || before == gives => before,
                Some(_) => Type::Dyn,
            });
        }
        let Some(result) = result else {
            let shown: Vec<String> = given.iter().map(|of| self.unifier.resolve(of, true).to_string()).collect();
            let (receiver, shown) = match (target, &shown[..]) {
                (Some(_), [receiver, rest @ ..]) => (format!("{receiver}."), rest.join(", ")),
                _ => (String::new(), shown.join(", ")),
            };
            let told = format!("found no matching overload for '{function}' applied to '{receiver}({shown})'");
            self.report(node.id, told);
            return Type::Error;
        };
        self.refer(node.id, function, is_qualified, fitting);
        result
    }

    fn logic(&mut self, id: Id, function: &str, overload: &'static str, arguments: &[Expr], given: &[Type]) -> Type {
        let mut result = Type::Bool;
        for (argument, of) in arguments.iter().zip(given) {
            if !self.unifier.fit(of, &Type::Bool) {
                self.report(argument.id, format!("expected type 'bool' but found '{of}'"));
                result = Type::Error;
            }
        }
        if result == Type::Bool {
            self.refer(id, function, false, vec![overload]);
        }
        result
    }

    fn instantiate(&mut self, of: &Type, fresh: &mut BTreeMap<Arc<str>, Type>) -> Type {
        if let Type::Param(name) = of {
            return fresh.entry(Arc::clone(name)).or_insert_with(|| self.unifier.variable()).clone();
        }
        of.with(&mut |parameter| self.instantiate(parameter, fresh))
    }

    /// Type of an optional element or entry without the optional wrapper.
    fn inside(&mut self, node: &Expr, of: Type, optional: bool) -> Type {
        if !optional {
            return of;
        }
        if let Some(inner) = of.in_optional() {
            return inner.clone();
        }
        if of != Type::Dyn {
            let told = format!("expected type '{}' but found '{of}'", Type::optional(of.clone()));
            self.report(node.id, told);
        }
        of
    }

    /// Common type of both, or `dyn`. Validation checks the element types of literals later.
    fn join(&mut self, before: Option<Type>, of: Type) -> Type {
        let Some(before) = before else { return of };
        if self.unifier.fit(&before, &of) { most_general(&before, &of) } else { Type::Dyn }
    }

    fn list(&mut self, elements: &[Element]) -> Type {
        let mut joined = None;
        for element in elements {
            let of = self.check(&element.value);
            let of = self.inside(&element.value, of, element.optional);
            joined = Some(self.join(joined, of));
        }
        Type::list(joined.unwrap_or_else(|| self.unifier.variable()))
    }

    fn map(&mut self, entries: &[Entry]) -> Type {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            let key = self.check(&entry.key);
            keys = Some(self.join(keys, key));
            let value = self.check(&entry.value);
            let value = self.inside(&entry.value, value, entry.optional);
            values = Some(self.join(values, value));
        }
        let keys = keys.unwrap_or_else(|| self.unifier.variable());
        let values = values.unwrap_or_else(|| self.unifier.variable());
        Type::map(keys, values)
    }

    fn message(&mut self, id: Id, name: &str, fields: &[Field]) -> Type {
        let plain = name.strip_prefix('.').unwrap_or(name);
        if plain != DEVICE {
            return match Self::global(plain) {
                Some((Type::Of(Some(of)), _)) => {
                    self.report(id, format!("'{of}' is not a message type"));
                    Type::Error
                }
                _ => self.undeclared(id, name),
            };
        }
        for field in fields {
            let value = self.check(&field.value);
            let wanted = self.field_of(field.id, plain, &field.name);
            let value = self.inside(&field.value, value, field.optional);
            if !self.unifier.fit(&wanted, &value) {
                let told =
                    format!("expected type of field '{}' is '{wanted}' but provided type is '{value}'", field.name);
                self.report(field.id, told);
            }
        }
        Type::Struct(DEVICE.into())
    }

    fn fold(&mut self, fold: &Fold) -> Type {
        let range = self.check(&fold.range);
        let initial = self.check(&fold.initial);
        let range = self.resolved(&range);
        let (first, second) = match &range {
            Type::List(element) if fold.second.is_some() => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Error),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Var(_) => {
                self.unifier.fit(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let told = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(fold.range.id, told);
                (Type::Error, Type::Error)
            }
        };
        let outer = self.scopes.len();
        self.scopes.push((fold.accumulator.clone(), initial.clone()));
        self.scopes.push((fold.variable.clone(), first));
        if let Some(name) = &fold.second {
            self.scopes.push((name.clone(), second));
        }
        self.check(&fold.condition);
        self.assert_type(&fold.condition, &Type::Bool);
        self.check(&fold.step);
        self.assert_type(&fold.step, &initial);
        self.scopes.truncate(outer + 1);
        let result = self.check(&fold.result);
        self.scopes.truncate(outer);
        self.resolved(&result)
    }

    fn assert_type(&mut self, node: &Expr, wanted: &Type) {
        let of = self.type_of(node);
        if !self.unifier.fit(wanted, &of) {
            self.report(node.id, format!("expected type '{wanted}' but found '{of}'"));
        }
    }
}

fn qualified(node: &Expr) -> Option<String> {
    match &node.kind {
        Kind::Ident(name) => Some(name.clone()),
        Kind::Select { operand, field, test_only: false } => Some(format!("{}.{field}", qualified(operand)?)),
        _ => None,
    }
}
