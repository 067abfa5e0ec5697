//! The extension points: what a plugin may be asked, and in which shape it answers.
//!
//! A plugin is asked once per class and gives back an object that holds what it learned from the class: the typed
//! cycle state. That object is then asked node by node. Whether it needs one node, or the sum over a topology domain,
//! is its kind, and the kind decides who computes it: a node-local one runs wherever the node is held; a domain-level
//! one is counted there, and judged where all counts meet.
//!
//! Knows: the shapes. Must not know: any plugin, shards, or who asks.

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
    status::{Refusal, Verdict},
    symbols::{Lookup, Symbol},
};

pub use crate::registry::pod_fields;
pub use counted::{Amounts, Domain, Tally, Term};
pub use event::ClusterEvent;
pub use facts::{DefaultSelector, Facts};
pub use fallible::{FallibleScore, Normalizer};
pub use kind::Kind;
pub use lack::{Lack, Place};
use objects::ObjectCache;
pub use pod_field::{PodField, UnknownPodField};
pub use point::Point;

/// The highest score after normalising; upstream's `MaxNodeScore`.
pub const MAX_NODE_SCORE: i64 = 100;

/// What a plugin sees when it prepares for a class.
#[derive(Debug)]
pub struct Preparation<'a> {
    /// The class.
    pub class: &'a Class,
    /// The arguments of the profile's plugins.
    pub args: &'a Args,
    /// What the whole cluster says about the class.
    pub facts: &'a Facts,
    /// Gives the numbers of the snapshot's labels, names and images.
    pub symbols: Lookup<'a>,
    /// The sets of taints that nodes have so far, by number.
    pub taint_sets: &'a IndexSet<Vec<Taint>>,
    /// Whether the profile runs the plugin's PreFilter: some filters and scores fail where it does not.
    pub is_pre_filtered: bool,
    /// Whether the profile runs the plugin's Filter: some scores read what it found.
    pub is_filtered: bool,
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
    /// The class cannot be judged; the error.
    Fail(String),
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

    /// What a node that the filter refuses lacks, where the filter can tell more than [`Plugin::lacks`]; nothing of it is
    /// used by a decision.
    fn lacks(&self, _nodes: &Snapshot, _slot: Slot) -> Option<Vec<Lack>> {
        None
    }

    /// Another attempt begins: what it may do is counted from nothing.
    fn begin(&self) {}

    /// Whether what an attempt may do was not enough for all nodes. The filter is of no use from then on: it has refused the nodes
    /// that were left with an error.
    fn is_exhausted(&self) -> bool {
        false
    }

    /// The work since it was made ready beyond that of an ordinary filter, in units of some 10 ns.
    fn work(&self) -> u64 {
        0
    }

    /// About how many bytes it has found out about nodes.
    fn bytes(&self) -> usize {
        0
    }

    /// What a pod of this class adds, wherever it stands, to what the filter counts over the whole cluster; 0 for a filter
    /// that counts nothing there.
    fn counts(&self, _class: &Class) -> i64 {
        0
    }

    /// As [`Self::filter`], with so much more being counted over the whole cluster than when the filter was prepared.
    ///
    /// # Errors
    /// The refusal.
    fn filter_shifted(&self, nodes: &Snapshot, slot: Slot, _shift: i64) -> Verdict {
        self.filter(nodes, slot)
    }

    /// Keeps in `todo` the nodes that will do and reports the others. One virtual call per column, none per node.
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

    /// Whether it is 0 for each node, so that there is nothing to normalise.
    fn is_nothing(&self) -> bool {
        false
    }

    /// Adds `weight` times the raw score of each node in `todo` to `sums`, position by position.
    fn add_column(&self, nodes: &Snapshot, todo: &[Slot], weight: i64, sums: &mut [i64]) {
        for (sum, &slot) in sums.iter_mut().zip(todo) {
            *sum += weight * self.score(nodes, slot);
        }
    }

    /// The score as one that may fail; the two methods above are not asked of it then.
    fn fallible(&self) -> Option<&dyn FallibleScore> {
        None
    }

    /// What normalises the raw scores where it has to see all of them; then [`Plugin::normalize`] is not used.
    fn normalizer(&self) -> Option<Box<dyn Normalizer>> {
        None
    }
}

/// What filters and scores over domains share: what is counted, where, and what each pod adds. Everything is linear: a
/// domain's count is the sum over its nodes that count, of what the pods on them add.
pub trait Domains: Send + Sync {
    /// What is counted.
    fn terms(&self) -> &[Term];

    /// Whether the node at a position counts for a term, its label apart.
    fn counts_node(&self, _term: u16, _nodes: &Snapshot, _slot: Slot) -> bool {
        true
    }

    /// What a score counts on each node by itself, besides: the sum there, or -1 where the node lacks this label.
    fn locals(&self) -> &[Symbol] {
        &[]
    }

    /// What one pod of a class adds to each term; the numbers from `terms().len()` on are the locals.
    fn amounts(&self, class: &Class) -> Amounts;

    /// What a pod of a class adds to each term that does not stand anywhere, and is only taken to stand on a node that it
    /// is nominated to: upstream's `AddPod` of PreFilterExtensions, which does not count quite like PreFilter.
    fn nominated_amounts(&self, class: &Class) -> Amounts {
        self.amounts(class)
    }

    /// The classes that [`Self::amounts`] may be anything but empty for.
    fn interest(&self) -> Interest {
        Interest::everyone()
    }
}

/// Judges all nodes with the same domains at once, from counts over the whole cluster.
pub trait DomainFilter: Domains {
    /// Whether nodes with these sums will do.
    ///
    /// # Errors
    /// The refusal.
    fn judge(&self, sums: Sums<'_>) -> Verdict;

    /// Whether upstream skips the plugin in PreFilter, because no pod that stands anywhere concerns the class. Every node
    /// will do then anyway; but nominated pods are not counted either.
    fn is_idle(&self, _sums: Sums<'_>) -> bool {
        false
    }

    /// The words for a refusal of this filter.
    fn reasons(&self, detail: u64) -> Vec<String>;

    /// What nodes with these sums lack that this filter refuses, for people to read; empty where it has no measure of it.
    fn lacks(&self, _sums: Sums<'_>) -> Vec<Lack> {
        Vec::new()
    }
}

/// Scores all nodes with the same domains at once, from counts over the whole cluster.
pub trait DomainScore: Domains {
    /// What the score needs to know of all feasible nodes before it looks at any: their sums, and how many share them.
    fn weights(&self, _feasible: &mut dyn Iterator<Item = (Sums<'_>, usize)>) -> Vec<f64> {
        Vec::new()
    }

    /// Whether nothing was counted anywhere, so that upstream skips the plugin in PreScore. Every node has the same score
    /// then; only who reads scores plugin by plugin can tell.
    fn is_idle(&self, _sums: Sums<'_>) -> bool {
        false
    }

    /// The raw score of nodes with these sums; `None` where they are left out of normalising and get 0.
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

/// Maps a raw score into 0..=100 once the feasible nodes are known. Every plugin of kube-scheduler that normalises
/// needs no more of them than their extremes.
pub type Normalize = fn(raw: i64, extremes: Extremes) -> i64;

/// A plugin; a [`Registry`](crate::registry::Registry) holds all of them. Every method has the answer of a plugin
/// without that extension point.
pub trait Plugin: Sync {
    /// The name in configurations, messages and metrics.
    fn name(&self) -> &'static str;

    /// The extension points at which a configuration may enable the plugin, and at which `multiPoint` does. Where
    /// kube-scheduler's own plugins run is in the catalogue of `flotilla_configuration`.
    fn points(&self) -> &'static [Point] {
        &[]
    }

    /// Whether the `args` that a configuration has for the plugin make sense; an empty mapping where it has none. What is
    /// accepted here is what [`Args::of`] reads.
    ///
    /// # Errors
    /// What is wrong, and where. By default anything that is written: the plugin takes no arguments.
    fn check_args(&self, args: &serde_json::Value) -> Result<(), ArgsError> {
        read_args::<NoArgs>(args).map(|NoArgs {}| ())
    }

    /// What the author of these arguments may not expect of them, for people to read.
    fn advise(&self, _args: &serde_json::Value) -> Vec<String> {
        Vec::new()
    }

    /// What the plugin reads of a pod's metadata under these arguments, of its own pod or of others. [`Class::field`] has
    /// these fields and no others: pods that differ in none of them share their verdicts.
    fn pod_fields(&self, _args: &Args) -> Vec<PodField> {
        Vec::new()
    }

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

    /// What may have pods tried again that this plugin refused, by kube-scheduler's labels without API groups: the
    /// resource and what happens to it, such as `NodeAdd` or `StorageClassUpdate`. Empty: any event may.
    ///
    /// Source: `EventsToRegister` at the default feature gates, plus the nodes that go and the namespaces that hints
    /// listen to here and not there.
    fn events(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether an event may make a class schedulable that this plugin refused: the queueing hint. By default any event that
    /// [`Self::events`] names may, as for a plugin of kube-scheduler that registers no hint.
    fn wakes(&self, _event: ClusterEvent<'_>, _class: &Class, _args: &Args) -> bool {
        true
    }

    /// What the plugin reads under these arguments besides pods and nodes; nothing else is watched for it. One that reads
    /// what selects pods is also asked for its hint when that changes, for which kube-scheduler has no event.
    fn reads(&self, _args: &Args) -> &'static [Kind] {
        &[]
    }

    /// Reserve and PreBind: what keeps the plugin's objects, none of which is known yet. `None`: it keeps none.
    fn objects(&self) -> Option<Box<dyn ObjectCache>> {
        None
    }
}
