//! State of the constraints during a search. Source: `matchAttributeConstraint` and `distinctAttributeConstraint`.

mod sets;

use crate::devices::{
    model::slice::{Attribute, Device},
    wanted::Demand,
};

/// Attributes of the devices under a constraint, in the order of their picks.
#[derive(Debug, Default)]
pub(super) struct ConstraintState(Vec<Attribute>);

impl ConstraintState {
    pub(super) fn add(&mut self, demand: &Demand, value: &Attribute) -> bool {
        let suits = match (demand.compares_sets, demand.is_distinct) {
            (false, false) => self.0.first().is_none_or(|first| compare(value, first) == Likeness::Equal),
            (false, true) => self.0.iter().all(|known| compare(value, known) == Likeness::Different),
            (true, false) => sets::have_common(value, &self.0),
            (true, true) => sets::are_disjoint(value, &self.0),
        };
        if suits {
            self.0.push(value.clone());
        }
        suits
    }

    pub(super) fn remove(&mut self) {
        self.0.pop();
    }
}

#[derive(PartialEq)]
enum Likeness {
    Equal,
    Different,
    /// A type that is not compared.
    Unknown,
}

fn compare(value: &Attribute, known: &Attribute) -> Likeness {
    match value {
        Attribute::Text(_) | Attribute::Int(_) | Attribute::Bool(_) | Attribute::Version(_) => {
            if value == known {
                Likeness::Equal
            } else {
                Likeness::Different
            }
        }
        _ => Likeness::Unknown,
    }
}

/// A fully qualified attribute of a device. Source: `lookupStaticAttribute`.
pub(super) fn find<'a>(device: &'a Device, driver: &str, attribute: &str) -> Option<&'a Attribute> {
    let of_name = |wanted: &str| {
        let at = device.attributes.binary_search_by(|(name, _)| (**name).cmp(wanted)).ok()?;
        Some(&device.attributes[at].1)
    };
    of_name(attribute).or_else(|| {
        let (domain, id) = attribute.split_once('/')?;
        if domain == driver { of_name(id) } else { None }
    })
}
