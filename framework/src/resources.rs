//! Resource amounts as integers, as in kube-scheduler's `framework.Resource`.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::quantity::Quantity;

/// A set of amounts: a pod's requests or a node's allocatable resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Resources {
    /// CPU in thousandths of a core.
    pub milli_cpu: i64,
    /// Memory in bytes.
    pub memory: i64,
    /// Ephemeral storage in bytes.
    pub ephemeral_storage: i64,
    /// Other counted resources (extended resources, huge pages, ...), sorted by name, unique.
    pub scalars: Vec<(Arc<str>, i64)>,
}

impl Resources {
    /// Converts a list; skips `pods` and uncounted resources. Source: `framework.NewResource` and `schedutil.IsScalarResourceName`.
    pub fn from_quantities<'a>(list: impl IntoIterator<Item = (&'a str, Quantity)>) -> Self {
        let mut resources = Self::default();
        for (name, quantity) in list {
            match name {
                "cpu" => resources.milli_cpu = quantity.milli(),
                "memory" => resources.memory = quantity.units(),
                "ephemeral-storage" => resources.ephemeral_storage = quantity.units(),
                scalar if is_scalar(scalar) => resources.set_scalar(scalar, quantity.units()),
                _ => {}
            }
        }
        resources
    }

    /// Whether any amount is larger than the other's.
    #[must_use]
    pub fn exceeds(&self, other: &Self) -> bool {
        self.milli_cpu > other.milli_cpu
            || self.memory > other.memory
            || self.ephemeral_storage > other.ephemeral_storage
            || self.scalars.iter().any(|(name, amount)| *amount > other.get(name))
    }

    /// The amount of a resource by name; 0 where it is absent.
    #[must_use]
    pub fn get(&self, name: &str) -> i64 {
        match name {
            "cpu" => self.milli_cpu,
            "memory" => self.memory,
            "ephemeral-storage" => self.ephemeral_storage,
            scalar => self.scalar(scalar).unwrap_or(0),
        }
    }

    /// The amount of a scalar by name. `None` where it is absent, which differs from 0.
    #[must_use]
    pub fn scalar(&self, name: &str) -> Option<i64> {
        let place = self.scalars.binary_search_by(|(known, _)| known.as_ref().cmp(name)).ok()?;
        Some(self.scalars[place].1)
    }

    fn set_scalar(&mut self, name: &str, amount: i64) {
        match self.scalars.binary_search_by(|(known, _)| known.as_ref().cmp(name)) {
            Ok(index) => self.scalars[index].1 = amount,
            Err(index) => self.scalars.insert(index, (name.into(), amount)),
        }
    }

    /// Whether there is no request at all, not even a scalar of amount 0.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.milli_cpu == 0 && self.memory == 0 && self.ephemeral_storage == 0 && self.scalars.is_empty()
    }
}

/// Whether the scheduler counts this resource, besides CPU, memory, ephemeral storage and pods. Source: `schedutil.IsScalarResourceName`:
/// extended, `hugepages-*`, prefixed native and attachable-volume names.
#[must_use]
pub fn is_scalar(name: &str) -> bool {
    is_extended(name)
        || name.starts_with("hugepages-")
        || is_prefixed_native(name)
        || name.starts_with("attachable-volumes-")
}

/// Whether a resource is extended: not in `kubernetes.io`, not a quota name. Source: `v1helper.IsExtendedResourceName`.
#[must_use]
pub fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || is_prefixed_native(name)
}

fn is_prefixed_native(name: &str) -> bool {
    name.contains("kubernetes.io/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_the_scheduler_counts_are_kept() {
        let list = ["cpu", "pods", "example.com/gpu", "hugepages-2Mi", "requests.example.com/gpu", "storage"];
        let resources = Resources::from_quantities(list.map(|name| (name, Quantity::from_units(2))));
        let names: Vec<&str> = resources.scalars.iter().map(|(name, _)| name.as_ref()).collect();
        assert_eq!(resources.milli_cpu, 2000);
        assert_eq!(names, ["example.com/gpu", "hugepages-2Mi"]);
        assert_eq!(resources.get("example.com/gpu"), 2);
        assert_eq!(resources.get("example.com/absent"), 0);
    }
}
