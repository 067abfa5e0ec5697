//! The shortfalls of infeasible nodes, the nearest miss first, and advice.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    devices::allocate::lacking::DeviceLack,
    explain::{
        NodeExplanation,
        lack::{Lack, Shortfall},
    },
    extender::Extended,
    node::NodeId,
};

use super::{account::Account, answer::name, words, world::World};

/// Suggestions in one piece of advice.
const WAYS: usize = 3;

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
struct Distance {
    lacks: usize,
    /// The pod exceeds the allocatable amount, so that no eviction helps.
    is_too_small: bool,
    /// Labels of the node would have to change, and other pods may select by them.
    relabels: bool,
    /// The largest missing amount, in millionths of the request.
    short: i64,
}

impl Distance {
    fn of<'a>(lacks: impl Iterator<Item = &'a Lack> + Clone) -> Self {
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
            is_too_small: lacks.clone().any(too_small),
            relabels: lacks.clone().any(|lack| matches!(lack, Lack::Label { .. })),
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

/// One sentence with the smallest changes that would make an infeasible pod fit.
pub fn advice(account: &Account, world: &World) -> Option<String> {
    let has_taken = account.extended.as_ref().is_some_and(Extended::took_any);
    // Extenders were not called for nodes that plugins reject, so their answers are unknown.
    if account.explanation.feasible() > 0 || has_taken {
        return None;
    }
    let mut ways: Vec<Way<'_>> =
        account.missing.iter().filter_map(|(id, found)| way(account, world, *id, found)).collect();
    ways.sort_by(|left, right| (left.distance, left.node).cmp(&(right.distance, right.node)));
    let nearest = ways.first()?.distance;
    let mut told: Vec<Way<'_>> = Vec::new();
    for way in ways {
        // Another amount of the same resource is not a new suggestion, and a larger one is not better.
        let is_as_near = Distance { short: nearest.short, ..way.distance } == nearest;
        if is_as_near && told.len() < WAYS && told.iter().all(|known| known.kinds != way.kinds) {
            told.push(way);
        }
    }
    let ways: Vec<String> =
        told.iter().map(|way| format!("on {} with {}", way.node, words::list(&way.words))).collect();
    Some(format!("It would fit {}.", ways.join(", or ")))
}

struct Way<'a> {
    node: &'a str,
    distance: Distance,
    words: Vec<String>,
    kinds: Vec<String>,
}

/// `None` if no known change makes the node feasible.
fn way<'a>(account: &Account, world: &'a World, id: NodeId, found: &[Shortfall]) -> Option<Way<'a>> {
    let Some(NodeExplanation::Refused { domain: None, .. }) = account.explanation.nodes.get(&id) else { return None };
    if found.is_empty() || found.iter().any(|shortfall| shortfall.lacks.is_empty()) {
        return None;
    }
    let lacks = found.iter().flat_map(|shortfall| &shortfall.lacks);
    // Another label may move the node to another domain. A tolerated taint may make the node count.
    let is_fixed = |lack: &Lack| match lack {
        Lack::Name(_) => true,
        Lack::Label { .. } => account.counts_domains,
        Lack::Toleration(_) => account.counts_tainted,
        // With several requests, the number of devices that suffices for all is unknown.
        Lack::Devices(DeviceLack::Request(lack)) => !lack.is_alone,
        Lack::Devices(_) => true,
        _ => false,
    };
    if lacks.clone().any(is_fixed) {
        return None;
    }
    let kind = |lack: &Lack| match lack {
        Lack::Resource { name, .. } => name.to_string(),
        Lack::Devices(DeviceLack::Request(lack)) => lack.class.to_string(),
        Lack::Label { requirement, .. } => words::lack(&Lack::Label { requirement: requirement.clone(), found: None }),
        other => words::lack(other),
    };
    Some(Way {
        node: name(world, id),
        distance: Distance::of(lacks.clone()),
        words: lacks.clone().map(words::lack).collect(),
        kinds: lacks.map(kind).collect(),
    })
}
