//! Taints of devices, what tolerates them, and the rules that add them.
//!
//! Knows: their fields, and when a toleration tolerates a taint. Must not know: what an untolerated taint means for a
//! request.

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

/// What a taint does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TaintEffect {
    /// `None`, or an effect that this release does not know; its name.
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
    /// `operator` as written: `Exists`, or `Equal`, which an empty one means too.
    pub operator: Arc<str>,
    /// `value`, for `Equal`.
    pub value: Arc<str>,
    /// `effect`; empty means any.
    pub effect: Arc<str>,
    /// `tolerationSeconds`. Scheduling does not read it; it goes into the allocation.
    pub toleration_s: Option<i64>,
}

/// A `resource.k8s.io/v1` DeviceTaintRule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceTaintRule {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `spec.deviceSelector`; `None` where there is none, and then the rule is for no device.
    pub selector: Option<TaintSelector>,
    /// `spec.taint`.
    pub taint: DeviceTaint,
}

/// Which devices a rule is for: those that have all that is named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaintSelector {
    /// `driver`.
    pub driver: Option<Arc<str>>,
    /// `pool`.
    pub pool: Option<Arc<str>>,
    /// `device`.
    pub device: Option<Arc<str>>,
}

// === impl ===

impl TaintEffect {
    /// The effect of a name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        match name {
            "NoSchedule" => Self::NoSchedule,
            "NoExecute" => Self::NoExecute,
            other => Self::Other(other.into()),
        }
    }

    /// Its name.
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
    /// Whether it tolerates a taint.
    ///
    /// Source: `resourceclaim.ToleratesTaint`.
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
    /// Whether the rule taints a device.
    ///
    /// Source: `resourceslice/tracker`, `Tracker.applyPatches`.
    #[must_use]
    pub fn is_for(&self, driver: &str, pool: &str, device: &str) -> bool {
        let suits = |wanted: &Option<Arc<str>>, name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
        self.selector.as_ref().is_some_and(|selector| {
            suits(&selector.driver, driver) && suits(&selector.pool, pool) && suits(&selector.device, device)
        })
    }
}
