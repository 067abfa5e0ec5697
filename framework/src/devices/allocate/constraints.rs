//! State of the constraints during a search. Source: `matchAttributeConstraint` and `distinctAttributeConstraint`.

use crate::devices::{
    model::slice::{Attribute, Device},
    pools::NodePools,
    wanted::Demand,
};

/// Devices under a constraint in the order of their picks: the device, and the index of the attribute.
#[derive(Debug, Default)]
pub(super) struct ConstraintState(Vec<(u32, u32)>);

impl ConstraintState {
    pub(super) fn add(&mut self, demand: &Demand, local: u32, driver: &str, pools: &NodePools) -> bool {
        let (device, ..) = pools.device(&pools.devices[local as usize]);
        let Some(at) = find(device, driver, &demand.attribute) else { return false };
        let value = &device.attributes[at].1;
        let known = |(local, at): &(u32, u32)| {
            let (device, ..) = pools.device(&pools.devices[*local as usize]);
            compare(value, &device.attributes[*at as usize].1)
        };
        let suits = if demand.is_distinct {
            self.0.iter().all(|taken| known(taken) == Likeness::Different)
        } else {
            self.0.first().is_none_or(|first| known(first) == Likeness::Equal)
        };
        if suits {
            self.0.push((local, u32::try_from(at).unwrap_or(u32::MAX)));
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

/// Index of a fully qualified attribute of a device. Source: `lookupAttribute`.
fn find(device: &Device, driver: &str, attribute: &str) -> Option<usize> {
    let of_name = |wanted: &str| device.attributes.binary_search_by(|(name, _)| (**name).cmp(wanted)).ok();
    of_name(attribute).or_else(|| {
        let (domain, id) = attribute.split_once('/')?;
        if domain == driver { of_name(id) } else { None }
    })
}
