//! Reads fields that several kinds have, such as amounts, terms and tolerations; defines the errors.

use std::{collections::BTreeMap, fmt, sync::Arc};

use k8s_openapi::{
    api::core::v1 as api,
    apimachinery::pkg::{api::resource::Quantity as ApiQuantity, apis::meta::v1::ObjectMeta},
};
use thiserror::Error;

use crate::{
    class::{NodeTerm, Requirement, Toleration},
    quantity::{Quantity, QuantityError},
    resources::Resources,
};

/// Why an object cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IngestError {
    /// An invalid quantity.
    #[error("{path}: {source}")]
    Quantity {
        /// The field.
        path: String,
        /// The problem.
        source: QuantityError,
    },
    /// A negative quantity.
    #[error("{path}: {value:?} is negative; a resource is never less than 0")]
    Negative {
        /// The field.
        path: String,
        /// The text.
        value: String,
    },
    /// A missing field of the object's identity.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// An excess of the limits ([`crate::excess::objects`]).
    #[error("{0}")]
    TooLarge(String),
}

impl IngestError {
    /// Whether the object is valid but exceeds the limits.
    #[must_use]
    pub const fn is_too_large(&self) -> bool {
        matches!(self, Self::TooLarge(_))
    }
}

pub(super) fn within<T>(object: T, excess: Option<String>) -> Result<T, IngestError> {
    excess.map_or(Ok(object), |excess| Err(IngestError::TooLarge(excess)))
}

pub(super) type ResourceList = BTreeMap<String, ApiQuantity>;

pub(super) fn quantity(amount: &ApiQuantity, path: impl Fn() -> String) -> Result<Quantity, IngestError> {
    let quantity = Quantity::parse(&amount.0).map_err(|source| IngestError::Quantity { path: path(), source })?;
    match quantity.is_negative() {
        true => Err(IngestError::Negative { path: path(), value: amount.0.clone() }),
        false => Ok(quantity),
    }
}

pub(super) fn quantities(
    list: Option<&ResourceList>,
    path: impl fmt::Display,
) -> Result<BTreeMap<String, Quantity>, IngestError> {
    let read =
        |(name, amount): (&String, &ApiQuantity)| Ok((name.clone(), quantity(amount, || format!("{path}[{name}]"))?));
    list.into_iter().flatten().map(read).collect()
}

pub(super) fn name(metadata: &ObjectMeta) -> Result<Arc<str>, IngestError> {
    present(metadata.name.as_deref(), "metadata.name")
}

pub(super) fn namespace(metadata: &ObjectMeta) -> Result<Arc<str>, IngestError> {
    present(metadata.namespace.as_deref(), "metadata.namespace")
}

pub(super) fn present(value: Option<&str>, field: &'static str) -> Result<Arc<str>, IngestError> {
    value.filter(|value| !value.is_empty()).map(text).ok_or(IngestError::Missing(field))
}

pub(super) fn resources(list: &BTreeMap<String, Quantity>) -> Resources {
    Resources::from_quantities(list.iter().map(|(name, quantity)| (name.as_str(), *quantity)))
}

pub(super) fn toleration(toleration: &api::Toleration) -> Toleration {
    let field = |field: &Option<String>| text(field.as_deref().unwrap_or_default());
    Toleration {
        key: field(&toleration.key),
        operator: field(&toleration.operator),
        value: field(&toleration.value),
        effect: field(&toleration.effect),
    }
}

/// A term of a node affinity.
#[must_use]
pub fn node_term(term: &api::NodeSelectorTerm) -> NodeTerm {
    let requirements =
        |list: &Option<Vec<api::NodeSelectorRequirement>>| list.iter().flatten().map(requirement).collect::<Vec<_>>();
    NodeTerm { expressions: requirements(&term.match_expressions), fields: requirements(&term.match_fields) }
}

fn requirement(requirement: &api::NodeSelectorRequirement) -> Requirement {
    Requirement {
        key: text(&requirement.key),
        operator: text(&requirement.operator),
        values: requirement.values.iter().flatten().map(text).collect(),
    }
}

pub(super) fn text(text: impl AsRef<str>) -> Arc<str> {
    Arc::from(text.as_ref())
}
