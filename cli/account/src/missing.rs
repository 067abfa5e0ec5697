//! What the nodes that refuse a pod lack, the nearest miss first, and what would make the pod fit.
//!
//! Knows: which of two misses is nearer. Must not know: how a lack was found, or how the answer is laid out.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    devices::allocate::lacking::DeviceLack,
    explain::{
        Outcome,
        lack::{Lack, Shortfall},
    },
    extender::Extended,
    node::NodeId,
};

use super::{account::Account, answer::name, words, world::World};

/// How many ways out of being pending are told.
const WAYS: usize = 3;

/// Nodes that the same plugin refuses for the same reasons.
#[derive(Debug, PartialEq, Eq)]
pub struct Group<'a> {
    /// The plugin; empty where upstream notes none.
    pub plugin: &'static str,
    /// Its words.
    pub reasons: &'a [String],
    /// How many nodes there are.
    pub count: usize,
    /// The nodes by what they lack, the nearest miss first.
    pub misses: Vec<Miss<'a>>,
}

/// Nodes that lack the same.
#[derive(Debug, PartialEq, Eq)]
pub struct Miss<'a> {
    /// What they lack; empty where the plugin has no measure of it.
    pub lacks: String,
    /// Their names, sorted.
    pub nodes: Vec<&'a str>,
}

/// How far off a node is; the smaller, the nearer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Distance {
    /// How many things are missing.
    lacks: usize,
    /// Whether the node would have to be larger, so that no pod's leaving helps.
    is_too_small: bool,
    /// Whether labels of the node would have to change, which others may go by.
    relabels: bool,
    /// The largest amount that is missing, in millionths of what is asked for.
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

/// Who refused, and in which words.
type Refused<'a> = (&'static str, &'a Arc<[String]>);

/// The names of nodes by how far off they are and what they lack.
type Misses<'a> = BTreeMap<(Distance, String), Vec<&'a str>>;

/// All nodes that refuse the pod, those of the reason that most of them have first.
pub fn groups<'a>(account: &'a Account, world: &'a World) -> Vec<Group<'a>> {
    let missing: BTreeMap<NodeId, &Vec<Shortfall>> = account.missing.iter().map(|(id, found)| (*id, found)).collect();
    let mut groups: BTreeMap<Refused<'_>, Misses<'_>> = BTreeMap::new();
    for (id, outcome) in &account.explanation.nodes {
        let Outcome::Refused { plugin, reasons, domain, .. } = outcome else { continue };
        let mut found = missing.get(id).into_iter().flat_map(|found| found.iter()).chain(domain);
        // Where PreFilters left only some names, no plugin is noted; the first that refuses the node tells the name.
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

/// What would make a pod fit that fits nowhere, by the nodes that lack the least, in one sentence.
pub fn advice(account: &Account, world: &World) -> Option<String> {
    let has_taken = account.extended.as_ref().is_some_and(Extended::took_any);
    // What extenders would say of a node that plugins refuse is not known.
    if account.explanation.feasible() > 0 || has_taken {
        return None;
    }
    let mut ways: Vec<Way<'_>> =
        account.missing.iter().filter_map(|(id, found)| way(account, world, *id, found)).collect();
    ways.sort_by(|left, right| (left.distance, left.node).cmp(&(right.distance, right.node)));
    let nearest = ways.first()?.distance;
    let mut told: Vec<Way<'_>> = Vec::new();
    for way in ways {
        // Another amount of the same is no other way, and a longer one is no better.
        let is_as_near = Distance { short: nearest.short, ..way.distance } == nearest;
        if is_as_near && told.len() < WAYS && told.iter().all(|known| known.kinds != way.kinds) {
            told.push(way);
        }
    }
    let ways: Vec<String> =
        told.iter().map(|way| format!("on {} with {}", way.node, words::list(&way.words))).collect();
    Some(format!("It would fit {}.", ways.join(", or ")))
}

/// A node and all that it lacks.
struct Way<'a> {
    node: &'a str,
    distance: Distance,
    words: Vec<String>,
    kinds: Vec<String>,
}

/// `None` where the node cannot be made feasible, or it is not known how.
fn way<'a>(account: &Account, world: &'a World, id: NodeId, found: &[Shortfall]) -> Option<Way<'a>> {
    let Some(Outcome::Refused { domain: None, .. }) = account.explanation.nodes.get(&id) else { return None };
    if found.is_empty() || found.iter().any(|shortfall| shortfall.lacks.is_empty()) {
        return None;
    }
    let lacks = found.iter().flat_map(|shortfall| &shortfall.lacks);
    // A node with another label may be in another domain, and one whose taints are tolerated may begin to count.
    let is_fixed = |lack: &Lack| match lack {
        Lack::Name(_) => true,
        Lack::Label { .. } => account.counts_domains,
        Lack::Toleration(_) => account.counts_tainted,
        // Of several requests it is not known how many devices would be enough for all.
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
