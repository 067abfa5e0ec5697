//! A small part of CEL for allocator cases: comparisons of a device's fields with constants, joined by `&&` and `||`.

use std::sync::Arc;

use flotilla_framework::devices::{
    amount::Amount,
    language::Cel,
    model::slice::{Attribute, Device},
    selectors::{Derivation, Language, Reach, Selector},
};

#[derive(Debug)]
pub(crate) struct Part;

#[derive(Debug)]
struct Expression {
    any: Vec<Vec<Term>>,
    reach: Reach,
}

#[derive(Debug)]
enum Term {
    Driver(String),
    Multiple(bool),
    Attribute { domain: String, id: String, wanted: Option<Attribute> },
    AtLeast { domain: String, id: String, wanted: Amount },
}

impl Language for Part {
    fn compile(&self, expression: &str) -> Result<Box<dyn Selector>, String> {
        let any: Result<Vec<Vec<Term>>, String> =
            expression.split(" || ").map(|all| all.split(" && ").map(term).collect()).collect();
        let any = any?;
        let mut attributes = Vec::new();
        let mut capacities = Vec::new();
        for term in any.iter().flatten() {
            match term {
                Term::Attribute { id, .. } => attributes.push(Arc::from(id.as_str())),
                Term::AtLeast { id, .. } => capacities.push(Arc::from(id.as_str())),
                _ => {}
            }
        }
        Ok(Box::new(Expression { any, reach: Reach::Some { attributes, capacities } }))
    }

    fn compile_derived(&self, expression: &str) -> Result<Box<dyn Derivation>, String> {
        Cel::default().compile_derived(expression)
    }
}

fn term(text: &str) -> Result<Term, String> {
    if let Some(driver) = text.strip_prefix("device.driver == ") {
        return Ok(Term::Driver(driver.trim_matches('"').to_owned()));
    }
    if let Some(wanted) = text.strip_prefix("device.allowMultipleAllocations == ") {
        return Ok(Term::Multiple(wanted == "true"));
    }
    if let Some(path) = text.strip_prefix("device.attributes[\"") {
        let (path, wanted) =
            path.split_once(" == ").map_or((path, None), |(path, wanted)| (path, Some(literal(wanted))));
        let (domain, id) = path.split_once("\"]").ok_or_else(|| format!("not read here: {text}"))?;
        let id = id.trim_matches(['.', '[', ']', '"']);
        return Ok(Term::Attribute { domain: domain.to_owned(), id: id.to_owned(), wanted });
    }
    if let Some(path) = text.strip_prefix("device.capacity[\"") {
        let (path, wanted) =
            path.split_once(".compareTo(quantity(\"").ok_or_else(|| format!("not read here: {text}"))?;
        let wanted = wanted.strip_suffix("\")) >= 0").ok_or_else(|| format!("not read here: {text}"))?;
        let (domain, id) = path.split_once("\"]").ok_or_else(|| format!("not read here: {text}"))?;
        let id = id.trim_matches(['.', '[', ']', '"']);
        let wanted = Amount::parse(wanted).map_err(|error| error.to_string())?;
        return Ok(Term::AtLeast { domain: domain.to_owned(), id: id.to_owned(), wanted });
    }
    Err(format!(
        "compilation failed: ERROR: <input>:1:1: undeclared reference to '{text}' (in container '')\n | {text}\n | ^"
    ))
}

fn literal(text: &str) -> Attribute {
    match text {
        "true" | "false" => Attribute::Bool(text == "true"),
        _ => text.parse().map_or_else(|_| Attribute::Text(text.trim_matches('"').into()), Attribute::Int),
    }
}

impl Selector for Expression {
    fn matches(&self, driver: &str, device: &Device) -> Result<bool, String> {
        if let Some((name, _)) = device.attributes.iter().find(|(_, value)| *value == Attribute::Unknown) {
            return Err(format!("attribute {name}: unsupported attribute value"));
        }
        let mut failed = None;
        for all in &self.any {
            match holds_all(all, driver, device) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(false), Err)
    }

    fn reach(&self) -> &Reach {
        &self.reach
    }
}

/// False takes precedence over an error.
fn holds_all(all: &[Term], driver: &str, device: &Device) -> Result<bool, String> {
    let mut failed = None;
    for term in all {
        match holds(term, driver, device) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(true), Err)
}

fn holds(term: &Term, driver: &str, device: &Device) -> Result<bool, String> {
    match term {
        Term::Driver(wanted) => Ok(driver == wanted),
        Term::Multiple(wanted) => Ok((device.allow_multiple == Some(true)) == *wanted),
        Term::Attribute { domain, id, wanted } => {
            let value = find(&device.attributes, domain, id, driver)?;
            match wanted {
                Some(wanted) => Ok(value == wanted),
                None => Ok(*value == Attribute::Bool(true)),
            }
        }
        Term::AtLeast { domain, id, wanted } => {
            let value = find(&device.capacity, domain, id, driver)?;
            Ok(value.value.nano() >= wanted.nano())
        }
    }
}

fn find<'a, T>(all: &'a [(Arc<str>, T)], domain: &str, id: &str, driver: &str) -> Result<&'a T, String> {
    let full = format!("{domain}/{id}");
    let is_it = |name: &str| name == full || domain == driver && name == id;
    all.iter().find(|(name, _)| is_it(name)).map(|(_, value)| value).ok_or_else(|| format!("no such key: {id}"))
}
