//! Macros: calls that are expanded before the type check.

use super::{Element, Entry, Expr, Field, Fold, Id, Kind, parser::Parser};
use crate::value::Value;

/// Accumulator variable of macros. Expressions cannot name it.
pub(crate) const ACCUMULATOR: &str = "@result";
/// Accumulator name of earlier versions; still reserved.
const FORMER_ACCUMULATOR: &str = "__result__";
/// Maximum nodes of an expression before a macro duplicates an operand. Each chained `optMap` doubles the expression before it. The API's
/// limit of 10 KiB of text allows at most 10,240 nodes without macros.
const MAX_REPEATED: usize = 1 << 15;
const UNUSED: &str = "#unused";
const SORTED: &str = "@__sortBy_input__";

pub(super) struct Refused {
    pub(super) node: Id,
    pub(super) told: String,
}

/// Expands a call if it is a macro. Returns an error for invalid arguments.
pub(super) fn expand(
    parser: &mut Parser<'_>,
    id: Id,
    function: &str,
    target: Option<&Expr>,
    arguments: &[Expr],
) -> Result<Option<Expr>, Refused> {
    let offset = parser.source.offset(id);
    let mut make = Maker { parser, offset };
    let Some(target) = target else {
        return if function == "has" && arguments.len() == 1 { make.has(&arguments[0]).map(Some) } else { Ok(None) };
    };
    match (function, arguments) {
        ("all", [variable, test]) => make.quantifier(Quantifier::All, target, &[variable], test),
        ("exists", [variable, test]) => make.quantifier(Quantifier::Exists, target, &[variable], test),
        ("exists_one", [variable, test]) => make.quantifier(Quantifier::ExistsOne, target, &[variable], test),
        ("all", [key, value, test]) => make.quantifier(Quantifier::All, target, &[key, value], test),
        ("exists", [key, value, test]) => make.quantifier(Quantifier::Exists, target, &[key, value], test),
        ("exists_one" | "existsOne", [key, value, test]) => {
            make.quantifier(Quantifier::ExistsOne, target, &[key, value], test)
        }
        ("map", [variable, made]) => make.collect(target, &[variable], None, made),
        ("map", [variable, filter, made]) => make.collect(target, &[variable], Some(filter), made),
        ("filter", [variable, filter]) => make.collect(target, &[variable], Some(filter), variable),
        ("transformList", [key, value, made]) => make.collect(target, &[key, value], None, made),
        ("transformList", [key, value, filter, made]) => make.collect(target, &[key, value], Some(filter), made),
        ("transformMap" | "transformMapEntry", [key, value, made]) => {
            make.insert(function == "transformMap", target, [key, value], None, made)
        }
        ("transformMap" | "transformMapEntry", [key, value, filter, made]) => {
            make.insert(function == "transformMap", target, [key, value], Some(filter), made)
        }
        ("sortBy", [variable, key]) => make.sort_by(target, variable, key),
        ("optMap" | "optFlatMap", [variable, made]) => make.opt_map(function, target, variable, made),
        ("bind", [variable, value, result]) if matches!(&target.kind, Kind::Ident(name) if name == "cel") => {
            make.bind(variable, value, result)
        }
        _ => return Ok(None),
    }
    .map(Some)
}

#[derive(Clone, Copy)]
enum Quantifier {
    All,
    Exists,
    ExistsOne,
}

struct Maker<'parser, 'text> {
    parser: &'parser mut Parser<'text>,
    /// Offset of the macro call; all created nodes get it.
    offset: usize,
}

impl Maker<'_, '_> {
    fn node(&mut self, kind: Kind) -> Expr {
        self.parser.node(self.offset, kind)
    }

    fn literal(&mut self, value: Value) -> Expr {
        self.node(Kind::Literal(value))
    }

    fn ident(&mut self, name: &str) -> Expr {
        self.node(Kind::Ident(name.to_owned()))
    }

    fn accumulator(&mut self) -> Expr {
        self.ident(ACCUMULATOR)
    }

    fn call(&mut self, function: &str, arguments: Vec<Expr>) -> Expr {
        self.node(Kind::Call { function: function.to_owned(), target: None, arguments })
    }

    fn member_call(&mut self, function: &str, target: Expr, arguments: Vec<Expr>) -> Expr {
        self.node(Kind::Call { function: function.to_owned(), target: Some(Box::new(target)), arguments })
    }

    fn list(&mut self, elements: Vec<Expr>) -> Expr {
        let elements = elements.into_iter().map(|value| Element { value, optional: false }).collect();
        self.node(Kind::List(elements))
    }

    fn fold(&mut self, fold: Fold) -> Expr {
        self.node(Kind::Fold(Box::new(fold)))
    }

    fn has(&mut self, argument: &Expr) -> Result<Expr, Refused> {
        match &argument.kind {
            Kind::Select { operand, field, .. } => {
                let kind = Kind::Select { operand: operand.clone(), field: field.clone(), test_only: true };
                Ok(self.node(kind))
            }
            _ => Err(Refused { node: argument.id, told: "invalid argument to has() macro".to_owned() }),
        }
    }

    fn quantifier(
        &mut self,
        quantifier: Quantifier,
        range: &Expr,
        variables: &[&Expr],
        test: &Expr,
    ) -> Result<Expr, Refused> {
        let (variable, second) = variables_of(variables, "argument must be a simple name")?;
        let test = test.clone();
        let (initial, condition, step, result);
        match quantifier {
            Quantifier::All => {
                initial = self.literal(Value::Bool(true));
                let accumulated = self.accumulator();
                condition = self.call("@not_strictly_false", vec![accumulated]);
                let accumulated = self.accumulator();
                step = self.call("_&&_", vec![accumulated, test]);
                result = self.accumulator();
            }
            Quantifier::Exists => {
                initial = self.literal(Value::Bool(false));
                let accumulated = self.accumulator();
                let negated = self.call("!_", vec![accumulated]);
                condition = self.call("@not_strictly_false", vec![negated]);
                let accumulated = self.accumulator();
                step = self.call("_||_", vec![accumulated, test]);
                result = self.accumulator();
            }
            Quantifier::ExistsOne => {
                initial = self.literal(Value::Int(0));
                condition = self.literal(Value::Bool(true));
                let (accumulated, one) = (self.accumulator(), self.literal(Value::Int(1)));
                let more = self.call("_+_", vec![accumulated, one]);
                let same = self.accumulator();
                step = self.call("_?_:_", vec![test, more, same]);
                let (accumulated, one) = (self.accumulator(), self.literal(Value::Int(1)));
                result = self.call("_==_", vec![accumulated, one]);
            }
        }
        let accumulator = ACCUMULATOR.to_owned();
        Ok(self.fold(Fold { range: range.clone(), variable, second, accumulator, initial, condition, step, result }))
    }

    /// `map`, `filter` and `transformList`: a list with one result per element.
    fn collect(
        &mut self,
        range: &Expr,
        variables: &[&Expr],
        filter: Option<&Expr>,
        made: &Expr,
    ) -> Result<Expr, Refused> {
        let initial = self.list(Vec::new());
        let accumulated = self.accumulator();
        let one = self.list(vec![made.clone()]);
        let step = self.call("_+_", vec![accumulated, one]);
        self.gather(range, variables, filter, initial, step)
    }

    fn insert(
        &mut self,
        by_key: bool,
        range: &Expr,
        variables: [&Expr; 2],
        filter: Option<&Expr>,
        made: &Expr,
    ) -> Result<Expr, Refused> {
        let (key, _) = variables_of(&variables, "argument is not an identifier")?;
        let initial = self.node(Kind::Map(Vec::new()));
        let mut arguments = vec![self.accumulator()];
        if by_key {
            arguments.push(self.ident(&key));
        }
        arguments.push(made.clone());
        let step = self.call("cel.@mapInsert", arguments);
        self.gather(range, &variables, filter, initial, step)
    }

    fn gather(
        &mut self,
        range: &Expr,
        variables: &[&Expr],
        filter: Option<&Expr>,
        initial: Expr,
        step: Expr,
    ) -> Result<Expr, Refused> {
        let (variable, second) = variables_of(variables, "argument is not an identifier")?;
        let condition = self.literal(Value::Bool(true));
        let step = match filter {
            Some(filter) => {
                let same = self.accumulator();
                self.call("_?_:_", vec![filter.clone(), step, same])
            }
            None => step,
        };
        let result = self.accumulator();
        let accumulator = ACCUMULATOR.to_owned();
        Ok(self.fold(Fold { range: range.clone(), variable, second, accumulator, initial, condition, step, result }))
    }

    /// A comprehension over an empty list, with the variable as accumulator.
    fn let_in(&mut self, variable: &str, value: Expr, result: Expr) -> Expr {
        let range = self.list(Vec::new());
        let condition = self.literal(Value::Bool(false));
        let step = self.ident(variable);
        self.fold(Fold {
            range,
            variable: UNUSED.to_owned(),
            second: None,
            accumulator: variable.to_owned(),
            initial: value,
            condition,
            step,
            result,
        })
    }

    fn bind(&mut self, variable: &Expr, value: &Expr, result: &Expr) -> Result<Expr, Refused> {
        let name = simple(variable, "cel.bind() variable names must be simple identifiers")?;
        Ok(self.let_in(&name, value.clone(), result.clone()))
    }

    fn opt_map(&mut self, function: &str, target: &Expr, variable: &Expr, made: &Expr) -> Result<Expr, Refused> {
        let name = simple(variable, &format!("{function}() variable name must be a simple identifier"))?;
        if self.parser.source.nodes() > MAX_REPEATED {
            let told = format!("{function}() makes the expression larger than {MAX_REPEATED} nodes");
            return Err(Refused { node: target.id, told });
        }
        let has = self.member_call("hasValue", target.clone(), Vec::new());
        let again = self.copy(target);
        let value = self.member_call("value", again, Vec::new());
        let mut made = self.let_in(&name, value, made.clone());
        if function == "optMap" {
            made = self.call("optional.of", vec![made]);
        }
        let none = self.call("optional.none", Vec::new());
        Ok(self.call("_?_:_", vec![has, made, none]))
    }

    fn sort_by(&mut self, target: &Expr, variable: &Expr, key: &Expr) -> Result<Expr, Refused> {
        let sortable = matches!(
            target.kind,
            Kind::List(_) | Kind::Select { .. } | Kind::Ident(_) | Kind::Fold(_) | Kind::Call { .. }
        );
        if !sortable {
            let told = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return Err(Refused { node: target.id, told: told.to_owned() });
        }
        let range = self.ident(SORTED);
        let keys = self.collect(&range, &[variable], None, key)?;
        let list = self.ident(SORTED);
        let sorted = self.member_call("@sortByAssociatedKeys", list, vec![keys]);
        Ok(self.let_in(SORTED, target.clone(), sorted))
    }

    fn copy(&mut self, tree: &Expr) -> Expr {
        let kind = match &tree.kind {
            Kind::Select { operand, field, test_only } => {
                Kind::Select { operand: Box::new(self.copy(operand)), field: field.clone(), test_only: *test_only }
            }
            Kind::Call { function, target, arguments } => Kind::Call {
                function: function.clone(),
                target: target.as_ref().map(|target| Box::new(self.copy(target))),
                arguments: arguments.iter().map(|argument| self.copy(argument)).collect(),
            },
            Kind::List(elements) => {
                let copy = |element: &Element| Element { value: self.copy(&element.value), optional: element.optional };
                Kind::List(elements.iter().map(copy).collect())
            }
            Kind::Map(entries) => Kind::Map(entries.iter().map(|entry| self.copy_entry(entry)).collect()),
            Kind::Struct { name, fields } => {
                Kind::Struct { name: name.clone(), fields: fields.iter().map(|field| self.copy_field(field)).collect() }
            }
            Kind::Fold(fold) => Kind::Fold(Box::new(self.copy_fold(fold))),
            Kind::Literal(_) | Kind::Ident(_) | Kind::Broken => tree.kind.clone(),
        };
        let offset = self.parser.source.offset(tree.id);
        self.parser.node(offset, kind)
    }

    fn copy_entry(&mut self, entry: &Entry) -> Entry {
        Entry { key: self.copy(&entry.key), value: self.copy(&entry.value), optional: entry.optional }
    }

    fn copy_field(&mut self, field: &Field) -> Field {
        let id = self.parser.source.node(self.offset);
        Field { id, name: field.name.clone(), value: self.copy(&field.value), optional: field.optional }
    }

    fn copy_fold(&mut self, fold: &Fold) -> Fold {
        Fold {
            range: self.copy(&fold.range),
            variable: fold.variable.clone(),
            second: fold.second.clone(),
            accumulator: fold.accumulator.clone(),
            initial: self.copy(&fold.initial),
            condition: self.copy(&fold.condition),
            step: self.copy(&fold.step),
            result: self.copy(&fold.result),
        }
    }
}

fn variables_of(variables: &[&Expr], no_name: &str) -> Result<(String, Option<String>), Refused> {
    let two = variables.len() == 2;
    let mut names = Vec::new();
    for variable in variables {
        names.push(simple(variable, if two { "argument must be a simple name" } else { no_name })?);
    }
    if two && names[0] == names[1] {
        return Err(Refused { node: variables[1].id, told: format!("duplicate variable name: {}", names[0]) });
    }
    for (variable, name) in variables.iter().zip(&names) {
        if name == ACCUMULATOR || name == FORMER_ACCUMULATOR {
            let told = "iteration variable overwrites accumulator variable".to_owned();
            return Err(Refused { node: variable.id, told });
        }
    }
    let mut names = names.into_iter();
    Ok((names.next().unwrap_or_default(), names.next()))
}

fn simple(variable: &Expr, otherwise: &str) -> Result<String, Refused> {
    match &variable.kind {
        Kind::Ident(name) => Ok(name.clone()),
        _ => Err(Refused { node: variable.id, told: otherwise.to_owned() }),
    }
}
