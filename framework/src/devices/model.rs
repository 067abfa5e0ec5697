//! Claims, classes, slices and taint rules, with the fields that scheduling reads or writes. Source of all types: `k8s.io/api/resource/v1`
//! of 1.37.

pub mod allocation;
pub mod claim;
pub mod class;
pub mod request;
pub mod slice;
pub mod taint;

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Identifies a device in the cluster: `driver/pool/device`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceName {
    /// The driver.
    pub driver: Arc<str>,
    /// Pool of the driver.
    pub pool: Arc<str>,
    /// Device in the pool.
    pub device: Arc<str>,
}

impl std::fmt::Display for DeviceName {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(text, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}
