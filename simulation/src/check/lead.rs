//! Who leads, by the Lease: no write is begun by a process that does not.
//!
//! Source: the promise of `lease.rs` of the coordinator: no write begins after the last acknowledged renewal was sent plus
//! `renewDeadline`.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::Commit;

use crate::coordinator::process_of;

use super::text;

/// What the configuration of simulated coordinators says of the election.
const RENEW_MS: u64 = 3_000;
/// `leaseDuration` less `renewDeadline`: a request that is under way for longer may be committed under the next leader.
const GAP_MS: u64 = 2_000;

/// The renewals of each process.
#[derive(Debug, Default)]
pub(super) struct Leads {
    /// When the last renewal of each process was sent that was committed; and when it gave the Lease back.
    renewed: BTreeMap<String, Renewed>,
    /// The highest `leaseTransitions` of a lead so far, which is what its epoch is made of.
    highest: Option<u64>,
    /// Who had led before the API server was restored: that may have taken the Lease back from it, which it does not know yet.
    undone: BTreeSet<String>,
    /// Who has taken or renewed the Lease last since then.
    holder: Option<String>,
}

#[derive(Debug, Default)]
struct Renewed {
    sent_ms: Vec<u64>,
    released_ms: Option<u64>,
}

impl Leads {
    /// Notes a commit of a Lease. Gives what is wrong with it.
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
            let what = format!("{process} takes the Lease and has not been told yet what pods and nodes there are");
            return Some(("L6", what));
        }
        let what = |highest| format!("{process} leads with the epoch {number}, and there was a lead with {highest}");
        highest.filter(|highest| number <= *highest).map(|highest| ("S5", what(highest)))
    }

    /// The API server was restored: the Lease that is there again may count fewer leads than there were.
    pub(super) fn restored(&mut self) {
        (self.highest, self.holder) = (None, None);
        self.undone.extend(self.renewed.keys().cloned());
    }

    /// Whether no other process can have led when a write came about: the write was not under way for too long, and no restore
    /// has taken the Lease back from its sender that another one holds now.
    pub(super) fn is_alone(&self, commit: &Commit) -> bool {
        let process = process_of(&commit.by);
        let is_another = self.holder.as_deref().is_some_and(|holder| holder != process);
        commit.at_ms.saturating_sub(commit.sent_ms) < GAP_MS && !(is_another && self.undone.contains(process))
    }

    /// Whether a process led when it began a write, and has not given the Lease back before: before the write came about where
    /// another leader must not be in its way (`exclusively`), before it was sent where it is told to people.
    ///
    /// # Errors
    /// Why it may not.
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
