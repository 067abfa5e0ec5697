//! The extension points: what a plugin may be asked, and in which shape it answers.
//!
//! A plugin is asked once per class and gives back an object that holds what it learned from the class: the typed
//! cycle state. That object is then asked node by node. Whether it needs one node, or the sum over a topology domain,
//! is its kind, and the kind decides who computes it: a node-local one runs wherever the node is held; a domain-level
//! one is counted there, and judged where all counts meet.
//!
//! Knows: the shapes. Must not know: any plugin, shards, or who asks.

use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};

use crate::{
    class::{Class, PodInfo, Taint},
    explain::lack::{Lack, Place},
    node::NodeInfo,
    profile::Args,
    snapshot::{Slot, Snapshot},
    status::Verdict,
    symbols::{Symbol, Symbols},
};

/// The highest score after normalising; upstream's `MaxNodeScore`.
pub const MAX_NODE_SCORE: i64 = 100;

/// What the whole cluster says about one class: facts that no single shard can know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// For each of the class's images, in its order: what finding it on a node adds to ImageLocality's sum, in bytes
    /// scaled by the share of nodes that hold it; 0 where no node does.
    pub image_contributions: Vec<i64>,
}

/// What a plugin sees when it prepares for a class.
#[derive(Debug)]
pub struct Preparation<'a> {
    /// The class.
    pub class: &'a Class,
    /// The arguments of the profile's plugins.
    pub args: &'a Args,
    /// What the whole cluster says about the class.
    pub facts: &'a Facts,
    /// The table that the snapshot's labels, names and images are numbered by.
    pub symbols: &'a mut Symbols,
    /// The sets of taints that nodes have so far, by number.
    pub taint_sets: &'a IndexSet<Vec<Taint>>,
}

/// A PreFilter's answer.
#[derive(Debug, PartialEq, Eq)]
pub enum PreFilter {
    /// Go on to the filter.
    Continue,
    /// This plugin has nothing to say about this class.
    Skip,
    /// Only the nodes with these names can do.
    Only(Vec<Symbol>),
    /// No node can do, whatever the nodes are; the reason.
    Refuse(String),
}

/// A PreScore's answer.
#[derive(Debug, PartialEq, Eq)]
pub enum PreScore {
    /// Go on to the score.
    Continue,
    /// This plugin has nothing to say about this class.
    Skip,
    /// The class cannot be scored; the error.
    Fail(String),
}

/// A filter made ready for one class.
pub enum Filter {
    /// Needs one node at a time.
    Node(Box<dyn NodeFilter>),
    /// Needs counts over topology domains.
    Domain(Box<dyn DomainFilter>),
}

/// A score made ready for one class.
pub enum Score {
    /// Needs one node at a time.
    Node(Box<dyn NodeScore>),
    /// Needs counts over topology domains.
    Domain(Box<dyn DomainScore>),
}

/// Judges nodes one by one.
pub trait NodeFilter: Send + Sync {
    /// Whether the node at a position will do.
    ///
    /// # Errors
    /// The refusal.
    fn filter(&self, nodes: &Snapshot, slot: Slot) -> Verdict;

    /// The words for a refusal of this filter, in upstream's order.
    fn reasons(&self, detail: u64) -> Vec<String>;

    /// Keeps in `todo` the nodes that will do and reports the others. One virtual call per column, none per node.
    fn sieve(&self, nodes: &Snapshot, todo: &mut Vec<Slot>, refused: &mut dyn FnMut(Slot, crate::status::Refusal)) {
        todo.retain(|&slot| match self.filter(nodes, slot) {
            Ok(()) => true,
            Err(refusal) => {
                refused(slot, refusal);
                false
            }
        });
    }
}

/// Scores nodes one by one.
pub trait NodeScore: Send + Sync {
    /// The raw score of the node at a position.
    fn score(&self, nodes: &Snapshot, slot: Slot) -> i64;

    /// Adds `weight` times the raw score of each node in `todo` to `sums`, position by position.
    fn add_column(&self, nodes: &Snapshot, todo: &[Slot], weight: i64, sums: &mut [i64]) {
        for (sum, &slot) in sums.iter_mut().zip(todo) {
            *sum += weight * self.score(nodes, slot);
        }
    }
}

/// The topology domain of a node for one key; `None` where the node lacks the label.
pub type Domain = Option<Arc<str>>;

/// Sums over the domains of one plugin, term by term: the part that shards add up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally(pub IndexMap<(u16, Arc<str>), i64>);

impl Tally {
    /// Adds to the count of a domain under a term.
    pub fn add(&mut self, term: u16, domain: &Arc<str>, count: i64) {
        let sum = self.0.entry((term, Arc::clone(domain))).or_insert(0);
        *sum = sum.saturating_add(count);
    }

    /// The count of a domain under a term.
    #[must_use]
    pub fn get(&self, term: u16, domain: &Arc<str>) -> i64 {
        self.0.get(&(term, Arc::clone(domain))).copied().unwrap_or(0)
    }

    /// Adds another shard's counts.
    pub fn merge(&mut self, other: &Self) {
        for ((term, domain), count) in &other.0 {
            self.add(*term, domain, *count);
        }
    }
}

/// What filters and scores over domains share: which labels span the domains, and what one node adds to them.
pub trait Domains: Send + Sync {
    /// The label keys whose values are the domains, as numbers of the snapshot's table.
    fn keys(&self) -> &[Symbol];

    /// Adds what the node at a position contributes; `domains` are its domains, aligned with `keys`.
    fn count(&self, nodes: &Snapshot, slot: Slot, domains: &[Domain], tally: &mut Tally);
}

/// Judges all nodes with the same domains at once, from counts over the whole cluster.
pub trait DomainFilter: Domains {
    /// Whether nodes with these domains will do.
    ///
    /// # Errors
    /// The refusal.
    fn judge(&self, tally: &Tally, domains: &[Domain]) -> Verdict;

    /// The words for a refusal of this filter.
    fn reasons(&self, detail: u64) -> Vec<String>;
}

/// Scores all nodes with the same domains at once, from counts over the whole cluster.
pub trait DomainScore: Domains {
    /// The raw score of nodes with these domains.
    fn score(&self, tally: &Tally, domains: &[Domain]) -> i64;
}

/// The smallest and the largest raw score over all feasible nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extremes {
    /// The smallest.
    pub min: i64,
    /// The largest.
    pub max: i64,
}

/// Maps a raw score into 0..=100 once the feasible nodes are known. Every plugin of kube-scheduler that normalises
/// needs no more of them than their extremes.
pub type Normalize = fn(raw: i64, extremes: Extremes) -> i64;

/// Something that happened in the cluster and may make room for a pod that was refused.
#[derive(Debug, Clone, Copy)]
pub enum ClusterEvent<'a> {
    /// A node appeared.
    NodeAdded(&'a NodeInfo),
    /// A node changed.
    NodeUpdated {
        /// Before.
        old: &'a NodeInfo,
        /// After.
        new: &'a NodeInfo,
    },
    /// A pod that held a node went away, or asks for less than before.
    PodRemoved(&'a Class),
}

/// A plugin: one row of the registry. Every method has the answer of a plugin without that extension point.
pub trait Plugin: Sync {
    /// The name in configurations, messages and metrics.
    fn name(&self) -> &'static str;

    /// PreEnqueue: the reason why the pod may not enter the active queue yet.
    fn pre_enqueue(&self, _pod: &PodInfo) -> Option<String> {
        None
    }

    /// PreFilter.
    fn pre_filter(&self, _preparation: &mut Preparation<'_>) -> PreFilter {
        PreFilter::Continue
    }

    /// Filter.
    fn filter(&self, _preparation: &mut Preparation<'_>) -> Option<Filter> {
        None
    }

    /// PreScore.
    fn pre_score(&self, _preparation: &mut Preparation<'_>) -> PreScore {
        PreScore::Continue
    }

    /// Why Score fails where the profile leaves out the plugin's PreScore; most plugins do without it.
    fn fails_without_pre_score(&self, _preparation: &mut Preparation<'_>) -> Option<String> {
        None
    }

    /// Score.
    fn score(&self, _preparation: &mut Preparation<'_>) -> Option<Score> {
        None
    }

    /// NormalizeScore.
    fn normalize(&self) -> Option<Normalize> {
        None
    }

    /// What a node that the filter refuses lacks, for people to read; empty where the plugin has no measure of it.
    fn lacks(&self, _class: &Class, _args: &Args, _place: Place<'_>) -> Vec<Lack> {
        Vec::new()
    }

    /// Whether an event may make a class schedulable that this plugin refused: the queueing hint.
    fn wakes(&self, _event: ClusterEvent<'_>, _class: &Class, _args: &Args) -> bool {
        false
    }
}
