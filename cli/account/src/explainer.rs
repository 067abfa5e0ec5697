//! Evaluates pods for the page, without workers.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use flotilla_cluster::Cluster;
use flotilla_framework::{class::PodInfo, explain::NodeExplanation, profile::Profile, registry::Registry};

use super::{
    account,
    account::{Account, Details},
    advice, missing,
    pod_explanation::{PodExplanation, Preemption, Refused},
    preemption,
    world::World,
    world::name,
};

/// Distinct shortfalls for each reason; all other nodes of the reason share one entry.
const MOST_MISSES: usize = 40;

/// Evaluates pods, one at a time.
#[derive(Debug)]
pub struct Explainer {
    world: World,
    profiles: Vec<Profile>,
}

/// No profile has the pod's scheduler name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no profile is responsible for pod {pod}: its scheduler is {scheduler:?}")]
pub struct NoProfile {
    /// `namespace/name`.
    pub pod: String,
    /// `spec.schedulerName`.
    pub scheduler: Arc<str>,
}

impl Explainer {
    /// Evaluates pods of `cluster`, without extenders.
    pub fn new(registry: Registry, cluster: &Cluster, profiles: &[Profile]) -> Self {
        Self { world: World::new(registry, cluster, profiles), profiles: profiles.to_vec() }
    }

    /// Evaluates a pod. A bound pod is removed from its node first.
    ///
    /// # Errors
    /// No profile has the pod's scheduler name.
    pub fn explain(&mut self, pod: &Arc<PodInfo>) -> Result<PodExplanation, NoProfile> {
        let profile = self.profiles.iter().find(|profile| profile.scheduler_name == pod.scheduler_name);
        let profile =
            profile.ok_or_else(|| NoProfile { pod: pod.key(), scheduler: Arc::clone(&pod.scheduler_name) })?;
        let world = &mut self.world;
        if let Some(held) = account::held_back(pod, profile, world) {
            return Ok(explain_account(&held, world));
        }
        let lifted = world.lift(pod);
        let subject = world.subject(&pod.class);
        let mut account = account::make(pod, profile, &subject, &[], world, Details::Ways);
        account.preempted = preemption::make(pod, profile, &subject, &account.explanation, world);
        let explained = explain_account(&account, world);
        if let Some(lifted) = lifted {
            world.put_back(pod, lifted);
        }
        Ok(explained)
    }
}

/// Converts an account to the form that the page reads.
pub fn explain_account(account: &Account, world: &World) -> PodExplanation {
    let Account { gate, explanation, .. } = account;
    let scores = explanation.nodes.values().filter_map(|outcome| match outcome {
        NodeExplanation::Feasible { scores, .. } => Some(scores),
        NodeExplanation::Refused { .. } => None,
    });
    let mut plugins: BTreeSet<&str> = scores.flatten().map(|score| score.plugin).collect();
    let extenders = account.extended.iter().flat_map(|extended| &extended.priorities);
    plugins.extend(extenders.map(|priorities| &*priorities.extender));
    let plugins: Vec<&str> = plugins.into_iter().collect();
    let feasible = explanation.nodes.iter().filter_map(|(&id, outcome)| {
        let NodeExplanation::Feasible { scores, total } = outcome else { return None };
        let mut values = vec![None; plugins.len()];
        let own = scores.iter().map(|score| (score.plugin, score.weighted));
        let others = account.priorities(name(world, id)).filter_map(|(extender, score)| Some((extender, score?.1)));
        for (plugin, score) in own.chain(others) {
            if let Ok(place) = plugins.binary_search(&plugin) {
                *values[place].get_or_insert(0) += score;
            }
        }
        Some((id.0, *total, values))
    });
    let preemption = account.preempted.as_ref().map(|preempted| Preemption {
        message: preempted.message.clone(),
        node: preempted.node.map(|id| id.0),
        candidates: preempted
            .candidates
            .iter()
            .map(|known| (known.node.0, known.victims.iter().map(|pod| world.key(pod)).collect()))
            .collect(),
    });
    PodExplanation {
        gate: gate.as_ref().map(|(plugin, reason)| ((*plugin).to_owned(), reason.clone())),
        error: explanation.error.as_deref().unwrap_or_default().to_owned(),
        message: explanation.message.clone(),
        advice: advised(account),
        nominated: explanation.nominated.map(|id| id.0),
        best: explanation.best().into_iter().map(|id| id.0).collect(),
        feasible: feasible.collect(),
        refused: refused(account, world),
        plugins: plugins.into_iter().map(str::to_owned).collect(),
        preemption,
    }
}

/// The pods in the way, and the advice.
fn advised(account: &Account) -> String {
    let sentences = account.in_the_way.iter().cloned().chain(advice::advice(account));
    sentences.collect::<Vec<_>>().join(" ")
}

fn refused(account: &Account, world: &World) -> Vec<Refused> {
    let places: HashMap<&str, u32> = account.explanation.nodes.keys().map(|&id| (name(world, id), id.0)).collect();
    let numbers = |names: &[&str]| names.iter().filter_map(|name| places.get(name).copied()).collect::<Vec<u32>>();
    let group = |group: missing::Group<'_>| {
        let (nearest, others) = group.misses.split_at(group.misses.len().min(MOST_MISSES));
        let mut misses: Vec<_> = nearest.iter().map(|miss| (miss.lacks.clone(), numbers(&miss.nodes))).collect();
        if !others.is_empty() {
            misses.push(("more than that".to_owned(), others.iter().flat_map(|miss| numbers(&miss.nodes)).collect()));
        }
        Refused { plugin: group.plugin.to_owned(), reasons: group.reasons.to_vec(), misses }
    };
    missing::groups(account, world).into_iter().map(group).collect()
}
