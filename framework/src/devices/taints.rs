//! Taints that DeviceTaintRules add to devices. Source: `resourceslice/tracker`.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use super::model::{slice::Slice, taint::DeviceTaintRule};

/// Slices and rules. Upstream adds the taints of rules in Go's random map order, this tracker by name. The order does not affect
/// allocations.
#[derive(Debug, Default)]
pub struct TaintTracker {
    slices: BTreeMap<Arc<str>, Arc<Slice>>,
    rules: BTreeMap<Arc<str>, DeviceTaintRule>,
}

impl TaintTracker {
    /// Adds or replaces a slice, and returns it with the taints of all rules.
    pub fn apply_slice(&mut self, slice: Arc<Slice>) -> Arc<Slice> {
        let tainted = self.tainted(&slice);
        self.slices.insert(Arc::clone(&slice.name), slice);
        tainted
    }

    /// Removes a slice.
    pub fn remove_slice(&mut self, name: &str) {
        self.slices.remove(name);
    }

    /// Adds or replaces a rule, and returns the slices with changed taints.
    pub fn apply_rule(&mut self, rule: DeviceTaintRule) -> Vec<Arc<Slice>> {
        let name = Arc::clone(&rule.name);
        self.change(&name, Some(rule))
    }

    /// Removes a rule, and returns the slices with changed taints.
    pub fn remove_rule(&mut self, name: &Arc<str>) -> Vec<Arc<Slice>> {
        self.change(name, None)
    }

    fn change(&mut self, name: &Arc<str>, rule: Option<DeviceTaintRule>) -> Vec<Arc<Slice>> {
        let concerned = |rule: Option<&DeviceTaintRule>, slice: &Slice| {
            let is_for = |rule: &DeviceTaintRule, device: &str| rule.is_for(&slice.driver, &slice.pool, device);
            rule.is_some_and(|rule| slice.devices.iter().any(|device| is_for(rule, &device.name)))
        };
        let known = self.rules.get(name);
        let of_either = |slice: &&Arc<Slice>| concerned(known, slice) || concerned(rule.as_ref(), slice);
        let before: Vec<(Arc<Slice>, Arc<Slice>)> =
            self.slices.values().filter(of_either).map(|slice| (Arc::clone(slice), self.tainted(slice))).collect();
        match rule {
            Some(rule) => self.rules.insert(Arc::clone(name), rule),
            None => self.rules.remove(name),
        };
        let after = before.into_iter().map(|(slice, before)| (before, self.tainted(&slice)));
        after.filter(|(before, after)| !has_same_taints(before, after)).map(|(_, after)| after).collect()
    }

    fn tainted(&self, slice: &Arc<Slice>) -> Arc<Slice> {
        let mut tainted = Arc::clone(slice);
        for rule in self.rules.values().filter(|rule| rule.selector.is_some()) {
            for (index, device) in slice.devices.iter().enumerate() {
                if rule.is_for(&slice.driver, &slice.pool, &device.name) {
                    Arc::make_mut(&mut tainted).devices[index].taints.push(rule.taint.clone());
                }
            }
        }
        tainted
    }
}

fn has_same_taints(one: &Arc<Slice>, other: &Arc<Slice>) -> bool {
    Arc::ptr_eq(one, other) || one.devices.iter().zip(&other.devices).all(|(one, other)| one.taints == other.taints)
}
