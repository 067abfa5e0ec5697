//! RuntimeClasses: overhead, node selector and tolerations of their pods.
//!
//! Source: `plugin/pkg/admission/runtimeclass/admission.go`.

use std::collections::BTreeMap;

use k8s_openapi::api::{core::v1 as api, node::v1::RuntimeClass};
use serde::{Deserialize, Serialize};

use super::{
    amounts::{self, Amounts},
    quantities,
};

/// The part of a RuntimeClass that admission reads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Runtime {
    overhead: Option<Amounts>,
    scheduling: Option<Scheduling>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Scheduling {
    selector: BTreeMap<String, String>,
    tolerations: Vec<Tolerated>,
}

/// A toleration. Reports keep it in an encoding that the API's type cannot decode.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Tolerated {
    key: Option<String>,
    operator: Option<String>,
    value: Option<String>,
    effect: Option<String>,
    seconds: Option<i64>,
}

impl Runtime {
    pub(super) fn new(class: &RuntimeClass) -> Self {
        let overhead = class.overhead.as_ref().map(|overhead| amounts::list(overhead.pod_fixed.as_ref()));
        let scheduling = class.scheduling.as_ref().map(|scheduling| Scheduling {
            selector: scheduling.node_selector.clone().unwrap_or_default(),
            tolerations: scheduling.tolerations.iter().flatten().map(Tolerated::of).collect(),
        });
        Self { overhead, scheduling }
    }
}

impl Tolerated {
    fn of(toleration: &api::Toleration) -> Self {
        let api::Toleration { key, operator, value, effect, toleration_seconds } = toleration.clone();
        Self { key, operator, value, effect, seconds: toleration_seconds }
    }

    fn into_api(self) -> api::Toleration {
        let Self { key, operator, value, effect, seconds } = self;
        api::Toleration { key, operator, value, effect, toleration_seconds: seconds }
    }

    /// Source: `isSuperset` in `pkg/util/tolerations`.
    fn covers(&self, other: &Self) -> bool {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let exists = self.operator.as_deref() == Some("Exists");
        if self.is_same(other) {
            return true;
        }
        if text(&self.key) != text(&other.key) && !(text(&self.key).is_empty() && exists) {
            return false;
        }
        if text(&self.effect) != text(&other.effect) && !text(&self.effect).is_empty() {
            return false;
        }
        if text(&self.effect) == "NoExecute"
            && let Some(seconds) = self.seconds
            && other.seconds.is_none_or(|other| other > seconds)
        {
            return false;
        }
        match self.operator.as_deref().unwrap_or_default() {
            "Exists" => true,
            // Defaults set the operator before admission.
            "" | "Equal" => {
                matches!(other.operator.as_deref().unwrap_or_default(), "" | "Equal")
                    && text(&self.value) == text(&other.value)
            }
            _ => false,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let operator = |field: &Option<String>| field.clone().filter(|text| !text.is_empty() && text != "Equal");
        text(&self.key) == text(&other.key)
            && operator(&self.operator) == operator(&other.operator)
            && text(&self.value) == text(&other.value)
            && text(&self.effect) == text(&other.effect)
            && self.seconds == other.seconds
    }
}

/// Applies the class of a pod. Without any class in the input, the pod stays unchanged: another note lists the missing class.
pub(super) fn apply(classes: &BTreeMap<String, Runtime>, spec: &mut api::PodSpec) -> Result<(), String> {
    if classes.is_empty() {
        return Ok(());
    }
    let class = match &spec.runtime_class_name {
        None => None,
        Some(name) => match classes.get(name) {
            Some(class) => Some(class),
            None => return Err(format!("pod rejected: RuntimeClass {name:?} not found")),
        },
    };
    let own = amounts::list(spec.overhead.as_ref());
    match class.and_then(|class| class.overhead.as_ref()) {
        Some(overhead) if own.is_empty() => spec.overhead = Some(quantities(overhead)),
        Some(overhead) if !is_equal(overhead, &own) => {
            return Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned());
        }
        Some(_) => {}
        None if spec.overhead.is_some() => {
            let text = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
            return Err(text.to_owned());
        }
        None => {}
    }
    class.and_then(|class| class.scheduling.as_ref()).map_or(Ok(()), |scheduling| schedule(scheduling, spec))
}

fn is_equal(left: &Amounts, right: &Amounts) -> bool {
    left.len() == right.len()
        && left.iter().all(|(name, amount)| right.get(name).is_some_and(|other| other.value == amount.value))
}

/// Source: `setScheduling`.
fn schedule(scheduling: &Scheduling, spec: &mut api::PodSpec) -> Result<(), String> {
    if !scheduling.selector.is_empty() {
        let own = spec.node_selector.get_or_insert_default();
        for (key, value) in &scheduling.selector {
            if let Some(known) = own.get(key).filter(|known| *known != value) {
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = \
                     {known}"
                ));
            }
            own.insert(key.clone(), value.clone());
        }
    }
    let own = spec.tolerations.iter().flatten().map(Tolerated::of);
    let merged = merge(own.chain(scheduling.tolerations.iter().cloned()).collect());
    spec.tolerations = Some(merged.into_iter().map(Tolerated::into_api).collect());
    Ok(())
}

/// Source: `MergeTolerations`: of two tolerations of which one covers the other, only that one is kept.
fn merge(all: Vec<Tolerated>) -> Vec<Tolerated> {
    let mut merged: Vec<Tolerated> = Vec::new();
    for (index, one) in all.iter().enumerate() {
        let is_redundant = merged.iter().any(|known| known.covers(one))
            || all.iter().skip(index + 1).any(|next| !next.is_same(one) && next.covers(one));
        if !is_redundant {
            merged.push(one.clone());
        }
    }
    merged
}
