//! The extension points: the calls that a plugin may answer, and the form of its answers.
//!
//! A plugin is called once per class and returns an object with its state for the class (kube-scheduler's cycle state). A node-local filter
//! or score is called for each node, on the node's shard. A domain-level one needs counts over topology domains: shards count, the
//! coordinator evaluates.

mod counted;
mod event;
mod facts;
mod fallible;
mod kind;
pub mod labels;
mod lack;
pub mod objects;
mod pod_field;
mod point;

use indexmap::IndexSet;

use crate::{
    class::{Class, PodInfo, Taint},
    domains::Sums,
    interest::Interest,
    profile::{Args, ArgsError, NoArgs, read_args},
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
    symbols::{Lookup, Symbol},
};

pub use crate::registry::pod_fields;
pub use counted::{Amounts, Domain, Tally, Term};
pub use event::ClusterEvent;
pub use facts::{DefaultSelector, Facts};
pub use fallible::{FallibleScore, Normalizer};
pub use kind::Kind;
pub use lack::{Lack, NodeContext};
use objects::ObjectCache;
pub use pod_field::{PodField, UnknownPodField};
pub use point::Point;

/// The highest score after normalising; kube-scheduler's `MaxNodeScore`.
pub const MAX_NODE_SCORE: i64 = 100;

/// The input of a plugin that prepares for a class.
#[derive(Debug)]
pub struct Preparation<'a> {
    /// The class.
    pub class: &'a Class,
    /// The arguments of the profile's plugins.
    pub args: &'a Args,
    /// Cluster-wide facts about the class.
    pub facts: &'a Facts,
    /// Returns the numbers of labels, names and images in the snapshot.
    pub symbols: Lookup<'a>,
    /// The taint sets that nodes had so far, by number.
    pub taint_sets: &'a IndexSet<Vec<Taint>>,
    /// Whether the profile runs the plugin's PreFilter: some filters and scores fail without it.
    pub is_pre_filtered: bool,
    /// Whether the profile runs the plugin's Filter: some scores read its results.
    pub is_filtered: bool,
}

/// A PreFilter's answer.
#[derive(Debug, PartialEq, Eq)]
pub enum PreFilter {
    /// Run the filter.
    Continue,
    /// The plugin does not apply to this class.
    Skip,
    /// Only nodes with these names are feasible.
    Only(Vec<Symbol>),
    /// No node is feasible, independent of the nodes; the reason.
    Refuse(String),
    /// The class cannot be filtered; the error.
    Fail(String),
}

/// A PreScore's answer.
#[derive(Debug, PartialEq, Eq)]
pub enum PreScore {
    /// Run the score.
    Continue,
    /// The plugin does not apply to this class.
    Skip,
    /// The class cannot be scored; the error.
    Fail(String),
}

/// A filter prepared for one class.
pub enum Filter {
    /// Needs one node at a time.
    Node(Box<dyn NodeFilter>),
    /// Needs counts over topology domains.
    Domain(Box<dyn DomainFilter>),
}

/// A score prepared for one class.
pub enum Score {
    /// Needs one node at a time.
    Node(Box<dyn NodeScore>),
    /// Needs counts over topology domains.
    Domain(Box<dyn DomainScore>),
}

/// Filters nodes one by one.
pub trait NodeFilter: Send + Sync {
    /// Filters the node at a position.
    ///
    /// # Errors
    /// The refusal.
    fn filter(&self, nodes: &Snapshot, slot: Slot) -> FilterResult;

    /// The messages of a refusal, in kube-scheduler's order.
    fn reasons(&self, detail: u64) -> Vec<String>;

    /// The unmet requirements on a node that the filter refuses, if it has more details than [`Plugin::lacks`]. Decisions do not use them.
    fn lacks(&self, _nodes: &Snapshot, _slot: Slot) -> Option<Vec<Lack>> {
        None
    }

    /// Starts an attempt: resets the work counted against its limit.
    fn begin(&self) {}

    /// Whether an attempt reached its limit: the filter refused the remaining nodes with an error and cannot be used again.
    fn is_exhausted(&self) -> bool {
        false
    }

    /// The work since preparation beyond that of an ordinary filter, in units of some 10 ns.
    fn work(&self) -> u64 {
        0
    }

    /// The approximate size of cached results about nodes, in bytes.
    fn bytes(&self) -> usize {
        0
    }

    /// The addition of a pod of this class, on any node, to the filter's cluster-wide count; 0 for a filter without one.
    fn counts(&self, _class: &Class) -> i64 {
        0
    }

    /// As [`Self::filter`], with the cluster-wide count changed by this much since the filter was prepared.
    ///
    /// # Errors
    /// The refusal.
    fn filter_shifted(&self, nodes: &Snapshot, slot: Slot, _shift: i64) -> FilterResult {
        self.filter(nodes, slot)
    }

    /// Keeps the feasible nodes in `todo` and reports the others. One virtual call per column, none per node.
    fn sieve(&self, nodes: &Snapshot, todo: &mut Vec<Slot>, refused: &mut dyn FnMut(Slot, Refusal)) {
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

    /// Whether the score is 0 for each node, so that normalising is not needed.
    fn is_nothing(&self) -> bool {
        false
    }

    /// Adds `weight` times the raw score of each node in `todo` to `sums`, position by position.
    fn add_column(&self, nodes: &Snapshot, todo: &[Slot], weight: i64, sums: &mut [i64]) {
        for (sum, &slot) in sums.iter_mut().zip(todo) {
            *sum += weight * self.score(nodes, slot);
        }
    }

    /// The score as one that may fail; then the two methods above are not called.
    fn fallible(&self) -> Option<&dyn FallibleScore> {
        None
    }

    /// Normalises the raw scores if it needs all of them; it replaces [`Plugin::normalize`].
    fn normalizer(&self) -> Option<Box<dyn Normalizer>> {
        None
    }
}

/// Terms to count over domains, and the addition of each pod. A domain's count is the sum over all pods on its counting nodes.
pub trait Domains: Send + Sync {
    /// The terms to count.
    fn terms(&self) -> &[Term];

    /// Whether the node at a position counts for a term, apart from its label.
    fn counts_node(&self, _term: u16, _nodes: &Snapshot, _slot: Slot) -> bool {
        true
    }

    /// The labels of node-local counts of a score: the sum on the node, or -1 if the node lacks the label.
    fn locals(&self) -> &[Symbol] {
        &[]
    }

    /// The addition of one pod of a class to each term; numbers from `terms().len()` on are the locals.
    fn amounts(&self, class: &Class) -> Amounts;

    /// As [`Self::amounts`], for a pod nominated to a node: `AddPod` of PreFilterExtensions counts slightly differently from PreFilter.
    fn nominated_amounts(&self, class: &Class) -> Amounts {
        self.amounts(class)
    }

    /// The classes for which [`Self::amounts`] may not be empty.
    fn interest(&self) -> Interest {
        Interest::everyone()
    }
}

/// Filters all nodes with the same domains at once, by cluster-wide counts.
pub trait DomainFilter: Domains {
    /// Filters nodes with these sums.
    ///
    /// # Errors
    /// The refusal.
    fn judge(&self, sums: Sums<'_>) -> FilterResult;

    /// Whether PreFilter skips the plugin because no existing pod concerns the class; every node passes, and nominated pods do not count.
    fn is_idle(&self, _sums: Sums<'_>) -> bool {
        false
    }

    /// The messages of a refusal.
    fn reasons(&self, detail: u64) -> Vec<String>;

    /// The unmet requirements on nodes with these sums, for display; empty if the filter cannot quantify them.
    fn lacks(&self, _sums: Sums<'_>) -> Vec<Lack> {
        Vec::new()
    }
}

/// Scores all nodes with the same domains at once, by cluster-wide counts.
pub trait DomainScore: Domains {
    /// Computes weights from all feasible nodes before scoring: their sums, and the number of nodes that share them.
    fn weights(&self, _feasible: &mut dyn Iterator<Item = (Sums<'_>, usize)>) -> Vec<f64> {
        Vec::new()
    }

    /// Whether PreScore skips the plugin because nothing is counted; all scores are equal, which matters only for scores per plugin.
    fn is_idle(&self, _sums: Sums<'_>) -> bool {
        false
    }

    /// The raw score of nodes with these sums; `None` excludes the nodes from normalising, with a score of 0.
    fn score(&self, weights: &[f64], sums: Sums<'_>) -> Option<i64>;
}

/// The smallest and the largest raw score over all feasible nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extremes {
    /// The smallest.
    pub min: i64,
    /// The largest.
    pub max: i64,
}

/// Maps a raw score into 0..=100 by the feasible nodes. kube-scheduler's normalising plugins need only the extremes.
pub type Normalize = fn(raw: i64, extremes: Extremes) -> i64;

/// A plugin; a [`Registry`](crate::registry::Registry) holds all of them. By default a plugin has no extension point.
pub trait Plugin: Sync {
    /// The name in configuration, messages and metrics.
    fn name(&self) -> &'static str;

    /// The extension points for `plugins` and `multiPoint` in a configuration. `flotilla_configuration` has those of kube-scheduler's
    /// plugins.
    fn points(&self) -> &'static [Point] {
        &[]
    }

    /// Validates the configured `args`, an empty mapping if there are none. It accepts what [`Args::of`] can read.
    ///
    /// # Errors
    /// The invalid field. By default any argument is an error.
    fn check_args(&self, args: &serde_json::Value) -> Result<(), ArgsError> {
        read_args::<NoArgs>(args).map(|NoArgs {}| ())
    }

    /// Warnings about these arguments, for display.
    fn advise(&self, _args: &serde_json::Value) -> Vec<String> {
        Vec::new()
    }

    /// Whether PreFilter and Filter skip pods with a deferred resize: these stay on their node, regardless of the check.
    fn skips_deferred_resizes(&self) -> bool {
        false
    }

    /// The pod metadata fields that the plugin reads under these arguments, of any pod: the only ones in [`Class::field`].
    fn pod_fields(&self, _args: &Args) -> Vec<PodField> {
        Vec::new()
    }

    /// PreEnqueue: the reason to keep the pod out of the active queue.
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

    /// The error of Score if the profile disables the plugin's PreScore; most plugins do not need it.
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

    /// The unmet requirements on a node that the filter refuses, for display; empty if the plugin cannot quantify them.
    fn lacks(&self, _class: &Class, _args: &Args, _place: NodeContext<'_>) -> Vec<Lack> {
        Vec::new()
    }

    /// The events that may requeue pods that this plugin refused, by kube-scheduler's labels without API groups, such as `NodeAdd` or
    /// `StorageClassUpdate`. Empty: any event. Source: `EventsToRegister` at the default feature gates, plus removed nodes and namespaces,
    /// which only hints here observe.
    fn events(&self) -> &'static [&'static str] {
        &[]
    }

    /// The queueing hint: whether an event may make a class schedulable that this plugin refused. By default every event of
    /// [`Self::events`] may, as in kube-scheduler without a hint.
    fn wakes(&self, _event: ClusterEvent<'_>, _class: &Class, _args: &Args) -> bool {
        true
    }

    /// The kinds that the plugin reads under these arguments besides pods and nodes; others are not watched. Kinds that select pods also
    /// trigger the plugin's hint, for which kube-scheduler has no event.
    fn reads(&self, _args: &Args) -> &'static [Kind] {
        &[]
    }

    /// Reserve and PreBind: an empty cache for the plugin's objects. `None`: the plugin keeps none.
    fn objects(&self) -> Option<Box<dyn ObjectCache>> {
        None
    }
}
