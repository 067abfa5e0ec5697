//! Why one pod is pending, for commands other than `explain`.

use std::sync::Arc;

use flotilla_framework::{
    class::PodInfo,
    explain::{NodeExplanation, lack::Lack},
    prepared::Prepared,
    profile::Profile,
    registry::Registry,
};
use serde::Serialize;

use super::{account, account::Details, advice, missing, words, world::World, world::name};
use flotilla_cluster::Cluster;

/// Why no node is feasible for a pod.
#[derive(Debug, Default)]
pub struct Why {
    /// The infeasible nodes, the most frequent reason first.
    pub refusals: Vec<Refusal>,
    /// One sentence with the smallest changes that would make the pod fit.
    pub advice: Option<String>,
    /// All shortfalls of each node; empty if unknown, or if a filter counts pods per topology domain.
    pub lacks: Vec<(Arc<str>, Vec<Lack>)>,
}

/// Nodes that the same plugin rejects for the same reasons.
#[derive(Debug, Serialize)]
pub struct Refusal {
    /// The plugin; empty where kube-scheduler records none.
    pub plugin: &'static str,
    /// The plugin's reasons.
    pub reasons: Vec<String>,
    /// The number of nodes.
    pub nodes: usize,
    /// The smallest shortfall.
    pub lacks: String,
    /// The sorted names of the nodes with that shortfall.
    pub nearest: Vec<String>,
}

/// Evaluates a pod on all nodes; empty for a gated pod.
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
    let account = account::make(pod, profile, &subject, &pages, &mut world, Details::Ways);
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
        let Some(NodeExplanation::Refused { domain: None, .. }) = account.explanation.nodes.get(id) else {
            return None;
        };
        let is_whole = !found.is_empty() && found.iter().all(|shortfall| !shortfall.lacks.is_empty());
        let lacks = found.iter().flat_map(|shortfall| shortfall.lacks.iter().cloned()).collect();
        is_whole.then(|| (Arc::from(name(&world, *id)), lacks))
    });
    Why {
        refusals: missing::groups(&account, &world).into_iter().map(refusal).collect(),
        advice: advice::advice(&account),
        lacks: lacks.collect(),
    }
}

/// One shortfall as text that follows "with".
pub fn lack(lack: &Lack) -> String {
    words::lack(lack)
}
