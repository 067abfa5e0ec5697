//! DeviceClasses.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::request::Configuration;

/// A `resource.k8s.io/v1` DeviceClass.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceClass {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.creationTimestamp`, in seconds since 1970. The newest class of an extended resource is used.
    pub created_s: i64,
    /// `spec.selectors`: CEL expressions; `None` for a selector of another type.
    pub selectors: Vec<Option<Arc<str>>>,
    /// `spec.config`.
    pub config: Vec<Configuration>,
    /// `spec.extendedResourceName`.
    pub extended_resource: Option<Arc<str>>,
}
