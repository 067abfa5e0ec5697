//! Parses `--feature-gates` and lists kube-scheduler 1.37.2's gates.
//!
//! Source: `k8s.io/component-base/featuregate` and `compatibility.ComponentGlobalsRegistry`, at version 1.37 with its default minimum
//! compatibility version, 1.36.

mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use flotilla_framework::ingest::{DeviceFeatures, Features};

use crate::report::{near_miss, quoted};
use table::{GATES, GONE};

const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";
/// Maturity of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureStage {
    /// Off by default.
    Alpha,
    /// On or off by default.
    Beta,
    /// Stable; the gate will be removed.
    Ga,
    /// Deprecated.
    Deprecated,
}

/// One gate of kube-scheduler.
#[derive(Debug)]
pub struct Gate {
    /// Name in the flag.
    pub name: &'static str,
    /// Maturity of the feature.
    pub stage: FeatureStage,
    /// Whether it is on by default.
    pub default: bool,
    /// Whether the value is locked to the default.
    pub locked: bool,
    /// Whether kube-scheduler's decisions depend on it.
    pub scheduling: bool,
    /// Gates that this gate requires.
    pub needs: &'static [&'static str],
}

/// Every gate but AllAlpha and AllBeta, by name.
#[must_use]
pub fn gates() -> &'static [Gate] {
    &GATES
}

fn find(name: &str) -> Option<&'static Gate> {
    GATES.binary_search_by(|gate| gate.name.cmp(name)).ok().and_then(|index| GATES.get(index))
}

/// Feature gates. The default equals kube-scheduler without the flag.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// The values of the flag, with AllAlpha and AllBeta expanded.
    set: BTreeMap<&'static str, bool>,
}

/// All errors in the value of `--feature-gates`, one line each, with the hint below it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", Rendered(self))]
pub struct GateErrors {
    /// At least one.
    pub errors: Vec<GateError>,
}

/// One error in the value of `--feature-gates`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--feature-gates: {gate}: {found}; expected {expected}")]
pub struct GateError {
    /// The gate, or the text in its place.
    pub gate: String,
    /// The value found, as a clause.
    pub found: String,
    /// The expected value.
    pub expected: String,
    /// The next step, unless `expected` implies it.
    pub hint: Option<String>,
}

struct Rendered<'a>(&'a GateErrors);

impl fmt::Display for Rendered<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.0.errors.iter().enumerate() {
            let line_break = if number > 0 { "\n" } else { "" };
            write!(out, "{line_break}{error}")?;
            if let Some(hint) = &error.hint {
                write!(out, "\n    hint: {hint}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for FeatureGates {
    /// The flag value that yields these gates; empty for the default.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (name, value)) in self.set.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            write!(out, "{comma}{name}={value}")?;
        }
        Ok(())
    }
}

impl FeatureGates {
    /// Whether the gate `name` is on; false for an unknown gate.
    #[must_use]
    pub fn enabled(&self, name: &str) -> bool {
        let default = || find(name).is_some_and(|gate| gate.default);
        self.set.get(name).copied().unwrap_or_else(default)
    }

    /// The gates that change how objects are read.
    #[must_use]
    pub fn features(&self) -> Features {
        Features {
            comparison_operators: self.enabled("TaintTolerationComparisonOperators"),
            match_label_keys: self.enabled("MatchLabelKeysInPodTopologySpread"),
            pod_level_resources: self.enabled("PodLevelResources"),
            pod_level_resizes: self.enabled("InPlacePodLevelResourcesVerticalScaling"),
            group_preemption_policy: self.enabled("PodGroupPreemptionPolicy"),
            topology_aware: self.enabled("TopologyAwareWorkloadScheduling"),
            composite_groups: self.enabled("CompositePodGroup"),
            workload_claims: self.enabled("DRAWorkloadResourceClaims"),
            deferred_resizes: self.enabled("InPlacePodVerticalScalingSchedulerPreemption"),
            devices: self.device_features(),
        }
    }

    fn device_features(&self) -> DeviceFeatures {
        DeviceFeatures {
            compatibility_groups: self.enabled("DRADeviceCompatibilityGroups"),
            consumable_capacity: self.enabled("DRAConsumableCapacity"),
            derived_attributes: self.enabled("DRADerivedAttributes"),
            binding_conditions: self.enabled("DRADeviceBindingConditions"),
            taints: self.enabled("DRADeviceTaints"),
            taint_rules: self.enabled("DRADeviceTaintRules"),
            fractional_ranges: self.enabled("DRAFractionalCapacityRange"),
            list_attributes: self.enabled("DRAListTypeAttributes"),
            node_allocatable: self.enabled("DRANodeAllocatableResources"),
            optional_node_operations: self.enabled("DRAOptionalNodeOperations"),
            partitionable_devices: self.enabled("DRAPartitionableDevices"),
        }
    }

    /// Reads the value of `--feature-gates`: `A=true,B=false`, each optionally prefixed with `kube:`.
    ///
    /// # Errors
    ///
    /// Everything that kube-scheduler rejects: wrong syntax, an unknown or locked gate, an enabled gate without the gates that it requires.
    pub fn parse(text: &str) -> Result<Self, GateErrors> {
        match Self::examine(text) {
            (gates, None) => Ok(gates),
            (_, Some(errors)) => Err(errors),
        }
    }

    /// As [`FeatureGates::parse`], but also returns every value that could be read when there are errors.
    #[must_use]
    pub fn examine(text: &str) -> (Self, Option<GateErrors>) {
        let mut errors = Vec::new();
        let said = read(text, &mut errors);
        let mut gates = Self::default();
        let mut set = BTreeMap::new();
        for (name, value) in &said {
            match find(name) {
                Some(gate) if gate.locked && gate.default != *value => errors.push(locked(gate)),
                Some(gate) => {
                    set.insert(gate.name, *value);
                }
                None if name == ALL_ALPHA || name == ALL_BETA => {}
                None => errors.push(unknown(name)),
            }
        }
        for (all, stage) in [(ALL_ALPHA, FeatureStage::Alpha), (ALL_BETA, FeatureStage::Beta)] {
            let Some(value) = said.get(all).copied() else { continue };
            for gate in GATES.iter().filter(|gate| gate.stage == stage) {
                set.entry(gate.name).or_insert(value);
            }
        }
        gates.set = set;
        if errors.is_empty() {
            errors.extend(gates.without_needs());
        }
        (gates, (!errors.is_empty()).then_some(GateErrors { errors }))
    }

    /// Enabled gates that require a disabled gate.
    fn without_needs(&self) -> impl Iterator<Item = GateError> {
        GATES.iter().filter(|gate| self.enabled(gate.name)).filter_map(|gate| {
            let missing: Vec<&str> = gate.needs.iter().copied().filter(|name| !self.enabled(name)).collect();
            let is_said = self.set.contains_key(gate.name);
            let also = missing.iter().map(|name| format!("{name}=true")).collect::<Vec<_>>().join(",");
            (!missing.is_empty()).then(|| GateError {
                gate: gate.name.to_owned(),
                found: format!(
                    "it is on{}, but a gate that it requires is off",
                    if is_said { "" } else { " by default" }
                ),
                expected: format!("{} on as well", missing.join(" and ")),
                hint: Some(format!("add {also}, or {}=false", gate.name)),
            })
        })
    }
}

/// The pairs of the flag; the last value of a gate wins.
fn read(text: &str, errors: &mut Vec<GateError>) -> BTreeMap<String, bool> {
    let mut said = BTreeMap::new();
    let mut components = BTreeSet::new();
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let (component, pair) = match pair.split_once(':') {
            Some((component, rest)) => (component.trim(), rest.trim()),
            None => ("", pair.trim()),
        };
        components.insert(component);
        if pair.is_empty() {
            continue;
        }
        if !matches!(component, "" | "kube") {
            let hint = near_miss(component, ["kube"]).or_else(|| Some("remove the part before the colon".to_owned()));
            let found = format!("found {}, a component that is not part of the scheduler", quoted(component));
            errors.push(invalid(pair, found, "kube:", hint));
            continue;
        }
        let Some((name, value)) = pair.split_once('=').map(|(name, value)| (name.trim(), value.trim())) else {
            let hint = find(pair).map(|gate| format!("write {}=true to turn it on", gate.name));
            errors.push(invalid(pair, "found no value".to_owned(), "name=true or name=false", hint));
            continue;
        };
        match value {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => _ = said.insert(name.to_owned(), true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => _ = said.insert(name.to_owned(), false),
            _ => {
                let hint = match value.to_ascii_lowercase().as_str() {
                    "yes" | "on" | "y" | "enabled" => Some(format!("write {name}=true")),
                    "no" | "off" | "n" | "disabled" => Some(format!("write {name}=false")),
                    _ => None,
                };
                errors.push(invalid(name, format!("found {}", quoted(value)), "true or false", hint));
            }
        }
    }
    if components.contains("") && components.contains("kube") {
        let found = "found gates with `kube:` before them and gates without".to_owned();
        errors.push(invalid("kube", found, "all of them with it or all of them without", None));
    }
    said
}

fn invalid(gate: &str, found: String, expected: &str, hint: Option<String>) -> GateError {
    let gate = if gate.is_empty() { "\"\"".to_owned() } else { gate.to_owned() };
    GateError { gate, found, expected: expected.to_owned(), hint }
}

fn locked(gate: &Gate) -> GateError {
    let found = format!("found {}, but the gate is locked to {}", !gate.default, gate.default);
    invalid(gate.name, found, &gate.default.to_string(), Some("leave the gate out".to_owned()))
}

fn unknown(name: &str) -> GateError {
    let gone = GONE.iter().find(|(gone, _)| *gone == name).map(|(_, hint)| (*hint).to_owned());
    let names = GATES.iter().map(|gate| gate.name).chain([ALL_ALPHA, ALL_BETA]);
    let hint = gone.or_else(|| near_miss(name, names));
    let found = "kube-scheduler 1.37 has no such feature gate".to_owned();
    invalid(name, found, "the name of a gate, with its capitals", hint)
}
