//! Device taints, tolerations and DeviceTaintRules.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A DeviceTaint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceTaint {
    /// `key`.
    pub key: Arc<str>,
    /// `value`.
    pub value: Arc<str>,
    /// `effect`.
    pub effect: TaintEffect,
}

/// Effect of a taint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TaintEffect {
    /// `None`, or an effect unknown to this release.
    Other(Arc<str>),
    /// `NoSchedule`.
    #[default]
    NoSchedule,
    /// `NoExecute`.
    NoExecute,
}

/// A DeviceToleration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceToleration {
    /// `key`; empty means any.
    pub key: Arc<str>,
    /// `operator`: `Exists` or `Equal`; empty means `Equal`.
    pub operator: Arc<str>,
    /// `value`, for `Equal`.
    pub value: Arc<str>,
    /// `effect`; empty means any.
    pub effect: Arc<str>,
    /// `tolerationSeconds`, copied into the allocation; scheduling does not read it.
    pub toleration_s: Option<i64>,
}

/// A `resource.k8s.io/v1` DeviceTaintRule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceTaintRule {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `spec.deviceSelector`; without it the rule selects no device.
    pub selector: Option<TaintSelector>,
    /// `spec.taint`.
    pub taint: DeviceTaint,
}

/// Selects devices that match all fields that are set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaintSelector {
    /// `driver`.
    pub driver: Option<Arc<str>>,
    /// `pool`.
    pub pool: Option<Arc<str>>,
    /// `device`.
    pub device: Option<Arc<str>>,
}

impl TaintEffect {
    /// The effect with this name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        match name {
            "NoSchedule" => Self::NoSchedule,
            "NoExecute" => Self::NoExecute,
            other => Self::Other(other.into()),
        }
    }

    /// Name in the API.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::NoExecute => "NoExecute",
            Self::Other(name) => name,
        }
    }
}

impl DeviceToleration {
    /// Whether it tolerates a taint. Source: `resourceclaim.ToleratesTaint`.
    #[must_use]
    pub fn tolerates(&self, taint: &DeviceTaint) -> bool {
        (self.effect.is_empty() || *self.effect == *taint.effect.name())
            && (self.key.is_empty() || self.key == taint.key)
            && match &*self.operator {
                "" | "Equal" => self.value == taint.value,
                "Exists" => true,
                _ => false,
            }
    }
}

impl DeviceTaintRule {
    /// Whether the rule selects a device. Source: `resourceslice/tracker`, `Tracker.applyPatches`.
    #[must_use]
    pub fn is_for(&self, driver: &str, pool: &str, device: &str) -> bool {
        let suits = |wanted: &Option<Arc<str>>, name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
        self.selector.as_ref().is_some_and(|selector| {
            suits(&selector.driver, driver) && suits(&selector.pool, pool) && suits(&selector.device, device)
        })
    }
}
