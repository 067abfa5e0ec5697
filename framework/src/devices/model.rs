//! Claims, classes, slices and rules of Dynamic Resource Allocation, as far as scheduling reads or writes them.
//!
//! Source of all types below: `k8s.io/api/resource/v1` of 1.37.
//!
//! Knows: their fields. Must not know: the Kubernetes objects they come from (that is [`crate::ingest`]), or what an
//! allocation makes of them.

pub mod allocation;
pub mod claim;
pub mod class;
pub mod request;
pub mod slice;
pub mod taint;

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Which device: `driver/pool/device` names one in the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceName {
    /// The driver.
    pub driver: Arc<str>,
    /// The pool of the driver.
    pub pool: Arc<str>,
    /// The device in the pool.
    pub device: Arc<str>,
}

impl std::fmt::Display for DeviceName {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(text, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}
