//! Node affinity terms of pods, volumes and devices.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One node affinity term: all requirements must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeTerm {
    /// Requirements on labels.
    pub expressions: Vec<Requirement>,
    /// Requirements on fields; the only field is `metadata.name`.
    pub fields: Vec<Requirement>,
}

/// One requirement of a term.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Requirement {
    /// Label key or field name.
    pub key: Arc<str>,
    /// The operator as in the API (`In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`); an unknown one matches nothing.
    pub operator: Arc<str>,
    /// The values.
    pub values: Vec<Arc<str>>,
}
