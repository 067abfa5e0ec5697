//! Why one pod fits nowhere, for other commands.
//!
//! Knows: what they tell of it. Must not know: which command asks.

use std::sync::Arc;

use flotilla_framework::{
    class::PodInfo,
    explain::{Outcome, lack::Lack},
    prepared::Prepared,
    profile::Profile,
    registry::Registry,
};
use serde::Serialize;

use super::{account, answer::name, missing, words, world::World};
use flotilla_cluster::Cluster;

/// What the nodes make of a pod.
#[derive(Debug, Default)]
pub struct Why {
    /// The nodes that refuse it, those of the reason that most of them have first.
    pub refusals: Vec<Refusal>,
    /// What would make the pod fit, in one sentence.
    pub advice: Option<String>,
    /// All that each node lacks, where that is known and no counting over domains stands in the way.
    pub lacks: Vec<(Arc<str>, Vec<Lack>)>,
}

/// Nodes that the same plugin refuses for the same reasons.
#[derive(Debug, Serialize)]
pub struct Refusal {
    /// The plugin; empty where none is noted.
    pub plugin: &'static str,
    /// Its words.
    pub reasons: Vec<String>,
    /// How many nodes there are.
    pub nodes: usize,
    /// What the nodes lack that lack the least, and which they are.
    pub lacks: String,
    /// Their names, sorted.
    pub nearest: Vec<String>,
}

/// What the nodes of a cluster make of a pod; nothing, where it is kept out of the queue.
pub fn why(cluster: &Cluster, pod: &Arc<PodInfo>, profiles: &[Profile], registry: Registry) -> Why {
    let Some(profile) = profiles.iter().find(|profile| profile.scheduler_name == pod.scheduler_name) else {
        return Why::default();
    };
    let mut world = World::new(registry, cluster, profiles);
    if account::held_back(pod, profile, &world).is_some() {
        return Why::default();
    }
    let subject = world.subject(&pod.class);
    let prepared = Prepared::new(registry, profile, &subject.class, &subject.facts, world.snapshot_mut());
    let pages = world.pages(&prepared);
    let account = account::make(pod, profile, &subject, &pages, &mut world, true);
    let refusal = |group: missing::Group<'_>| {
        let nearest = group.misses.first();
        let names = nearest.iter().flat_map(|miss| miss.nodes.iter().map(|&node| node.to_owned())).collect();
        Refusal {
            plugin: group.plugin,
            reasons: group.reasons.to_vec(),
            nodes: group.count,
            lacks: nearest.map(|miss| miss.lacks.clone()).unwrap_or_default(),
            nearest: names,
        }
    };
    let lacks = account.missing.iter().filter_map(|(id, found)| {
        let Some(Outcome::Refused { domain: None, .. }) = account.explanation.nodes.get(id) else { return None };
        let is_whole = !found.is_empty() && found.iter().all(|shortfall| !shortfall.lacks.is_empty());
        let lacks = found.iter().flat_map(|shortfall| shortfall.lacks.iter().cloned()).collect();
        is_whole.then(|| (Arc::from(name(&world, *id)), lacks))
    });
    Why {
        refusals: missing::groups(&account, &world).into_iter().map(refusal).collect(),
        advice: missing::advice(&account, &world),
        lacks: lacks.collect(),
    }
}

/// A lack in words that fit behind "with".
pub fn lack(lack: &Lack) -> String {
    words::lack(lack)
}
