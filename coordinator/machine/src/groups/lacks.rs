//! The pods or groups that placements lack, for reports. kube-scheduler's message has only the reason of the first placement.

use flotilla_framework::{class::TopologyDomain, pod_group::Hierarchy as _};

use super::{
    Groups,
    tree::Branch,
    tried::{GroupRefusal, Tried},
};
use crate::{judge::decision::Decision, subject::GroupKey};

/// Maximum number of placements in a report. At some 200 bytes each they take 3 KiB per group.
const MAX_LINES: usize = 16;

/// The lack of a rejected placement, such as `example.com/rack=r3 lacks 2 of 8 pods: 0/5 nodes are available: 5 Insufficient cpu.`
pub(super) fn lack(branch: &Branch, domain: &TopologyDomain, tried: &Tried) -> String {
    let needed = branch.object.min_count.unwrap_or(1) as usize;
    let (found, unit) = match branch.is_composite() {
        true => (tried.children.iter().filter(|child| child.outcome.is_ok()).count(), "groups"),
        false => (branch.scheduled.len() + tried.found().count(), "pods"),
    };
    let missing = needed.saturating_sub(found);
    let place = format!("{}={} lacks {missing} of {needed} {unit}", domain.key, domain.value);
    match reason(branch, tried) {
        Some(reason) => format!("{place}: {reason}"),
        None => place,
    }
}

/// Why the first pod or group that was refused does not fit.
fn reason(branch: &Branch, tried: &Tried) -> Option<String> {
    let refused = tried.decisions.iter().find_map(|(_, decision)| match decision {
        Decision::Refuse(diagnosis, _) => Some(diagnosis.message.clone()),
        Decision::Place(_) | Decision::Fail(_) => None,
    });
    let below = || {
        let pairs = branch.children.iter().zip(&tried.children);
        pairs.into_iter().find_map(|(child, tried)| match &tried.outcome {
            Err(GroupRefusal::Rejected(own)) => {
                let reason = reason(child, tried).unwrap_or_else(|| own.clone());
                Some(format!("group {}: {reason}", child.object.name))
            }
            _ => None,
        })
    };
    refused.or_else(below)
}

/// Adds a line about a placement; the last one counts those without a line.
pub(super) fn add(lines: &mut Vec<String>, number: usize, line: String) {
    if number < MAX_LINES {
        return lines.push(line);
    }
    lines.truncate(MAX_LINES);
    lines.push(format!("and {} more", number + 1 - MAX_LINES));
}

impl Groups {
    /// Stores the lacks of each group.
    pub(super) fn note_lacks(&mut self, branch: &Branch, tried: &mut Tried) {
        if let Some(group) = self.known.get_mut(&branch.key) {
            group.placements = if tried.outcome.is_ok() { Vec::new() } else { std::mem::take(&mut tried.lacks) };
        }
        for (child, tried) in branch.children.iter().zip(&mut tried.children) {
            self.note_lacks(child, tried);
        }
    }

    /// The lacks of a group, and of those above it, in the last attempt.
    pub(crate) fn lacks_of(&self, key: &GroupKey) -> Vec<String> {
        let lineage = self.lineage(key).filter_map(|(key, _)| self.known.get(&key));
        lineage.flat_map(|group| &group.placements).cloned().collect()
    }
}
