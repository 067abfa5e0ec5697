//! Invariants, checked after every commit in the order of commits.
//!
//! Their names are those of the list in docs/concepts/reliability.md.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::Arc,
};

use crate::api::{Commit, Kind, Object, Store, Verb};

mod devices;
mod lead;
mod place;
mod volumes;

use devices::Devices;
use lead::Leads;
use place::Places;
use volumes::Volumes;

/// Violation of an invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Name of the invariant.
    pub invariant: &'static str,
    /// Observation.
    pub what: String,
    /// Milliseconds since the start of the run.
    pub at_ms: u64,
}

/// Printable commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Milliseconds since the start of the run.
    pub at_ms: u64,
    /// Kind of write.
    pub verb: Verb,
    /// Kind of object.
    pub kind: Kind,
    /// Key of the object.
    pub key: String,
    /// Client or actor.
    pub by: Arc<str>,
}

impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_ms, verb, kind, key, by } = self;
        write!(out, "{at_ms:>7} ms {verb:?} {kind:?} {key} by {by}")
    }
}

/// Prefix of the coordinators' process names.
pub const COORDINATOR: &str = "coordinator-";

/// Maximum number of writes to one pod without faults: its conditions change with the nodes, which change a dozen times then.
const WRITES: u32 = 40;

/// Number of kept commits for debugging.
const REMEMBERED: usize = 200;

/// Checker of the history.
#[derive(Debug, Default)]
pub struct Checker {
    seen: usize,
    leads: Leads,
    places: Places,
    volumes: Volumes,
    devices: Devices,
    violations: Vec<Violation>,
    binds: u64,
    evictions: u64,
    /// Hash of the history, for reproducibility.
    hash: u64,
    recent: VecDeque<Arc<Commit>>,
    /// Bindings by pod, to detect double bindings.
    bound: BTreeMap<String, String>,
    /// Writes of coordinators by pod UID since faults have ended.
    writes: BTreeMap<String, u32>,
    born_ms: BTreeMap<String, u64>,
}

impl Checker {
    /// Checks the commits since the last call.
    pub fn follow(&mut self, history: &[Arc<Commit>]) {
        for commit in &history[self.seen.min(history.len())..] {
            self.see(commit);
        }
        self.seen = history.len();
    }

    fn see(&mut self, commit: &Arc<Commit>) {
        self.remember(commit);
        let of_lead = (commit.kind == Kind::Lease).then(|| self.leads.see(commit)).flatten();
        let found = self.found(commit).into_iter().chain(of_lead);
        self.violations.extend(found.map(|(invariant, what)| Violation { invariant, what, at_ms: commit.at_ms }));
        let alone = self.leads.is_alone(commit);
        self.places.see(commit, alone);
        self.volumes.see(commit);
        self.devices.see(commit, alone);
    }

    fn found(&mut self, commit: &Commit) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        if commit.kind == Kind::ResourceClaim && commit.by.starts_with(COORDINATOR) {
            return self.found_in_claim(commit);
        }
        if commit.kind != Kind::Pod {
            return found;
        }
        let (key, uid) = (commit.key(), commit.object().map_or("", |pod| pod.uid()).to_owned());
        if commit.verb == Verb::Create {
            self.born_ms.insert(uid, commit.at_ms);
            return found;
        }
        if !commit.by.starts_with(COORDINATOR) {
            return found;
        }
        if self.born_ms.get(&uid).is_some_and(|born_ms| commit.sent_ms < *born_ms) && commit.verb != Verb::Patch {
            found.push(("S4", format!("{:?} of {key} was sent before this pod was created", commit.verb)));
        }
        if let Err(reason) = self.leads.may_write(commit, commit.verb != Verb::Patch) {
            found.push(("S5", format!("{:?} of {key} by {}: {reason}", commit.verb, commit.by)));
        }
        if self.places.is_sharp() {
            let writes = self.writes.entry(uid.clone()).or_default();
            *writes += 1;
            if *writes == WRITES {
                found.push(("L7", format!("{WRITES} writes to {key} although nothing goes wrong")));
            }
        }
        match commit.verb {
            Verb::Bind => {
                self.binds += 1;
                let node = commit.after.as_ref().map_or("", |pod| pod.node_name()).to_owned();
                if let Some(before) = self.bound.insert(uid, node)
                    && commit.before.as_ref().is_some_and(|pod| !pod.node_name().is_empty())
                {
                    found.push(("S1", format!("{key} is bound again; it is on {before}")));
                }
                found.extend(self.places.bind(commit, self.leads.is_alone(commit)));
                found.extend(self.volumes.bind(commit, self.places.view_ms()));
                found.extend(self.devices.bind(commit, self.places.view_ms()));
            }
            Verb::MarkDeleted | Verb::Delete => {
                self.evictions += 1;
                found.extend(self.places.evict(commit));
            }
            _ => {}
        }
        found
    }

    fn found_in_claim(&self, commit: &Commit) -> Vec<(&'static str, String)> {
        let (places, alone) = (&self.places, self.leads.is_alone(commit));
        let mut found = self.devices.allocate(commit, alone, places.view_ms(), places.is_sharp());
        if let Err(reason) = self.leads.may_write(commit, false) {
            found.push(("S5", format!("{:?} of claim {} by {}: {reason}", commit.verb, commit.key(), commit.by)));
        }
        found
    }

    fn remember(&mut self, commit: &Arc<Commit>) {
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let numbers = [commit.at_ms, commit.sent_ms, commit.version, commit.verb as u64, commit.kind as u64];
        let numbers = numbers.into_iter().flat_map(u64::to_le_bytes);
        // Names of events contain the operating system's time.
        let key = if commit.kind == Kind::Event { "" } else { commit.key() };
        let bytes = numbers.chain(key.bytes()).chain(commit.by.bytes());
        self.hash = bytes.fold(self.hash ^ 0xcbf2_9ce4_8422_2325, mix);
        // Renewals would push out all other commits.
        if commit.kind == Kind::Lease && commit.verb == Verb::Update {
            return;
        }
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(Arc::clone(commit));
    }

    /// Reloads the state after a restore.
    pub fn restored(&mut self, store: &Store, at_ms: u64) {
        self.follow(store.history());
        self.leads.restored();
        self.places.restored(store, at_ms);
        self.volumes.restored(store, at_ms);
        self.devices.restored(store, at_ms);
    }

    /// Marks the end of faults: no view is older than a few seconds from now on.
    pub const fn all_is_well(&mut self) {
        self.places.sharpen();
    }

    /// Adds a violation found elsewhere.
    pub fn note(&mut self, invariant: &'static str, what: String, at_ms: u64) {
        self.violations.push(Violation { invariant, what, at_ms });
    }

    /// Violations so far.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Pods and nodes at the last commit.
    #[must_use]
    pub const fn places(&self) -> &Places {
        &self.places
    }

    /// Pending pods although a node is feasible, with an explanation.
    #[must_use]
    pub fn stranded(&self) -> Vec<(String, String)> {
        self.places.stranded(&self.volumes, &self.devices)
    }

    /// Bindings and evictions by coordinators so far.
    #[must_use]
    pub const fn counts(&self) -> (u64, u64) {
        (self.binds, self.evictions)
    }

    /// Hash of the history.
    #[must_use]
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// The last commits.
    pub fn recent(&self) -> impl Iterator<Item = Line> {
        self.recent.iter().map(|commit| {
            let Commit { at_ms, verb, kind, ref by, .. } = **commit;
            Line { at_ms, verb, kind, key: commit.key().to_owned(), by: Arc::clone(by) }
        })
    }
}

fn text<'a>(object: &'a Object, path: &str) -> &'a str {
    object.text(path)
}
