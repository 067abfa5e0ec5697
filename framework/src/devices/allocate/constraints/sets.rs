//! Attributes as sets of values. Source: `deviceAttributeListAsSet` of the experimental allocator.

use std::sync::Arc;

use crate::devices::model::slice::Attribute;

/// The elements of an attribute; a single value is a set of one.
#[derive(Clone, Copy)]
enum Set<'a> {
    Ints(&'a [i64]),
    Bools(&'a [bool]),
    Texts(&'a [Arc<str>]),
    Versions(&'a [Arc<str>]),
}

impl<'a> Set<'a> {
    /// `None`: no values, or an unknown type.
    fn of(value: &'a Attribute) -> Option<Self> {
        let set = match value {
            Attribute::Int(value) => Self::Ints(std::slice::from_ref(value)),
            Attribute::Bool(value) => Self::Bools(std::slice::from_ref(value)),
            Attribute::Text(value) => Self::Texts(std::slice::from_ref(value)),
            Attribute::Version(value) => Self::Versions(std::slice::from_ref(value)),
            Attribute::Ints(values) => Self::Ints(values),
            Attribute::Bools(values) => Self::Bools(values),
            Attribute::Texts(values) => Self::Texts(values),
            Attribute::Versions(values) => Self::Versions(values),
            Attribute::Unknown => return None,
        };
        (set.len() > 0).then_some(set)
    }

    const fn len(self) -> usize {
        match self {
            Self::Ints(values) => values.len(),
            Self::Bools(values) => values.len(),
            Self::Texts(values) | Self::Versions(values) => values.len(),
        }
    }

    /// Whether the element `at` is in all other sets. Sets of different types have no common elements.
    fn is_in_all(self, at: usize, others: &[Set<'_>]) -> bool {
        others.iter().all(|other| match (self, *other) {
            (Self::Ints(values), Set::Ints(others)) => others.contains(&values[at]),
            (Self::Bools(values), Set::Bools(others)) => others.contains(&values[at]),
            (Self::Texts(values), Set::Texts(others)) | (Self::Versions(values), Set::Versions(others)) => {
                others.contains(&values[at])
            }
            _ => false,
        })
    }

    fn has_common(self, others: &[Set<'_>]) -> bool {
        (0..self.len()).any(|at| self.is_in_all(at, others))
    }
}

/// Whether a value is in all of these attributes and in `value`.
pub(super) fn have_common(value: &Attribute, others: &[Attribute]) -> bool {
    let others: Option<Vec<Set<'_>>> = others.iter().map(Set::of).collect();
    Set::of(value).zip(others).is_some_and(|(set, others)| set.has_common(&others))
}

/// Whether `value` has no element of any of these attributes.
pub(super) fn are_disjoint(value: &Attribute, others: &[Attribute]) -> bool {
    let others = || others.iter().filter_map(Set::of);
    Set::of(value).is_some_and(|set| others().all(|other| !set.has_common(&[other])))
}
