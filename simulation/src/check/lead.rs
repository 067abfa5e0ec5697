//! Leadership by the Lease: only the leader may begin a write. Source: the promise of `lease.rs` of the coordinator: no write begins later
//! than `renewDeadline` after the last acknowledged renewal was sent.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::Commit;

use crate::coordinator::process_of;

use super::text;

/// `renewDeadline` of simulated coordinators.
const RENEW_MS: u64 = 3_000;
/// `leaseDuration` less `renewDeadline`: a request in flight for longer may be committed under the next leader.
const GAP_MS: u64 = 2_000;

#[derive(Debug, Default)]
pub(super) struct Leads {
    /// Send time of each process's last committed renewal, and the release of the Lease.
    renewed: BTreeMap<String, Renewed>,
    /// Highest `leaseTransitions` of a leader, the source of its epoch.
    highest: Option<u64>,
    /// Former leaders before a restore, which may have reverted their Lease without their knowledge.
    undone: BTreeSet<String>,
    /// Last holder since then.
    holder: Option<String>,
}

#[derive(Debug, Default)]
struct Renewed {
    sent_ms: Vec<u64>,
    released_ms: Option<u64>,
}

impl Leads {
    /// Applies a commit of a Lease, and returns a violation.
    pub(super) fn see(&mut self, commit: &Commit) -> Option<(&'static str, String)> {
        let lease = commit.after.as_ref()?;
        let process = process_of(&commit.by);
        let renewed = self.renewed.entry(process.to_owned()).or_default();
        if text(lease, "/spec/holderIdentity") != process {
            renewed.released_ms = Some(commit.at_ms);
            return None;
        }
        let is_first = renewed.sent_ms.is_empty();
        renewed.sent_ms.push(commit.sent_ms);
        self.holder = Some(process.to_owned());
        self.undone.remove(process);
        let number = lease.at("/spec/leaseTransitions").as_u64().unwrap_or_default();
        let highest = self.highest.replace(self.highest.map_or(number, |highest| highest.max(number)));
        if !is_first {
            return None;
        }
        if !commit.knows.is_ready {
            let what = format!("{process} takes the Lease before its caches of pods and nodes are synced");
            return Some(("L6", what));
        }
        let what = |highest| format!("{process} leads with the epoch {number}, and there was a lead with {highest}");
        highest.filter(|highest| number <= *highest).map(|highest| ("S5", what(highest)))
    }

    /// After a restore, `leaseTransitions` may be lower than before.
    pub(super) fn restored(&mut self) {
        (self.highest, self.holder) = (None, None);
        self.undone.extend(self.renewed.keys().cloned());
    }

    /// Whether no other process can have led at the time of a write: it was not in flight for too long, and no restore has moved the
    /// sender's Lease to another holder.
    pub(super) fn is_alone(&self, commit: &Commit) -> bool {
        let process = process_of(&commit.by);
        let is_another = self.holder.as_deref().is_some_and(|holder| holder != process);
        commit.at_ms.saturating_sub(commit.sent_ms) < GAP_MS && !(is_another && self.undone.contains(process))
    }

    /// Whether a process led when it began a write and has not released the Lease. `exclusively` requires the Lease until the commit,
    /// because another leader must not interfere; otherwise until the write was sent, such as for events.
    ///
    /// # Errors
    /// The reason why it must not write.
    pub(super) fn may_write(&self, commit: &Commit, exclusively: bool) -> Result<(), String> {
        let (by, sent_ms) = (&*commit.by, commit.sent_ms);
        let moment_ms = if exclusively { commit.at_ms } else { sent_ms };
        let Some(renewed) = self.renewed.get(by) else { return Err("it has never had the Lease".to_owned()) };
        if renewed.released_ms.is_some_and(|released_ms| moment_ms > released_ms) {
            return Err("it has given the Lease back".to_owned());
        }
        let leads = renewed.sent_ms.iter().rev().any(|begun| *begun <= sent_ms && sent_ms <= begun + RENEW_MS);
        if leads { Ok(()) } else { Err("its lead was over when it sent the request".to_owned()) }
    }
}
