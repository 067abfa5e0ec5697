//! The shortfalls of infeasible nodes, the nearest miss first.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    explain::{
        NodeExplanation,
        lack::{Lack, Shortfall},
    },
    node::NodeId,
};

use super::{account::Account, words, world::World, world::name};

/// Nodes that the same plugin rejects for the same reasons.
#[derive(Debug, PartialEq, Eq)]
pub struct Group<'a> {
    /// The plugin; empty where kube-scheduler records none.
    pub plugin: &'static str,
    /// The plugin's reasons.
    pub reasons: &'a [String],
    /// The number of nodes.
    pub count: usize,
    /// The nodes by shortfall, the nearest miss first.
    pub misses: Vec<Miss<'a>>,
}

/// Nodes with the same shortfall.
#[derive(Debug, PartialEq, Eq)]
pub struct Miss<'a> {
    /// The shortfall as text; empty if the plugin cannot measure it.
    pub lacks: String,
    /// The sorted names of the nodes.
    pub nodes: Vec<&'a str>,
}

/// The distance of a node from feasible; smaller is nearer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Distance {
    lacks: usize,
    /// Other pods must go, or a constraint of the pod must change.
    concerns_pods: bool,
    /// The pod exceeds the allocatable amount, so that no eviction helps.
    is_too_small: bool,
    /// Labels of the node would have to change, and other pods may select by them.
    relabels: bool,
    /// The largest missing amount, in millionths of the request.
    short: i64,
}

impl Distance {
    /// Whether both are equal but for the missing amount.
    pub(crate) fn is_as_near(self, other: Self) -> bool {
        Self { short: other.short, ..self } == other
    }

    pub(crate) fn of<'a>(lacks: impl Iterator<Item = &'a Lack> + Clone) -> Self {
        let part = |lack: &Lack| match lack {
            Lack::Resource { short, request, .. } => {
                i64::try_from(i128::from(*short) * 1_000_000 / i128::from(*request).max(1)).unwrap_or(i64::MAX)
            }
            Lack::Devices(lack) => super::devices::short(lack).saturating_mul(1_000_000),
            _ => 0,
        };
        let too_small =
            |lack: &Lack| matches!(lack, Lack::Resource { request, allocatable, .. } if request > allocatable);
        Self {
            lacks: lacks.clone().count(),
            concerns_pods: lacks
                .clone()
                .any(|lack| matches!(lack, Lack::Skew { .. } | Lack::Away(_) | Lack::Welcome(_))),
            is_too_small: lacks.clone().any(too_small),
            relabels: lacks.clone().any(|lack| matches!(lack, Lack::Label { .. } | Lack::Key(_))),
            short: lacks.map(part).max().unwrap_or(0),
        }
    }
}

type Refused<'a> = (&'static str, &'a Arc<[String]>);

/// Node names by distance and shortfall.
type Misses<'a> = BTreeMap<(Distance, String), Vec<&'a str>>;

/// All infeasible nodes, the most frequent reason first.
pub fn groups<'a>(account: &'a Account, world: &'a World) -> Vec<Group<'a>> {
    let missing: BTreeMap<NodeId, &Vec<Shortfall>> = account.missing.iter().map(|(id, found)| (*id, found)).collect();
    let mut groups: BTreeMap<Refused<'_>, Misses<'_>> = BTreeMap::new();
    for (id, outcome) in &account.explanation.nodes {
        let NodeExplanation::Refused { plugin, reasons, domain, .. } = outcome else { continue };
        let mut found = missing.get(id).into_iter().flat_map(|found| found.iter()).chain(domain);
        // PreFilter results record no plugin. The first plugin that rejects the node supplies its shortfall.
        let own = found.find(|shortfall| plugin.is_none_or(|plugin| shortfall.plugin == plugin));
        let lacks = own.map_or(&[][..], |shortfall| shortfall.lacks.as_slice());
        let words: Vec<String> = lacks.iter().map(words::lack).collect();
        let misses = groups.entry((plugin.unwrap_or_default(), reasons)).or_default();
        misses.entry((Distance::of(lacks.iter()), words::list(&words))).or_default().push(name(world, *id));
    }
    let mut groups: Vec<Group<'_>> = groups.into_iter().map(group).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups
}

fn group<'a>(((plugin, reasons), misses): (Refused<'a>, Misses<'a>)) -> Group<'a> {
    let count = misses.values().map(Vec::len).sum();
    let miss = |((_, lacks), mut nodes): ((Distance, String), Vec<&'a str>)| {
        nodes.sort_unstable();
        Miss { lacks, nodes }
    };
    Group { plugin, reasons, count, misses: misses.into_iter().map(miss).collect() }
}
