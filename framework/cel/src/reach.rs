//! The parts of a device that an expression can read. Devices that are equal in them get the same verdict.

use std::{collections::BTreeSet, fmt::Write as _, sync::Arc};

use crate::{
    device::Device,
    syntax::{Expr, Fold, Kind},
    value::Value,
};

/// Upper bound of the parts of a device that an expression can read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    driver: bool,
    allow_multiple_allocations: bool,
    attributes: Domains,
    capacity: Domains,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Domains {
    all: bool,
    domains: BTreeSet<Arc<str>>,
    /// Single names, by domain and identifier.
    names: BTreeSet<(Arc<str>, Arc<str>)>,
}

impl Domains {
    fn ids(&self) -> Option<Vec<Arc<str>>> {
        let is_named = !self.all && self.domains.is_empty();
        is_named.then(|| self.names.iter().map(|(_, id)| Arc::clone(id)).collect())
    }

    fn has(&self, domain: &Arc<str>, id: &Arc<str>) -> bool {
        self.all || self.domains.contains(domain) || self.names.contains(&(Arc::clone(domain), Arc::clone(id)))
    }
}

/// The values of a device that an expression can read. Devices with equal keys get the same verdict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceValues(Arc<str>);

#[derive(Clone)]
enum Part {
    Device,
    Attributes,
    Capacity,
    Domain { of_capacity: bool, domain: Arc<str> },
}

type Aliases = Vec<(String, Option<Part>)>;

impl Reach {
    pub(crate) fn of(tree: &Expr) -> Self {
        let mut reach = Self::default();
        reach.walk(tree, &mut Vec::new());
        reach
    }

    /// Whether the expression can read an attribute.
    pub fn reaches_attribute(&self, domain: &str, id: &str) -> bool {
        self.attributes.has(&domain.into(), &id.into())
    }

    /// Identifiers of all attributes that the expression can read, in any domain. `None` if they depend on the device.
    pub fn attribute_ids(&self) -> Option<Vec<Arc<str>>> {
        self.attributes.ids()
    }

    /// Like [`Self::attribute_ids`], for capacities.
    pub fn capacity_ids(&self) -> Option<Vec<Arc<str>>> {
        self.capacity.ids()
    }

    /// Whether the expression can read a capacity.
    pub fn reaches_capacity(&self, domain: &str, id: &str) -> bool {
        self.capacity.has(&domain.into(), &id.into())
    }

    /// The values of a device that the expression can read.
    pub fn key(&self, device: &Device) -> DeviceValues {
        let mut key = String::new();
        if let Some(told) = &device.unreadable {
            let _ = write!(key, "!{told}");
            return DeviceValues(key.into());
        }
        if self.driver {
            let _ = write!(key, "driver {:?}", device.driver);
        }
        if self.allow_multiple_allocations {
            let _ = write!(key, " multiple {}", device.allow_multiple_allocations);
        }
        for (domain, ids) in &device.attributes {
            for (id, attribute) in ids.iter().filter(|(id, _)| self.attributes.has(domain, id)) {
                let _ = write!(key, " attribute {domain:?} {id:?} {attribute:?}");
            }
        }
        for (domain, ids) in &device.capacity {
            for (id, amount) in ids.iter().filter(|(id, _)| self.capacity.has(domain, id)) {
                let _ = write!(key, " capacity {domain:?} {id:?} {amount:?}");
            }
        }
        DeviceValues(key.into())
    }

    fn domains(&mut self, of_capacity: bool) -> &mut Domains {
        if of_capacity { &mut self.capacity } else { &mut self.attributes }
    }

    fn whole(&mut self, part: &Part) {
        match part {
            Part::Device => {
                self.driver = true;
                self.allow_multiple_allocations = true;
                self.attributes.all = true;
                self.capacity.all = true;
            }
            Part::Attributes => self.attributes.all = true,
            Part::Capacity => self.capacity.all = true,
            Part::Domain { of_capacity, domain } => {
                self.domains(*of_capacity).domains.insert(Arc::clone(domain));
            }
        }
    }

    fn walk(&mut self, tree: &Expr, aliases: &mut Aliases) {
        if let Some(part) = part(tree, aliases) {
            self.whole(&part);
            return;
        }
        if let Kind::Fold(fold) = &tree.kind {
            self.walk_fold(fold, aliases);
            return;
        }
        if let Some((operand, key)) = step(tree)
            && let Some(of) = part(operand, aliases)
        {
            self.look_up(&of, key, aliases);
            return;
        }
        for child in tree.children() {
            self.walk(child, aliases);
        }
    }

    fn look_up(&mut self, of: &Part, key: Step<'_>, aliases: &mut Aliases) {
        if let Step::Dynamic(index) = key {
            self.walk(index, aliases);
        }
        match (of, key) {
            (Part::Device, Step::Name("driver")) => self.driver = true,
            (Part::Device, Step::Name("allowMultipleAllocations")) => self.allow_multiple_allocations = true,
            (Part::Domain { of_capacity, domain }, Step::Name(id)) => {
                let name = (Arc::clone(domain), Arc::from(id));
                self.domains(*of_capacity).names.insert(name);
            }
            (of, _) => self.whole(of),
        }
    }

    fn walk_fold(&mut self, fold: &Fold, aliases: &mut Aliases) {
        let binds = matches!(&fold.range.kind, Kind::List(elements) if elements.is_empty());
        let bound = if binds { part(&fold.initial, aliases) } else { None };
        if bound.is_none() {
            self.walk(&fold.initial, aliases);
        }
        self.walk(&fold.range, aliases);
        let outer = aliases.len();
        aliases.push((fold.accumulator.clone(), bound));
        if !binds {
            aliases.push((fold.variable.clone(), None));
            aliases.extend(fold.second.clone().map(|name| (name, None)));
            self.walk(&fold.condition, aliases);
            self.walk(&fold.step, aliases);
            aliases.truncate(outer + 1);
        }
        self.walk(&fold.result, aliases);
        aliases.truncate(outer);
    }
}

#[derive(Clone, Copy)]
enum Step<'tree> {
    Name(&'tree str),
    Dynamic(&'tree Expr),
}

fn step(tree: &Expr) -> Option<(&Expr, Step<'_>)> {
    match &tree.kind {
        Kind::Select { operand, field, .. } => Some((operand, Step::Name(field))),
        Kind::Call { function, target: None, arguments } if matches!(function.as_str(), "_[_]" | "_[?_]" | "_?._") => {
            let [operand, index] = &arguments[..] else { return None };
            Some((
                operand,
                match &index.kind {
                    Kind::Literal(Value::String(name)) => Step::Name(name),
                    _ => Step::Dynamic(index),
                },
            ))
        }
        _ => None,
    }
}

fn part(tree: &Expr, aliases: &Aliases) -> Option<Part> {
    if let Kind::Ident(name) = &tree.kind {
        if let Some((_, known)) = aliases.iter().rev().find(|(known, _)| known == name) {
            return known.clone();
        }
        return matches!(name.as_str(), "device" | ".device").then_some(Part::Device);
    }
    let (operand, Step::Name(name)) = step(tree)? else { return None };
    let is_test = matches!(tree.kind, Kind::Select { test_only: true, .. });
    match (part(operand, aliases)?, name) {
        _ if is_test => None,
        (Part::Device, "attributes") => Some(Part::Attributes),
        (Part::Device, "capacity") => Some(Part::Capacity),
        (Part::Attributes, domain) => Some(Part::Domain { of_capacity: false, domain: domain.into() }),
        (Part::Capacity, domain) => Some(Part::Domain { of_capacity: true, domain: domain.into() }),
        _ => None,
    }
}
